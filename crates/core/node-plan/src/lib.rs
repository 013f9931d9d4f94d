//! Decides what has to change on a node. Pure: values in, values out.
//!
//! [`Desired`] is the state that a NodeConfig describes for one machine, [`Observed`] is its current state, and [`Plan`] is the ordered list of steps from
//! one to the other, with a [`Manifest`] of what was there before kiln. [`State`] records which generation is in force, which is on
//! trial and which were rejected.
//!
//! [`identity`] lists what a clone must not share with its donor, and
//! [`kiln_types::clone_credential`] decides how a clone joins, or why it cannot.

pub mod block;
mod certificate;
pub mod check_image;
mod cloud_service;
mod desired;
mod drop_in;
mod effects;
mod facts;
mod file;
mod findings;
pub mod identity;
pub mod identity_edit;
mod image;
mod join;
mod json;
pub mod labels;
pub mod layout;
mod manifest;
pub mod network_file;
mod observed;
mod plan;
pub mod resolver;
pub mod selinux;
mod state;
pub mod sysctl_files;
mod toml;
pub mod unit_file;

pub use certificate::{UnusableCertificate, check_certificate};
pub use cloud_service::CloudService;
pub use desired::{
    Account, Block, Deferred, Desired, IncompatibleConfig, LOCAL_NVME, Mount, Setting, TEMPORARY_DISKS,
    choose_temporary_disk, is_reserved,
};
pub use drop_in::{BadDropIn, DROP_IN_FOLDER, DropIn};
pub use effects::effect_between;
pub use facts::{Facts, ImageSysctl};
pub use file::{AffectedUnit, Comparison, DesiredFile, FileContent, FileState, Owner};
pub use findings::Findings;
pub use identity::{IDENTITY, Item, Treatment};
pub use image::{ExecPlugin, Image};
pub use join::{BadCredential, Credential};
pub use manifest::{ManagedFile, Manifest};
pub use observed::{Observed, ToObserve};
pub use plan::{Plan, PlanAction, Request, Step, unit_for_path};
pub use state::{Admission, Generation, Rejection, Revert, SignedRecord, State, Trial};
