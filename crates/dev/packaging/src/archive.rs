//! The image in one tar file: the OCI layout, and the manifest of `docker save`. `docker load`, `podman load` and `ctr images import`
//! read it.

use serde_json::json;

use crate::layer::layer;
use crate::{Entry, Error, Image, layout};

/// The archive of an image with the name `kiln:VERSION`.
pub fn archive(image: &Image) -> Result<Vec<u8>, Error> {
    let blob = |digest: &crate::Digest| format!("blobs/sha256/{}", digest.hex());
    let manifest = json!([{
        "Config": blob(&image.config.digest),
        "RepoTags": [format!("kiln:{}", image.version)],
        "Layers": [blob(&image.layer.digest)],
    }]);
    let mut files = layout::files(image);
    files.push(("manifest.json".to_owned(), manifest.to_string().into_bytes()));
    let entries: Vec<_> = files.into_iter().map(|(path, content)| Entry { path, mode: 0o644, content }).collect();
    layer(&entries)
}
