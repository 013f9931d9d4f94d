//! The ids of local resources, in place of a cloud's resource ids.

use kiln_types::{DefinitionName, ImageSource, SnapshotName, VersionNumber};

use crate::error::Error;
use crate::runner::MachineKey;

/// The only location.
pub const LOCATION: &str = "local";

/// The resource group of all local resources.
pub const GROUP: &str = "local";

const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

const SNAPSHOT: &str = "/local/snapshots/";
const DISK: &str = "/local/disks/";
const GALLERY: &str = "/local/galleries/";
const IMAGE: &str = "/local/images/";
const INTERFACE: &str = "/local/interfaces/";
const MACHINE: &str = "/local/machines/";

pub(crate) fn snapshot_id(name: &SnapshotName) -> String {
    format!("{SNAPSHOT}{name}")
}

pub(crate) fn parse_snapshot_id(id: &str) -> Result<SnapshotName, Error> {
    let rule = "`/local/snapshots/NAME`";
    Ok(strip_prefix(id, SNAPSHOT, "snapshot", rule)?.parse()?)
}

pub(crate) fn disk_id(machine: &MachineKey) -> String {
    format!("{DISK}{machine}")
}

/// The machine with this disk.
pub(crate) fn parse_disk_id(id: &str) -> Result<MachineKey, Error> {
    let rule = "`/local/disks/MACHINE`";
    Ok(strip_prefix(id, DISK, "disk", rule)?.parse()?)
}

/// The ids of a machine, its network interface and its disk.
pub(crate) fn part_ids(machine: &MachineKey) -> Vec<String> {
    vec![format!("{MACHINE}{machine}"), format!("{INTERFACE}{machine}"), disk_id(machine)]
}

/// The id of an imported image.
pub fn image_id(name: &str) -> String {
    format!("{IMAGE}{name}")
}

/// The name of an imported image.
pub(crate) fn parse_image_id(id: &str) -> Result<&str, Error> {
    strip_prefix(id, IMAGE, "image", IMAGE_RULE)
}

pub(crate) fn version_id(definition: &DefinitionName, number: &VersionNumber) -> String {
    format!("{GALLERY}{}/images/{}/versions/{number}", definition.gallery, definition.definition)
}

const IMAGE_RULE: &str = "`/local/images/NAME`, `/local/galleries/GALLERY/images/DEFINITION` or `/local/galleries/GALLERY/images/DEFINITION/versions/VERSION`";

/// The image with an id.
pub(crate) fn parse_image(id: &str) -> Result<ImageSource, Error> {
    let Some(path) = id.strip_prefix(GALLERY) else {
        parse_image_id(id)?;
        return Ok(ImageSource::Other(id.to_owned()));
    };
    let bad = || Error::Invalid { noun: "image", text: id.to_owned(), rule: IMAGE_RULE };
    let name = |gallery: &str, definition: &str| {
        let gallery = gallery.parse()?;
        Ok::<_, Error>(DefinitionName { gallery, definition: definition.to_owned() })
    };
    match path.split('/').collect::<Vec<_>>()[..] {
        [gallery, "images", definition] => Ok(ImageSource::Definition(name(gallery, definition)?)),
        [gallery, "images", definition, "versions", number] => {
            Ok(ImageSource::ExactVersion(name(gallery, definition)?, number.parse().map_err(|_| bad())?))
        }
        _ => Err(bad()),
    }
}

/// The `spec.providerID` of a machine's node. It has Azure's form, like the answers of the local metadata service, so that nodes are matched
/// to their instances as on Azure.
pub fn provider_id(machine: &MachineKey) -> String {
    let provider = format!("azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute");
    match machine.instance() {
        Some((pool, instance)) => format!("{provider}/virtualMachineScaleSets/{pool}/virtualMachines/{instance}"),
        None => format!("{provider}/virtualMachines/{machine}"),
    }
}

fn strip_prefix<'a>(id: &'a str, prefix: &str, noun: &'static str, rule: &'static str) -> Result<&'a str, Error> {
    let name = id.strip_prefix(prefix).filter(|name| !name.is_empty());
    name.ok_or_else(|| Error::Invalid { noun, text: id.to_owned(), rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_id_names_a_version_a_definition_or_an_imported_image() {
        let definition = DefinitionName { gallery: "SIG_a".parse().unwrap(), definition: "pool-image".into() };
        let number: VersionNumber = "2026.11.05".parse().unwrap();
        let exact = ImageSource::ExactVersion(definition.clone(), number.clone());
        assert_eq!(parse_image(&version_id(&definition, &number)).unwrap(), exact);
        assert_eq!(
            parse_image("/local/galleries/SIG_a/images/pool-image").unwrap(),
            ImageSource::Definition(definition)
        );
        assert_eq!(parse_image("/local/images/debian").unwrap(), ImageSource::Other("/local/images/debian".into()));
        for bad in ["", "/local/images/", "/subscriptions/x", "/local/galleries/a/images/b/versions/x"] {
            assert!(parse_image(bad).is_err(), "{bad}");
        }
    }
}
