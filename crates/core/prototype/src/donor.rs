//! Which node is cloned, and for every other node why not.

mod choice;
mod node;
mod why_not;

pub use choice::{Bar, Choice, NoDonor, Pass, Row, Verdict, choose};
pub use node::{NodeFacts, Taint};
pub use why_not::{DonorRules, Surroundings, WhyNot, judge};
