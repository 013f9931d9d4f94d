//! What a node is, what it should be, and what lies between, decided purely.
//!
//! [`Desired`] is what a document asks for on one machine, [`Observed`] what is there, and [`Plan`] the way from one to the other,
//! with a [`Manifest`] that remembers what stood there before. [`State`] is what a node remembers of its generations.
//!
//! [`Inspection`] is what is known of a node's inside. [`identity`] lists what a copy of a disk must not share with its donor, and
//! [`clone_credential`] says how a clone is to join, or why none can be made.

mod artifact;
pub mod block;
mod credential;
mod custom_data;
mod desired;
mod drop_in;
mod effects;
mod facts;
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

pub use artifact::{Affect, Artifact, Content, Owner};
pub use credential::{BadTokenId, JoinCredential, KeepOrDrop, RefuseReason, TokenId, clone_credential};
pub use custom_data::{CustomData, SecretBytes};
pub use desired::{Account, Block, Desired, Late, Mount, Setting, Unfit};
pub use drop_in::{BadDropIn, DROP_IN_FOLDER, DropIn};
pub use facts::Facts;
pub use findings::Findings;
pub use fstab::{FstabEntry, parse as parse_fstab};
pub use identity::{IDENTITY, Item, Treatment};
pub use image::{ExecPlugin, Image};
pub use inspection::{Ancestor, DiskUse, FirstBootUnit, Inspection, Place, SecretPlace};
pub use join::{BadCredential, Credential};
pub use manifest::{Before, Foreign, Manifest};
pub use observed::{Against, Observed, Questions, Seen};
pub use plan::{Ask, Plan, Step, Verdict};
pub use state::{Generation, Offer, Refusal, Return, State, Trial};
