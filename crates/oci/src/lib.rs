//! An OCI image of one static binary: a layer with the binary, certificates and a user, a configuration, a manifest. No daemon, no
//! base image, and the same bytes from the same inputs.

mod archive;
mod binary;
mod certificates;
mod digest;
mod error;
mod image;
mod layer;
mod layout;

pub use archive::archive;
pub use binary::{Built, Libc, build, refuse_dynamic};
pub use certificates::bundle;
pub use digest::Digest;
pub use error::Error;
pub use image::{Architecture, Blob, Content, Image};
pub use layer::{Entry, layer};
pub use layout::write_layout;
