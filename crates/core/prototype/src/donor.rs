//! The choice of the donor, with the reasons against every other node.

mod choice;
mod ineligible;
mod skipped;

pub use choice::{Choice, Eligibility, NoDonor, NodeRow, Pass, PatchBaseline, choose};
pub use ineligible::{DonorInput, DonorRules, IneligibleReason, ineligible_reasons};
pub use skipped::{SkipProblem, SkipRecord};
