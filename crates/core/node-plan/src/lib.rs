//! What a node is, what it should be, and what lies between, decided purely.
//!
//! [`Desired`] is what a document asks for on one machine, [`Observed`] what is there, and [`Plan`] the way from one to the other,
//! with a [`Manifest`] that remembers what stood there before. [`State`] is what a node remembers of its generations.
//!
//! [`identity`] lists what a copy of a disk must not share with its donor, and
//! [`kiln_types::clone_credential`] says how a clone is to join, or why none can be made.

mod artifact;
pub mod block;
mod desired;
mod drop_in;
mod effects;
mod facts;
mod findings;
pub mod identity;
mod image;
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
pub use desired::{Account, Block, Desired, Late, Mount, Setting, Unfit};
pub use drop_in::{BadDropIn, DROP_IN_FOLDER, DropIn};
pub use facts::Facts;
pub use findings::Findings;
pub use identity::{IDENTITY, Item, Treatment};
pub use image::{ExecPlugin, Image};
pub use join::{BadCredential, Credential};
pub use manifest::{Before, Foreign, Manifest};
pub use observed::{Against, Observed, Questions, Seen};
pub use plan::{Ask, Plan, Step, Verdict};
pub use state::{Generation, Offer, Refusal, Return, State, Trial};
