//! Rollback: which version new nodes get instead, and how automatic runs are prevented from creating the same version again.
//!
//! A rollback writes tags on the image definition first: the versions it rejects ([`RejectedVersion`]) and the [`Pause`] of the pool.
//! They serve as its journal, see [`plan_rollback`]. Later runs check donors against the rejected versions with [`same_patch`].

mod decide;
mod patch;
mod pause;
mod plan;
mod rejected;

pub use decide::{RollbackInput, RollbackRequest, RollbackTarget, plan_rollback};
pub use patch::{Fingerprint, PatchLevel, RejectedEvidence, SamePatch, same_patch};
pub use pause::{Pause, new_pause, pause_until, unpause};
pub use plan::{AffectedInstance, RecipeTarget, RollbackPlan, RollbackWrite};
pub use rejected::{
    MAX_REJECTED, RejectedVersion, describe_rejected, read_rejected, reject, rejected_numbers, unreject,
};

#[cfg(test)]
mod ten_nights;
