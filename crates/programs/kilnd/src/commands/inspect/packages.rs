//! Installed packages of dpkg and rpm.

use std::collections::BTreeMap;
use std::path::Path;

use crate::os::{FileKind, Root};

use super::rpm;

const DPKG: &str = "/var/lib/dpkg/status";
/// Distroless images have one file per package.
const DPKG_PARTS: &str = "/var/lib/dpkg/status.d";

/// Package versions by name; architectures are not distinguished.
pub(super) fn installed(root: &Root) -> Result<BTreeMap<String, String>, crate::os::Error> {
    let mut all = BTreeMap::new();
    read(root, Path::new(DPKG), &mut all)?;
    let is_list = |path: &Path| path.extension().is_none_or(|ending| ending != "md5sums");
    for path in root.names(DPKG_PARTS)?.into_iter().map(|name| Path::new(DPKG_PARTS).join(name)) {
        if is_list(&path) && root.kind(&path)? == Some(FileKind::File) {
            read(root, &path, &mut all)?;
        }
    }
    for path in rpm::PATHS {
        let listed = root.read_if_exists(path)?.and_then(|bytes| rpm::packages(&bytes));
        all.extend(listed.unwrap_or_default());
    }
    Ok(all)
}

/// The upstream part of a version: `1.29.3-1.1` is `1.29.3`.
pub(super) fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.split(['-', '+', '~']).next().unwrap_or(version)
}

fn read(root: &Root, path: &Path, into: &mut BTreeMap<String, String>) -> Result<(), crate::os::Error> {
    let bytes = root.read_if_exists(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    for paragraph in text.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        // Removed packages are listed while their configuration exists.
        let installed = field("Status").is_none_or(|status| status.ends_with(" installed"));
        if let (Some(name), Some(version), true) = (field("Package"), field("Version"), installed) {
            into.insert(name.to_owned(), version.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        std::fs::create_dir_all(folder.path().join("var/lib/dpkg/status.d")).expect("folders");
        let status = "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\nDescription: a shell\n of many words\n\n\
                      Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n";
        std::fs::write(folder.path().join("var/lib/dpkg/status"), status).expect("write");
        std::fs::write(folder.path().join("var/lib/dpkg/status.d/tz"), "Package: tzdata\nVersion: 2026a\n")
            .expect("write");
        let all = installed(&root).expect("read");
        assert_eq!(
            all,
            BTreeMap::from([("bash".to_owned(), "5.2-1".to_owned()), ("tzdata".to_owned(), "2026a".to_owned())])
        );
    }

    #[test]
    fn upstream_version_is_extracted() {
        for (packaged, version) in [("1.29.3-1.1", "1.29.3"), ("1:1.7.2+azure-1", "1.7.2"), ("2.0.0~rc1", "2.0.0")] {
            assert_eq!(upstream(packaged), version);
        }
    }
}
