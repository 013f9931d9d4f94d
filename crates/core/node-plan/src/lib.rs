//! Decides what has to change on a node. Pure: values in, values out.
//!
//! [`Desired`] is the state that a NodeConfig describes for one machine, [`Observed`] is its current state, and [`Plan`] is the ordered list of steps from
//! one to the other, with a [`Manifest`] of what was there before kiln. [`State`] records which generation is in force, which is on
//! trial and which were rejected.
//!
//! [`Inspection`] describes a node from the inside. [`identity`] lists what a clone must not share with its donor, and
//! [`clone_credential`] decides how a clone joins, or why it cannot.

pub mod block;
mod credential;
mod custom_data;
mod desired;
mod drop_in;
mod effects;
mod facts;
mod file;
mod findings;
mod fstab;
pub mod identity;
mod image;
mod inspection;
mod join;
mod json;
pub mod labels;
pub mod layout;
mod manifest;
mod observed;
mod plan;
mod state;
mod toml;

pub use credential::{BadTokenId, JoinCredential, KeepOrDrop, RefuseReason, TokenId, clone_credential};
pub use custom_data::{CustomData, SecretBytes};
pub use desired::{Account, Block, Deferred, Desired, IncompatibleConfig, Mount, Setting};
pub use drop_in::{BadDropIn, DROP_IN_FOLDER, DropIn};
pub use facts::Facts;
pub use file::{AffectedUnit, Comparison, DesiredFile, FileContent, FileState, Owner};
pub use findings::Findings;
pub use fstab::{FstabEntry, parse as parse_fstab};
pub use identity::{IDENTITY, Item, Treatment};
pub use image::{ExecPlugin, Image};
pub use inspection::{Ancestor, DiskUse, FileLine, FirstBootUnit, Inspection, SecretPlace};
pub use join::{BadCredential, Credential};
pub use manifest::{ManagedFile, Manifest};
pub use observed::{Observed, ToObserve};
pub use plan::{Plan, PlanAction, Request, Step, unit_for_path};
pub use state::{Admission, Generation, Rejection, Revert, State, Trial};
