//! What a machine learns from its host, and from nobody else: its id, its custom data, its metadata. Synchronous, without TLS.
//!
//! [`find`] asks the places that may hold a document, in order; [`decode`] takes a document out of what Azure wrapped round it;
//! [`Keys`] says whether it is signed by somebody that the image trusts. Time, and the wait for a network, come in by [`Wait`].

mod credential;
mod decode;
pub mod dhcp;
mod dmi;
mod endpoints;
mod error;
mod http;
mod imds;
mod iso9660;
mod media;
mod ovf;
mod retry;
mod signature;
mod source;
mod wait;
mod wire_server;

pub use credential::system_credential;
pub use decode::{DecodeError, Decoded, decode, unbase64};
pub use dmi::{BadVmId, VmId, vm_id};
pub use endpoints::Endpoints;
pub use error::Error;
pub use imds::{Imds, Instance};
pub use media::ovf_env;
pub use ovf::{BadOvf, OvfEnv};
pub use retry::{Next, Outcome, Rules, mix};
pub use signature::{BadKey, Keys, SignatureError};
pub use source::{Found, Looked, NotFound, Source, find, find_kept};
pub use wait::{Scaled, Wait};
pub use wire_server::report_ready;
