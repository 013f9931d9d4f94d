//! The facts that `xtask` (which installs test dependencies) and `testkit` (which requires them) share: the tiers, the test
//! dependencies with their folders, and the folder of recorded data. This crate has no dependencies, because `xtask` compiles before
//! everything else.

mod cache;
mod kube;
mod recorded_data;
mod test_dep;
mod tier;

pub use cache::{Cache, Missing, NoCache};
pub use kube::{KUBE_PROGRAMS, KubePrograms, SESSION_LOCK};
pub use recorded_data::{MissingRecordings, Recordings};
pub use test_dep::{Recipe, TestDep, UnknownTestDep};
pub use tier::Tier;
