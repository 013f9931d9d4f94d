//! What a node is, what it should be, and what lies between, decided purely.
//!
//! [`Inspection`] is what is known of a node's inside. [`identity`] lists what a copy of a disk must not share with its donor, and
//! [`clone_credential`] says how a clone is to join, or why none can be made.

mod artifact;
mod credential;
mod custom_data;
mod drop_in;
mod fstab;
pub mod identity;
mod inspection;
pub mod layout;
mod state;

pub use artifact::{Affect, Artifact, Content, Owner};
pub use credential::{BadTokenId, JoinCredential, KeepOrDrop, RefuseReason, TokenId, clone_credential};
pub use custom_data::{CustomData, SecretBytes};
pub use drop_in::{BadDropIn, DROP_IN_FOLDER, DropIn};
pub use fstab::{FstabEntry, parse as parse_fstab};
pub use identity::{IDENTITY, Item, Treatment};
pub use inspection::{Ancestor, DiskUse, FirstBootUnit, Inspection, Place, SecretPlace};
pub use state::{Generation, Offer, Refusal, Return, State, Trial};
