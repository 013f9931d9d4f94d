//! What things on this machine are called where a cloud would have resource ids.

use kiln_types::{DefinitionName, ImageSource, SnapshotName, VersionNumber};

use crate::error::Error;
use crate::runner::MachineKey;

/// The one place that there is.
pub const LOCATION: &str = "local";

/// The resource group that everything here is in, where one is asked for.
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
    Ok(within(id, SNAPSHOT, "snapshot", rule)?.parse()?)
}

pub(crate) fn disk_id(machine: &MachineKey) -> String {
    format!("{DISK}{machine}")
}

/// The machine whose disk it is.
pub(crate) fn parse_disk_id(id: &str) -> Result<MachineKey, Error> {
    let rule = "`/local/disks/MACHINE`";
    Ok(within(id, DISK, "disk", rule)?.parse()?)
}

/// A machine, its interface and its disk: what a machine consists of for who counts parts.
pub(crate) fn part_ids(machine: &MachineKey) -> Vec<String> {
    vec![format!("{MACHINE}{machine}"), format!("{INTERFACE}{machine}"), disk_id(machine)]
}

/// The id of an imported image.
pub fn image_id(name: &str) -> String {
    format!("{IMAGE}{name}")
}

/// The name of an imported image.
pub(crate) fn parse_image_id(id: &str) -> Result<&str, Error> {
    within(id, IMAGE, "image", IMAGE_RULE)
}

pub(crate) fn version_id(line: &DefinitionName, number: &VersionNumber) -> String {
    format!("{GALLERY}{}/images/{}/versions/{number}", line.gallery, line.definition)
}

const IMAGE_RULE: &str =
    "`/local/images/NAME`, `/local/galleries/GALLERY/images/DEFINITION` or this and `/versions/VERSION`";

/// What an id of an image means.
pub(crate) fn parse_image(id: &str) -> Result<ImageSource, Error> {
    let Some(path) = id.strip_prefix(GALLERY) else {
        parse_image_id(id)?;
        return Ok(ImageSource::Other(id.to_owned()));
    };
    let bad = || Error::BadText { noun: "image", text: id.to_owned(), rule: IMAGE_RULE };
    let line = |gallery: &str, definition: &str| {
        let gallery = gallery.parse()?;
        Ok::<_, Error>(DefinitionName { gallery, definition: definition.to_owned() })
    };
    match path.split('/').collect::<Vec<_>>()[..] {
        [gallery, "images", definition] => Ok(ImageSource::Definition(line(gallery, definition)?)),
        [gallery, "images", definition, "versions", number] => {
            Ok(ImageSource::ExactVersion(line(gallery, definition)?, number.parse().map_err(|_| bad())?))
        }
        _ => Err(bad()),
    }
}

/// What the node of a machine says as its `spec.providerID`: in Azure's form, as its metadata service answers in Azure's too, so that a pool
/// finds its nodes by it.
pub fn provider_id(machine: &MachineKey) -> String {
    let provider = format!("azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute");
    match machine.instance() {
        Some((pool, instance)) => format!("{provider}/virtualMachineScaleSets/{pool}/virtualMachines/{instance}"),
        None => format!("{provider}/virtualMachines/{machine}"),
    }
}

fn within<'a>(id: &'a str, prefix: &str, noun: &'static str, rule: &'static str) -> Result<&'a str, Error> {
    let name = id.strip_prefix(prefix).filter(|name| !name.is_empty());
    name.ok_or_else(|| Error::BadText { noun, text: id.to_owned(), rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_id_says_whether_it_is_a_version_a_line_or_a_base() {
        let line = DefinitionName { gallery: "SIG_a".parse().unwrap(), definition: "pool-image".into() };
        let number: VersionNumber = "2026.11.05".parse().unwrap();
        let exact = ImageSource::ExactVersion(line.clone(), number.clone());
        assert_eq!(parse_image(&version_id(&line, &number)).unwrap(), exact);
        assert_eq!(parse_image("/local/galleries/SIG_a/images/pool-image").unwrap(), ImageSource::Definition(line));
        assert_eq!(parse_image("/local/images/debian").unwrap(), ImageSource::Other("/local/images/debian".into()));
        for bad in ["", "/local/images/", "/subscriptions/x", "/local/galleries/a/images/b/versions/x"] {
            assert!(parse_image(bad).is_err(), "{bad}");
        }
    }
}
