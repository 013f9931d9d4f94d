//! The choice of the donor, with the reasons against every other node.

mod choice;
mod ineligible;
mod not_proven;
mod skipped;

pub use choice::{Choice, Eligibility, NoDonor, NodeRow, Pass, PatchBaseline, choose};
pub use ineligible::{DonorInput, DonorRules, IneligibleReason, ineligible_reasons};
pub use not_proven::not_proven;
pub use skipped::{SkipProblem, SkipRecord};
