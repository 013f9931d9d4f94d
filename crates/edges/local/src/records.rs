//! The documents of the state folder.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kiln_types::{
    DefinitionName, Gallery, ImageDefinition, ImageSource, InstanceId, PoolName, Protection, Secret, SnapshotName,
    Storage, Tags, VersionNumber,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::layers::{Chain, Disk};
use crate::power::{Kind, MachineKey};
use crate::size::Size;
use crate::store::Record;

/// Custom data in a document, which its owner alone can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept(pub(crate) Secret);

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Secret::new(text)))
    }
}

/// A base that disks stand on, outside the state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageRecord {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) base: PathBuf,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolRecord {
    pub(crate) name: PoolName,
    pub(crate) revision: u64,
    pub(crate) size: Size,
    /// The number of the next instance. None is given twice.
    pub(crate) next: u64,
    /// The instances that it is told to have. One without a machine is still to be made, a machine that is not here is to go.
    pub(crate) members: BTreeSet<u64>,
    /// Counts the changes of image and custom data.
    pub(crate) model: u64,
    pub(crate) image: ImageSource,
    pub(crate) custom_data: Option<Kept>,
    pub(crate) tags: Tags,
    /// It goes once its machines are gone.
    pub(crate) deleting: bool,
}

/// A machine, of a pool or alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineRecord {
    pub(crate) name: MachineKey,
    pub(crate) revision: u64,
    pub(crate) place: Option<Place>,
    pub(crate) computer_name: String,
    pub(crate) vm_id: String,
    pub(crate) kind: Kind,
    pub(crate) number: u16,
    pub(crate) size: Size,
    pub(crate) disk: Disk,
    pub(crate) image: ImageSource,
    pub(crate) custom_data: Option<Kept>,
    pub(crate) protection: Protection,
    pub(crate) tags: Tags,
    /// Whether it should be on.
    pub(crate) on: bool,
    /// Whether it was given up to be found hardware anew when it was switched off.
    pub(crate) deallocated: bool,
    /// Whether it was ever switched on: until then it is being made.
    pub(crate) made: bool,
}

/// Where in a pool a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) pool: PoolName,
    pub(crate) instance: u64,
    /// The pool's model that it was made from.
    pub(crate) model: u64,
}

impl Place {
    pub(crate) fn id(&self) -> InstanceId {
        instance_id(self.instance)
    }
}

/// A number is an id by its grammar.
pub(crate) fn instance_id(number: u64) -> InstanceId {
    number.to_string().parse().expect("digits are an instance id")
}

/// A copy of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotRecord {
    pub(crate) name: SnapshotName,
    pub(crate) source: String,
    pub(crate) kind: Kind,
    pub(crate) chain: Chain,
    pub(crate) created: String,
    pub(crate) tags: Tags,
}

/// A version of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionRecord {
    pub(crate) line: DefinitionName,
    pub(crate) number: VersionNumber,
    pub(crate) source: String,
    pub(crate) kind: Kind,
    pub(crate) chain: Chain,
    pub(crate) regions: Vec<String>,
    pub(crate) storage: Storage,
    pub(crate) excluded: bool,
    pub(crate) created: String,
    pub(crate) tags: Tags,
}

macro_rules! record {
    ($type:ty, $folder:literal, $noun:literal, $key:expr) => {
        impl Record for $type {
            const FOLDER: &'static str = $folder;
            const NOUN: &'static str = $noun;

            fn key(&self) -> String {
                let key: fn(&$type) -> String = $key;
                key(self)
            }
        }
    };
}

record!(ImageRecord, "images", "image", |image| image.name.clone());
record!(PoolRecord, "pools", "pool", |pool| pool.name.to_string());
record!(MachineRecord, "machines", "machine", |machine| machine.name.to_string());
record!(SnapshotRecord, "snapshots", "snapshot", |snapshot| snapshot.name.to_string());
record!(Gallery, "galleries", "gallery", |gallery| gallery.name.to_string());
record!(ImageDefinition, "lines", "image definition", |line| line_key(&line.name));
record!(VersionRecord, "versions", "image version", |version| version_key(&version.line, &version.number));

/// `~` is in no name.
pub(crate) fn line_key(line: &DefinitionName) -> String {
    format!("{}~{}", line.gallery, line.definition)
}

pub(crate) fn version_key(line: &DefinitionName, number: &VersionNumber) -> String {
    format!("{}~{number}", line_key(line))
}
