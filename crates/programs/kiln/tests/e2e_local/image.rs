//! Container images: kilnd for the pods that inspect a node, and a program that waits, for pod sandboxes.

use std::path::Path;

use packaging::{Digest, Entry, layer};
use serde_json::json;

use super::root::read;

/// The name of the image with kilnd.
pub(crate) const KILN_IMAGE: &str = "kiln:test";

/// Both images in one archive in the format of `docker save`. They share their only layer: kilnd, a program that waits, and the libraries
/// of both.
pub(crate) fn archive(kilnd: &Path, debian: &Path) -> Vec<u8> {
    let libraries = "usr/lib/x86_64-linux-gnu";
    let entry = |path: &str, from: &Path| Entry { path: path.to_owned(), mode: 0o755, content: read(from) };
    let files = layer(&[
        entry("usr/local/bin/kilnd", kilnd),
        entry("bin/sleep", &debian.join("usr/bin/sleep")),
        entry("lib64/ld-linux-x86-64.so.2", &debian.join(format!("{libraries}/ld-linux-x86-64.so.2"))),
        entry("lib/x86_64-linux-gnu/libc.so.6", &debian.join(format!("{libraries}/libc.so.6"))),
        entry("lib/x86_64-linux-gnu/libgcc_s.so.1", &debian.join(format!("{libraries}/libgcc_s.so.1"))),
    ])
    .expect("a layer");
    let config = |entrypoint: &[&str]| {
        let config = json!({
            "created": "1970-01-01T00:00:00Z", "architecture": "amd64", "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin:/bin"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [Digest::compute(&files).to_string()]},
        });
        config.to_string().into_bytes()
    };
    let (kiln, pause) = (config(&["/usr/local/bin/kilnd"]), config(&["/bin/sleep", "infinity"]));
    let manifest = json!([
        {"Config": "kiln.json", "RepoTags": [KILN_IMAGE], "Layers": ["layer.tar"]},
        {"Config": "pause.json", "RepoTags": ["pause:test"], "Layers": ["layer.tar"]},
    ]);
    let file = |path: &str, content: Vec<u8>| Entry { path: path.to_owned(), mode: 0o644, content };
    layer(&[
        file("kiln.json", kiln),
        file("pause.json", pause),
        file("layer.tar", files.clone()),
        file("manifest.json", manifest.to_string().into_bytes()),
    ])
    .expect("an archive")
}
