//! The boot bench: boots the same machine configured in different ways, and measures the boot up to kubelet.
//!
//! A [`Variant`] is one way to configure the node: kilnd, cloud-init, or files that are already on the disk. Every variant starts from the
//! same root folder and must end with the same configured paths. The measure is the time in which the machine was busy, from the kernel's
//! entry to kubelet's first line.

mod boot;
mod budget;
mod chart;
mod container;
mod error;
mod expected;
mod identity;
mod media;
mod metadata;
pub mod node;
mod program;
mod report;
mod rootfs;
mod tree;
mod variant;

pub use boot::{Boot, Clock};
pub use budget::{BudgetResult, check_budgets};
pub use container::Contained;
pub use error::Error;
pub use expected::{Configured, PATHS, differing};
pub use identity::Identity;
pub use program::{HELP, Options, draw_charts, measure_kilnd, parse, run};
pub use report::{Report, Row, median};
pub use variant::Variant;
