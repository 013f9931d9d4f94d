//! Builds the release artifacts from static binaries: an OCI image with `kiln` and `kilnd`, without a base image and without a container
//! daemon, and a Debian package of kilnd. The same sources produce the same bytes.

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
