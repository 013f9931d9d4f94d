//! The OCI image layout: an image in a folder.

use std::fs;
use std::path::Path;

use crate::{Error, Image};

pub(crate) const LAYOUT_VERSION: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// Writes the layout into a folder and removes everything else from it.
pub fn write_layout(image: &Image, folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::file(folder))?;
    }
    for (name, bytes) in files(image) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        fs::write(&path, bytes).map_err(Error::file(&path))?;
    }
    Ok(())
}

/// Path and content of the layout's files.
pub(crate) fn files(image: &Image) -> Vec<(String, Vec<u8>)> {
    let blobs = image.blobs().map(|blob| (format!("blobs/sha256/{}", blob.digest.hex()), blob.bytes.clone()));
    let mut files = vec![("index.json".to_owned(), image.index()), ("oci-layout".to_owned(), LAYOUT_VERSION.to_vec())];
    files.extend(blobs);
    files
}
