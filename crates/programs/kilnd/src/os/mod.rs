//! The operating system of the machine: files and generations, accounts, systemd, rtnetlink, kernel settings, time. Synchronous.
//!
//! [`Root`] is the folder below which kilnd reads and writes: `/` on a node, another folder with `--root`. Every change to a file is counted
//! ([`Counts`]); tests use this to stop kilnd after each operation ([`Root::stop_after`]).

mod accounts;
mod address;
mod broadcast;
pub mod clock;
pub mod console;
pub mod drivers;
mod error;
mod generations;
mod host_network;
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
pub mod unit_files;

pub use address::{Address, HostRoute, Rtnetlink};
pub use broadcast::Broadcast;
pub use error::Error;
pub use generations::Generations;
pub use host_network::host_network_pods;
pub use lock::Lock;
pub use ops::{Counts, Op};
pub use owners::{Ids, Owners};
pub use root::observe::Disk;
pub use root::read::Contents;
pub(crate) use root::tree::mount_point;
pub use root::write::Durability;
pub use root::{FileKind, Root};
pub use rules::{Block, nat64};
pub use systemd::{JobOutcome, Systemd, UnitState};
