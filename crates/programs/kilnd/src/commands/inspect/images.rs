//! Images that need not be pulled, by containerd's own list.

use crate::os::Root;

use super::bolt::Database;

const META: &str = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db";

/// Names of images that kubelet finds, sorted. A list that cannot be read is as good as none: nothing is decided by it.
pub(super) fn cached(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let Some(bytes) = root.read_if_exists(META)? else { return Ok(Vec::new()) };
    let names = Database::open(&bytes).and_then(|database| database.names(&["v1", "k8s.io", "images"]));
    let names = names.unwrap_or_default().into_iter().map(|name| String::from_utf8_lossy(name).into_owned());
    // By digest, each image is listed once more.
    Ok(names.filter(|name| !name.starts_with("sha256:")).collect())
}
