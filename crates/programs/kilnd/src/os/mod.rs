//! The machine that kilnd runs on: files and generations, PID 1, settings of the kernel, clock. Synchronous.
//!
//! [`Root`] is a folder below which everything happens: `/` on a node, any folder for `--root`. Every change to a file goes through one
//! counted place ([`Counts`]), which tests use to stop a program after any of its operations ([`Root::stop_after`]).

mod accounts;
mod address;
mod broadcast;
pub mod clock;
pub mod drivers;
mod error;
mod generations;
mod kernel;
pub mod links;
mod lock;
pub mod netlink;
pub mod notify;
mod ops;
mod owners;
pub mod priority;
pub mod random;
mod root;
mod rules;
pub mod ssh;
pub mod systemd;

pub use address::{Address, HostRoute, Rtnetlink};
pub use broadcast::Broadcast;
pub use error::Error;
pub use generations::Generations;
pub use lock::Lock;
pub use ops::{Counts, Op};
pub use owners::{Ids, Owners};
pub use root::observe::Disk;
pub use root::read::Contents;
pub use root::write::Durability;
pub use root::{FileKind, Root};
pub use systemd::{JobOutcome, Systemd, UnitState};
