//! Ports: the nouns and traits of a cloud that makes VMs from a recipe.
//!
//! Nouns are plain values that go into journals, so each of them is serialisable. [`Factory`] is what the prototype operation needs of a
//! cloud, [`Machines`] what a launch needs. Both speak the engine's verbs; which requests a verb costs is the edge's affair.

mod access;
mod canary;
mod error;
pub mod error_chain;
mod factory;
pub mod hash;
mod image;
mod instance;
pub mod json;
mod jitter;
mod landscape;
mod machines;
mod name;
mod operation;
mod pool;
mod recipe;
mod secret;
mod shelves;
mod snapshot;
mod version;

pub use access::{AccessScope, Allowance, Grant, Linked, Need, NeededFor, allowances};
pub use canary::{BadCanary, CANARY_TAG, Canary, CanaryName};
pub use error::{ErrorClass, FactoryError};
pub use factory::Factory;
pub use image::{
    Architecture, DefinitionIdentity, DefinitionName, Gallery, Generation, ImageDefinition, ImageVersion, Publication,
    RegionProgress, SecurityType, Storage, VersionState,
};
pub use instance::{Instance, PowerDown, PowerState, Protection};
pub use jitter::Jitter;
pub use landscape::{Landscape, Network, Placement, Seen};
pub use machines::{
    LAUNCH_DONE, LAUNCH_TAG, Machine, MachineDisk, MachineSpec, MachineState, Machines, OWNER_TAG, Priority,
};
pub use name::{BadName, GalleryName, InstanceId, MachineName, PoolName, SnapshotName};
pub use operation::{Failure, OperationHandle, OperationState, Progress, Revision};
pub use pool::{OperatingSystem, Orchestration, Plan, Pool, Provisioning, Tags, UpgradeMode};
pub use recipe::{Extension, ImageSource, MarketplaceImage, NO_OP_CUSTOM_DATA, Recipe, RecipeChange, SavedExtension};
pub use secret::SecretText;
pub use shelves::{PublishedVersion, Shelves};
pub use snapshot::{OsDisk, Snapshot, SnapshotRequest};
pub use version::{BadVersion, VersionNumber};
