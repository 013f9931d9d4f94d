//! Acts: what an edge is told to do, with everything that it needs to know.

use kiln_types::{
    Canary, Gallery, ImageDefinition, Instance, Pool, PowerDown, Protection, Publication, RecipeChange, Revision,
    SnapshotRequest, Tags, VersionNumber,
};

/// An act. Doing it twice is as good as doing it once.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Writes tags of the pool, if it is still what was read.
    TagPool {
        /// The pool as it was read.
        pool: Box<Pool>,
        tags: Tags,
    },
    /// Keeps the recipe of the pool, with the custom data that is on the donor.
    SaveRecipe,
    /// Makes the gallery.
    CreateGallery(Gallery),
    /// Makes the line.
    CreateDefinition(Box<ImageDefinition>),
    /// Deletes a version.
    DeleteVersion(VersionNumber),
    /// Cordons the node and keeps it from the autoscaler.
    HoldNode,
    /// Gives the node back as it was.
    ReleaseNode,
    /// Sets the donor's protection, if the instance is still what was read.
    SetProtection {
        /// The instance as it was read.
        instance: Box<Instance>,
        /// What it shall be.
        protection: Protection,
    },
    /// Makes pods leave.
    Drain,
    /// Puts the first-boot unit on the donor. It wipes nothing.
    InstallFirstBoot,
    /// Turns the donor off.
    PowerOff(PowerDown),
    /// Turns the donor on.
    Start,
    /// Copies the donor's disk.
    Snapshot(SnapshotRequest),
    /// Deletes the copy.
    DeleteSnapshot,
    /// Makes the version.
    Publish(Box<Publication>),
    /// Makes the throw-away pool.
    CreateCanary(Canary),
    /// Deletes the throw-away pool.
    DeleteCanary,
    /// Writes tags of the line.
    TagDefinition {
        /// The line as it was read.
        line: Box<ImageDefinition>,
        tags: Tags,
    },
    /// Makes the version what `latest` means.
    Include(VersionNumber),
    /// Changes what new instances are made from, if the pool is still what was read.
    SetRecipe {
        /// What changes.
        change: RecipeChange,
        /// What was read.
        revision: Revision,
    },
    /// Removes an extension from the recipe.
    RemoveExtension(String),
    /// Makes the pool larger, if it is still what was read.
    AddInstances {
        /// The pool as it was read.
        pool: Box<Pool>,
        /// By how many.
        more: u32,
    },
}
