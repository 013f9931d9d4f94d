//! The OCI image layout: an image in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::layer::layer;
use crate::{Digest, Entry, Error, Image};

/// The media type of an index.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
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

/// An OCI layout in a tar file, with one image for each platform below one tag. `skopeo`, `crane`, `podman` and `ctr` read it.
pub(crate) fn multi_platform_archive(images: &[Image]) -> Result<Vec<u8>, Error> {
    let manifests: Vec<Value> = images.iter().map(Image::platform_descriptor).collect();
    let inner = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).to_string().into_bytes();
    let digest = Digest::compute(&inner);
    let version = images.first().map_or("", |image| image.version.as_str());
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{
            "mediaType": INDEX, "digest": digest.to_string(), "size": inner.len(),
            "annotations": {"org.opencontainers.image.ref.name": version},
        }],
    });
    let mut files = BTreeMap::from([
        ("index.json".to_owned(), index.to_string().into_bytes()),
        ("oci-layout".to_owned(), LAYOUT_VERSION.to_vec()),
        (format!("blobs/sha256/{}", digest.hex()), inner),
    ]);
    for blob in images.iter().flat_map(Image::blobs) {
        files.insert(format!("blobs/sha256/{}", blob.digest.hex()), blob.bytes.clone());
    }
    layer(&files.into_iter().map(|(path, content)| Entry { path, mode: 0o644, content }).collect::<Vec<_>>())
}
