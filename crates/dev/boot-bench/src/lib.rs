//! The lab: the same machine booted in different ways, in QEMU, and what came before its kubelet.
//!
//! A [`Variant`] says who configures the node. Every variant starts from one root, ends with one list of configured paths, and is
//! measured by the same clock: what the machine was busy with, from the kernel's entry to the first line of kubelet.

mod boot;
mod budget;
mod container;
mod enter;
mod error;
mod expected;
mod identity;
mod medium;
pub mod node;
mod picture;
mod program;
mod report;
mod rootfs;
mod tree;
mod variant;
mod world;

pub use boot::{Boot, Clock};
pub use budget::{Judged, judge};
pub use container::Contained;
pub use enter::alone;
pub use error::Error;
pub use expected::{Configured, PATHS, differing};
pub use identity::Identity;
pub use program::{Asked, HELP, count, parse, pictures, run};
pub use report::{Report, Row, median};
pub use variant::Variant;
