//! The names of what the operation makes. They are kamino's, so that its users switch in place.

use jiff::Timestamp;
use jiff::tz::Offset;
use kiln_types::{
    BadName, DefinitionIdentity, DefinitionName, Gallery, GalleryName, PoolName, SnapshotName, VersionNumber,
};

/// The publisher of every line that the operation makes.
pub const PUBLISHER: &str = "VMSS-Prototype-Pattern";

/// What a gallery that the operation makes says of itself.
pub const GALLERY_DESCRIPTION: &str = "Kamino VMSS images";

/// The tag with the node that a version was made of.
pub const BUILT_FROM_TAG: &str = "BuiltFrom";

/// The tag with the time at which a version's disk was copied.
pub const BUILT_AT_TAG: &str = "BuiltAt";

/// The tag of a pool with the run that works on it.
pub const RUN_TAG: &str = "kiln-run";

/// The tag of a pool whose recipe is down to the image: no custom data, no script.
pub const RECIPE_TAG: &str = "kiln-recipe";

/// What [`RECIPE_TAG`] says then.
pub const RECIPE_OF_IMAGE: &str = "image";

/// The tag of a copy with the version that is made of it.
pub const VERSION_TAG: &str = "kiln-version";

/// The tag of a line with the versions that nobody may get, by spaces.
pub const BAD_TAG: &str = "kiln-bad";

/// The gallery of a resource group. kamino writes `-` as `_`; here everything that a gallery's name cannot hold is written so.
pub fn gallery(resource_group: &str) -> Result<GalleryName, BadName> {
    let plain: String = resource_group.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("SIG_{plain}").parse()
}

/// The gallery of a resource group, to be made in a region.
pub fn new_gallery(resource_group: &str, location: &str) -> Result<Gallery, BadName> {
    Ok(Gallery {
        name: gallery(resource_group)?,
        location: location.to_owned(),
        description: GALLERY_DESCRIPTION.to_owned(),
    })
}

/// The image line of a pool.
pub fn line(resource_group: &str, pool: &PoolName) -> Result<DefinitionName, BadName> {
    Ok(DefinitionName { gallery: gallery(resource_group)?, definition: format!("kamino-{pool}-prototype") })
}

/// What the image line of a pool is found by.
pub fn definition_identity(resource_group: &str, pool: &PoolName) -> DefinitionIdentity {
    DefinitionIdentity {
        publisher: PUBLISHER.to_owned(),
        offer: resource_group.to_owned(),
        sku: pool.as_str().to_owned(),
    }
}

/// The copy of a donor's disk while a version is made of it.
pub fn snapshot(pool: &PoolName) -> Result<SnapshotName, BadName> {
    format!("snapshot_{pool}").parse()
}

/// The version that a run started at this time makes: its UTC day.
pub fn version_of_day(started: Timestamp) -> VersionNumber {
    let day = Offset::UTC.to_datetime(started).date();
    // A year before 0 would print a sign; no run starts then.
    let written = format!("{:04}.{:02}.{:02}", day.year().max(0), day.month(), day.day());
    written.parse().expect("three short numbers are a version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> PoolName {
        "k8s-agentpool1-26100436-vmss".parse().unwrap()
    }

    #[test]
    fn names_are_those_that_kamino_gives() {
        let group = "kubernetes-westus2-17813";
        assert_eq!(gallery(group).unwrap().as_str(), "SIG_kubernetes_westus2_17813");
        assert_eq!(line(group, &pool()).unwrap().definition, "kamino-k8s-agentpool1-26100436-vmss-prototype");
        assert_eq!(snapshot(&pool()).unwrap().as_str(), "snapshot_k8s-agentpool1-26100436-vmss");
        let identity = definition_identity(group, &pool());
        assert_eq!((identity.offer.as_str(), identity.sku.as_str()), (group, "k8s-agentpool1-26100436-vmss"));
    }

    #[test]
    fn what_a_gallery_name_cannot_hold_becomes_an_underscore() {
        assert_eq!(gallery("My.Group(1)x").unwrap().as_str(), "SIG_My_Group_1_x");
    }

    #[test]
    fn a_group_whose_gallery_would_end_in_an_underscore_is_refused_by_name() {
        let error = gallery("group-").unwrap_err();
        assert_eq!(error.input, "SIG_group_");
    }

    #[test]
    fn a_day_is_a_utc_day_and_written_with_its_zeros() {
        let day = |text: &str| version_of_day(text.parse().unwrap()).to_string();
        assert_eq!(day("2026-11-15T23:59:59Z"), "2026.11.15");
        assert_eq!(day("2026-11-16T00:00:00Z"), "2026.11.16");
        assert_eq!(day("2026-03-01T01:30:00+02:00"), "2026.02.28");
    }
}
