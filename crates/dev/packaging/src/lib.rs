//! What is shipped, each of one static binary and the same bytes from the same inputs: the operator's tool as an OCI image (a layer
//! with the binary, certificates and a user, a configuration, a manifest; no daemon, no base image), the node's daemon as a Debian
//! package.

mod archive;
mod binary;
mod certificates;
mod deb;
mod digest;
mod error;
mod image;
mod layer;
mod layout;
mod program;

pub use archive::archive;
pub use binary::{Built, Libc, build, refuse_dynamic};
pub use certificates::bundle;
pub use deb::{Deb, deb};
pub use digest::Digest;
pub use error::Error;
pub use image::{Architecture, Blob, Content, Image};
pub use layer::{Entry, layer};
pub use layout::write_layout;
pub use program::Program;
