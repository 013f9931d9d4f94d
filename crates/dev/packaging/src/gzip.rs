//! Compression whose bytes depend only on the content.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use crate::Error;

/// Compresses without name, time or operating system in the header. `name` is for error messages.
pub(crate) fn gzip(name: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    // The best level takes three times as long for one percent.
    let mut writer = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    let packed = writer.write_all(bytes).and_then(|()| writer.finish());
    packed.map_err(|source| Error::Entry { path: name.to_owned(), source })
}
