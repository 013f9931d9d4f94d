//! What `xtask` (which installs) and `testkit` (which requires) must agree on: the tiers, the real parts that tests need, and the
//! folders in which the parts stand. No dependencies: `xtask` compiles before everything else.

mod cache;
mod kube;
mod part;
mod tier;

pub use cache::{Cache, Missing, NoCache};
pub use kube::{KUBE_PROGRAMS, KubePrograms, SESSION_LOCK};
pub use part::{Part, Recipe, UnknownPart};
pub use tier::Tier;
