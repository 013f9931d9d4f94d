//! Sources outside the machine: DMI, system credentials, the provisioning media, the metadata service and the wire server. Synchronous, and
//! without TLS, which these services do not offer.
//!
//! [`find()`] tries the sources of a document in order. [`decode()`] unpacks a document from base64, gzip and MIME. [`Keys`] verifies its
//! signature. [`dhcp`] gets an address for the early network. Time and waiting for the network are passed in as [`Wait`].

mod credential;
mod decode;
pub mod dhcp;
mod dmi;
mod endpoints;
mod error;
mod find;
mod http;
mod imds;
mod iso9660;
mod media;
mod media_copy;
mod ovf;
mod retry;
mod signature;
mod wait;
mod wire_server;

pub use credential::system_credential;
pub use decode::{DecodeError, Decoded, decode, unbase64};
pub use dmi::{BadVmId, VmId, vm_id};
pub use endpoints::Endpoints;
pub use error::Error;
pub use find::{FoundDocument, Lookup, NoDocument, Source, find, find_announced, find_saved};
pub use imds::{Imds, Instance};
pub use media::ovf_env;
pub use ovf::{BadOvf, OvfEnv};
pub use retry::{Next, Outcome, Rules};
pub use signature::{BadKey, Keys, SignatureError};
pub use wait::{Scaled, Wait};
pub use wire_server::{GoalState, Health, report};
