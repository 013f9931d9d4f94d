//! The names of the resources that a run creates. They are kamino's, so that its users can switch in place.

use jiff::Timestamp;
use jiff::tz::Offset;
use kiln_types::{
    BadName, DefinitionIdentity, DefinitionName, Gallery, GalleryName, PoolName, SnapshotName, Tags, VersionNumber,
};

/// The publisher of every image definition that kiln creates.
pub const PUBLISHER: &str = "VMSS-Prototype-Pattern";

/// The description of a gallery that kiln creates.
pub const GALLERY_DESCRIPTION: &str = "Kamino VMSS images";

/// The name of a resource group's gallery. kamino replaces `-` by `_`; kiln replaces every character that gallery names do not allow.
pub fn gallery(resource_group: &str) -> Result<GalleryName, BadName> {
    let plain: String = resource_group.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("SIG_{plain}").parse()
}

/// The gallery of a resource group, to be created in a region.
pub fn new_gallery(resource_group: &str, location: &str) -> Result<Gallery, BadName> {
    Ok(Gallery {
        name: gallery(resource_group)?,
        location: location.to_owned(),
        description: GALLERY_DESCRIPTION.to_owned(),
        tags: Tags::new(),
    })
}

/// The name of a pool's image definition.
pub fn definition(resource_group: &str, pool: &PoolName) -> Result<DefinitionName, BadName> {
    Ok(DefinitionName { gallery: gallery(resource_group)?, definition: format!("kamino-{pool}-prototype") })
}

/// Publisher, offer and SKU of a pool's image definition.
pub fn definition_identity(resource_group: &str, pool: &PoolName) -> DefinitionIdentity {
    DefinitionIdentity {
        publisher: PUBLISHER.to_owned(),
        offer: resource_group.to_owned(),
        sku: pool.as_str().to_owned(),
    }
}

/// The name of the snapshot from which a pool's next version is created.
pub fn snapshot(pool: &PoolName) -> Result<SnapshotName, BadName> {
    format!("snapshot_{pool}").parse()
}

/// The version that a run started at this time creates: its UTC day.
pub fn version_of_day(started: Timestamp) -> VersionNumber {
    let day = Offset::UTC.to_datetime(started).date();
    // A year before 0 would print with a sign.
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
    fn names_are_the_same_as_kaminos() {
        let group = "kubernetes-westus2-17813";
        assert_eq!(gallery(group).unwrap().as_str(), "SIG_kubernetes_westus2_17813");
        assert_eq!(definition(group, &pool()).unwrap().definition, "kamino-k8s-agentpool1-26100436-vmss-prototype");
        assert_eq!(snapshot(&pool()).unwrap().as_str(), "snapshot_k8s-agentpool1-26100436-vmss");
        let identity = definition_identity(group, &pool());
        assert_eq!((identity.offer.as_str(), identity.sku.as_str()), (group, "k8s-agentpool1-26100436-vmss"));
    }

    #[test]
    fn characters_that_gallery_names_do_not_allow_become_underscores() {
        assert_eq!(gallery("My.Group(1)x").unwrap().as_str(), "SIG_My_Group_1_x");
    }

    #[test]
    fn gallery_name_that_would_end_in_an_underscore_is_rejected() {
        let error = gallery("group-").unwrap_err();
        assert_eq!(error.input, "SIG_group_");
    }

    #[test]
    fn version_is_the_utc_day_with_leading_zeros() {
        let day = |text: &str| version_of_day(text.parse().unwrap()).to_string();
        assert_eq!(day("2026-11-15T23:59:59Z"), "2026.11.15");
        assert_eq!(day("2026-11-16T00:00:00Z"), "2026.11.16");
        assert_eq!(day("2026-03-01T01:30:00+02:00"), "2026.02.28");
    }
}
