//! The nouns that several crates share, and the ports of a cloud.
//!
//! Nouns are plain values. Those that go into a journal are serialisable, and a name is parsed again when it is read back, so that a
//! value of type [`PoolName`] is always one that Azure accepts. The ports are traits with the operations that kiln needs, in kiln's
//! terms: [`Factory`] is what the prototype operation needs of a cloud, [`Machines`] what a launch needs, [`ResourceGroup`] and
//! [`ImageCatalog`] what detection and image selection read. An edge implements them and decides which requests an operation costs.
//!
//! Names, versions and taints fail to parse with one error type, [`BadName`]; [`FactoryError`] classifies the errors of an edge.

mod access;
mod canary;
mod custom_data;
mod error;
pub mod error_chain;
mod factory;
mod freeze;
mod fstab;
pub mod hash;
mod image;
mod image_catalog;
mod inspection;
mod instance;
mod jitter;
mod join_credential;
mod join_mode;
pub mod json;
mod machines;
mod name;
mod node;
mod node_name;
mod operation;
mod pool;
mod protected_settings;
mod provider_id;
mod recipe;
mod resource_group;
mod secret;
mod snapshot;
pub mod tags;
mod taint;
mod version;
pub mod xml;

pub use access::{AccessScope, Allowance, Grant, Linked, Lock, Need, NeededFor, allowances};
pub use canary::{Canary, CanaryBootstrap, CanaryName, SmokeTest};
pub use custom_data::{CustomData, sha256_hex};
pub use error::{ErrorClass, FactoryError};
pub use factory::Factory;
pub use freeze::{FREEZE_WINDOW, FreezeEnd, FreezeReport, THAW_TIMER, ThawReport};
pub use fstab::{FstabEntry, parse as parse_fstab};
pub use image::{
    Architecture, DefinitionIdentity, DefinitionName, Gallery, Generation, ImageDefinition, ImageFeatures,
    ImageVersion, Publication, RegionProgress, SecurityType, Storage, TargetRegion, VersionState, same_region,
};
pub use image_catalog::{ImageCatalog, PublishedVersion};
pub use inspection::{Ancestor, DiskUse, FileLine, FirstBootUnit, Inspection, SecretPlace};
pub use instance::{Instance, PowerDown, PowerState, Protection};
pub use jitter::Jitter;
pub use join_credential::{BadTokenId, JoinCredential, KeepOrDrop, RefuseReason, TokenId, clone_credential};
pub use join_mode::{BadJoinMode, JoinMode, RecipeRunner};
pub use machines::{Machine, MachineDisk, MachineSpec, MachineState, Machines, Priority};
pub use name::{BadName, GalleryName, InstanceId, MachineName, NodeName, PoolName, SnapshotName, is_dns_label};
pub use node::{Node, NodeCondition, NodeSystem, Readiness};
pub use node_name::{instance_from_node_name, node_name_of};
pub use operation::{Failure, OperationHandle, OperationState, Progress, Revision};
pub use pool::{OperatingSystem, Orchestration, Plan, Pool, Provisioning, UpgradeMode};
pub use protected_settings::{BadProtectedSettings, ProtectedSettings};
pub use provider_id::{BadProviderId, ProviderId};
pub use recipe::{Extension, ImageSource, MarketplaceImage, NO_OP_CUSTOM_DATA, Recipe, RecipeChange, SavedExtension};
pub use resource_group::{Network, Placement, ResourceGroup, Sourced};
pub use secret::{Secret, SecretBytes};
pub use snapshot::{OsDisk, Snapshot, SnapshotRequest};
pub use tags::{CANARY_TAG, LAUNCH_DONE, LAUNCH_TAG, OWNER_TAG, Tags};
pub use taint::Taint;
pub use version::VersionNumber;
