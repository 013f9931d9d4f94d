//! The preflight check: what blocks a run, found before anything changes.

mod blocker;
mod check;
mod definition;
mod input;
mod pending_reboot;

pub use blocker::{Blocker, BlockerKind, Consent};
pub use check::{MIN_FREE_PERCENT, PreflightReport, Warning, check};
pub use definition::{
    DefinitionChoice, DefinitionRequirements, Mismatch, choose_definition, definition_names, mismatches, new_definition,
};
pub use input::{OriginalState, PreflightInput};
