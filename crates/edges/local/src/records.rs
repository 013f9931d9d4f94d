//! The documents of the state folder.

use std::collections::BTreeSet;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{
    DefinitionName, Gallery, ImageDefinition, ImageSource, InstanceId, PoolName, Protection, Secret, SecretBytes,
    SnapshotName, Storage, Tags, VersionNumber,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::layers::{Chain, Disk};
use crate::runner::{MachineKey, MachineKind};
use crate::size::Size;
use crate::store::Record;

/// Custom data in a document, which only its owner can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredSecret(pub(crate) Secret);

impl Serialize for StoredSecret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for StoredSecret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Secret::new(text)))
    }
}

/// User data in a document, in base64. Only the owner of the document can read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredUserData(pub(crate) SecretBytes);

impl StoredUserData {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.expose().is_empty()
    }
}

impl Serialize for StoredUserData {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(self.0.expose()))
    }
}

impl<'de> Deserialize<'de> for StoredUserData {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)?;
        Ok(Self(SecretBytes::new(bytes)))
    }
}

/// An imported image: the base of disks, outside of the state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageRecord {
    pub(crate) name: String,
    pub(crate) kind: MachineKind,
    pub(crate) base: PathBuf,
}

/// A pool and its wanted instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolRecord {
    pub(crate) name: PoolName,
    pub(crate) revision: u64,
    pub(crate) size: Size,
    /// The number of the next instance. Numbers are never reused.
    pub(crate) next: u64,
    /// The wanted instances. A machine is created for each, and machines of other instances are removed.
    pub(crate) members: BTreeSet<u64>,
    /// The number of changes to image and custom data.
    pub(crate) model: u64,
    pub(crate) image: ImageSource,
    pub(crate) custom_data: Option<StoredSecret>,
    /// What new machines get.
    #[serde(default, skip_serializing_if = "StoredUserData::is_empty")]
    pub(crate) user_data: StoredUserData,
    pub(crate) tags: Tags,
    /// The pool is removed after its machines.
    pub(crate) deleting: bool,
}

/// A machine, in a pool or outside of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineRecord {
    pub(crate) name: MachineKey,
    pub(crate) revision: u64,
    pub(crate) membership: Option<Membership>,
    pub(crate) computer_name: String,
    pub(crate) vm_id: String,
    pub(crate) kind: MachineKind,
    pub(crate) number: u16,
    pub(crate) size: Size,
    pub(crate) disk: Disk,
    pub(crate) image: ImageSource,
    pub(crate) custom_data: Option<StoredSecret>,
    /// What the metadata service returns to it.
    #[serde(default, skip_serializing_if = "StoredUserData::is_empty")]
    pub(crate) user_data: StoredUserData,
    pub(crate) protection: Protection,
    pub(crate) tags: Tags,
    /// Whether it should be running.
    pub(crate) on: bool,
    /// Whether it was deallocated when it was stopped.
    pub(crate) deallocated: bool,
    /// Whether it was ever started.
    pub(crate) provisioned: bool,
}

/// A machine's place in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) pool: PoolName,
    pub(crate) instance: u64,
    /// The pool's model when the machine was created.
    pub(crate) model: u64,
}

impl Membership {
    pub(crate) fn id(&self) -> InstanceId {
        instance_id(self.instance)
    }
}

/// The id of an instance with this number.
pub(crate) fn instance_id(number: u64) -> InstanceId {
    number.to_string().parse().expect("digits are an instance id")
}

/// A snapshot of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotRecord {
    pub(crate) name: SnapshotName,
    pub(crate) source: String,
    pub(crate) kind: MachineKind,
    pub(crate) chain: Chain,
    pub(crate) created: String,
    pub(crate) tags: Tags,
}

/// An image version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionRecord {
    pub(crate) definition: DefinitionName,
    pub(crate) number: VersionNumber,
    pub(crate) source: String,
    pub(crate) kind: MachineKind,
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
record!(ImageDefinition, "definitions", "image definition", |definition| definition_key(&definition.name));
record!(VersionRecord, "versions", "image version", |version| version_key(&version.definition, &version.number));

/// The key of an image definition. No name contains `~`.
pub(crate) fn definition_key(name: &DefinitionName) -> String {
    format!("{}~{}", name.gallery, name.definition)
}

pub(crate) fn version_key(definition: &DefinitionName, number: &VersionNumber) -> String {
    format!("{}~{number}", definition_key(definition))
}
