//! The OCI image: layer, configuration and manifest, each identified by its digest.

use serde_json::{Value, json};

use crate::gzip::gzip;
use crate::layout::INDEX;
use crate::{Digest, Entry, Error, bundle, certificates, layer};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// In a folder on PATH.
const BINARY: &str = "usr/local/bin/kiln";
/// Pods that inspect nodes run kilnd from this path, and installation copies it from there.
const NODE_BINARY: &str = "usr/local/bin/kilnd";

/// The user of distroless images by convention. Common distributions do not use this number.
const USER: u32 = 65532;

/// A processor architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// Parses Rust's name of the architecture.
    pub fn from_rust(name: &str) -> Result<Self, Error> {
        match name {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => Err(Error::Architecture(other.to_owned())),
        }
    }

    /// The name that OCI images and Debian use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The name that Rust uses.
    pub fn rust(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// The variable content of an image.
#[derive(Clone, Debug)]
pub struct Content {
    pub binary: Vec<u8>,
    /// kilnd, which contains its unit files.
    pub node_binary: Vec<u8>,
    pub architecture: Architecture,
    pub version: String,
    /// The commit from which it was built, if known.
    pub revision: Option<String>,
}

/// Bytes with their media type and digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub media_type: &'static str,
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: Digest::compute(&bytes), bytes }
    }

    /// The OCI descriptor, with which other documents refer to the blob.
    pub(crate) fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest.to_string(), "size": self.bytes.len() })
    }
}

/// An OCI image with one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The only layer, compressed with gzip.
    pub layer: Blob,
    pub config: Blob,
    /// The manifest, whose digest identifies the image.
    pub manifest: Blob,
    /// The version, also used as tag.
    pub version: String,
    pub architecture: Architecture,
}

impl Image {
    /// Builds an image. All documents have sorted keys and the epoch as time, so that the digest depends only on the content.
    pub fn new(content: &Content) -> Result<Self, Error> {
        let Content { binary, node_binary, architecture, version, revision } = content;
        let file = |path: &str, mode, content: Vec<u8>| Entry { path: path.to_owned(), mode, content };
        let passwd = format!("root:x:0:0:root:/:/sbin/nologin\nkiln:x:{USER}:{USER}:kiln:/:/sbin/nologin\n");
        let group = format!("root:x:0:\nkiln:x:{USER}:\n");
        let archive = layer(&[
            file(BINARY, 0o755, binary.clone()),
            file(NODE_BINARY, 0o755, node_binary.clone()),
            file(certificates::PATH, 0o644, bundle().into_bytes()),
            file("etc/passwd", 0o644, passwd.into_bytes()),
            file("etc/group", 0o644, group.into_bytes()),
        ])?;
        let unpacked = Digest::compute(&archive);
        let layer = Blob::new(LAYER, gzip("layer", &archive)?);

        let mut labels = json!({
            "org.opencontainers.image.title": "kiln",
            "org.opencontainers.image.description": "Kubernetes nodes that start fast, patched and identical",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": version,
        });
        if let Some(revision) = revision {
            labels["org.opencontainers.image.revision"] = json!(revision);
        }
        let config = json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": architecture.name(),
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Env": ["PATH=/usr/local/bin"],
                "Entrypoint": [format!("/{BINARY}")],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": { "type": "layers", "diff_ids": [unpacked.to_string()] },
            "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "cargo xtask image" }],
        });
        let config = Blob::new(CONFIG, config.to_string().into_bytes());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
            "annotations": labels,
        });
        let manifest = Blob::new(MANIFEST, manifest.to_string().into_bytes());
        Ok(Self { layer, config, manifest, version: version.clone(), architecture: *architecture })
    }

    /// The blobs that a registry would store.
    pub fn blobs(&self) -> [&Blob; 3] {
        [&self.layer, &self.config, &self.manifest]
    }

    /// The descriptor of the manifest, with its platform.
    pub(crate) fn platform_descriptor(&self) -> Value {
        let mut descriptor = self.manifest.descriptor();
        descriptor["platform"] = json!({ "architecture": self.architecture.name(), "os": "linux" });
        descriptor
    }

    /// The index of a layout with only this image, tagged with its version.
    pub(crate) fn index(&self) -> Vec<u8> {
        let mut descriptor = self.platform_descriptor();
        descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": self.version });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [descriptor],
        });
        index.to_string().into_bytes()
    }
}
