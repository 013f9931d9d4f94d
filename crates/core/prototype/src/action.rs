//! Actions: instructions for an edge, with all the values that it needs.

use kiln_types::{
    Canary, Gallery, ImageDefinition, Instance, Pool, PowerDown, Protection, Publication, RecipeChange, Revision,
    SnapshotRequest, Tags, VersionNumber,
};

/// An action. Every action is idempotent. Those with a pool, an instance or a revision fail if the resource changed since it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    TagPool {
        pool: Box<Pool>,
        tags: Tags,
    },
    SaveRecipe,
    CreateGallery(Gallery),
    CreateDefinition(Box<ImageDefinition>),
    DeleteVersion(VersionNumber),
    HoldNode,
    ReleaseNode,
    SetProtection {
        instance: Box<Instance>,
        protection: Protection,
    },
    /// Sets the donor's protection at whatever revision it is.
    RestoreProtection(Protection),
    Drain,
    InstallFirstBoot,
    PowerOff(PowerDown),
    Start,
    Snapshot(SnapshotRequest),
    /// Freezes the donor's file systems, creates the snapshot and thaws them.
    LiveSnapshot(SnapshotRequest),
    /// Thaws the donor's file systems if they are frozen.
    Thaw,
    DeleteSnapshot,
    Publish(Box<Publication>),
    CreateCanary(Canary),
    /// Creates the pod that tests the canary, on its node.
    RunSmokeTest,
    DeleteCanary,
    TagDefinition {
        definition: Box<ImageDefinition>,
        tags: Tags,
    },
    Include(VersionNumber),
    SetRecipe {
        change: RecipeChange,
        revision: Revision,
    },
    RemoveExtension(String),
    AddInstances {
        pool: Box<Pool>,
        more: u32,
    },
}
