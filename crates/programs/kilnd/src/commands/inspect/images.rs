//! Cached images in containerd's database.

use crate::os::Root;

use super::bolt::Database;

const META: &str = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db";

/// Names of cached images, sorted; empty if the database cannot be read, because they are only informational.
pub(super) fn cached(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let Some(bytes) = root.read_if_exists(META)? else { return Ok(Vec::new()) };
    let names = Database::open(&bytes).and_then(|database| database.names(&["v1", "k8s.io", "images"]));
    let names = names.unwrap_or_default().into_iter().map(|name| String::from_utf8_lossy(name).into_owned());
    // Each image is also listed by digest.
    Ok(names.filter(|name| !name.starts_with("sha256:")).collect())
}
