//! Builds the files of a release from static binaries: an OCI image with `kiln` and `kilnd`, without a base image and without a container
//! daemon, a Debian package and an RPM of kilnd, and with [`dist`] everything else. The same sources produce the same bytes.

mod archive;
mod binary;
mod certificates;
mod deb;
mod digest;
pub mod dist;
mod error;
mod gzip;
mod image;
mod layer;
mod layout;
mod package;
mod program;
mod revision;
mod rpm;

pub use archive::archive;
pub use binary::{Built, Libc, build, build_musl, refuse_dynamic};
pub use certificates::bundle;
pub use deb::deb;
pub use digest::Digest;
pub use error::Error;
pub use image::{Architecture, Blob, Content, Image};
pub use layer::{Entry, layer};
pub use layout::write_layout;
pub use package::{Package, Scripts, UNITS};
pub use program::Program;
pub use revision::revision;
pub use rpm::{rpm, rpm_file_name};
