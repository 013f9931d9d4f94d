//! The configured paths of a node. Variants are compared only if all paths are equal.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::Error;

const LIST: &str = include_str!("../paths.txt");

/// The paths that are compared.
pub const PATHS: fn() -> Vec<&'static str> = || LIST.lines().filter(|line| line.starts_with('/')).collect();

/// Mode and content of each path. The mode of kernel settings is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured(pub BTreeMap<String, (u32, Vec<u8>)>);

impl Configured {
    /// Reads the paths below a folder. Missing paths are left out.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut paths = BTreeMap::new();
        for path in PATHS() {
            let file = folder.join(path.trim_start_matches('/'));
            let Ok(metadata) = fs::metadata(&file) else { continue };
            let content = fs::read(&file).map_err(Error::file(&file))?;
            let mode = if path.starts_with("/proc/") { 0 } else { metadata.permissions().mode() & 0o7777 };
            paths.insert(path.to_owned(), (mode, content));
        }
        Ok(Self(paths))
    }
}

/// The paths where two nodes differ, and those that both lack.
pub fn differing(one: &Configured, other: &Configured) -> Vec<&'static str> {
    PATHS().into_iter().filter(|path| one.0.get(*path) != other.0.get(*path) || !one.0.contains_key(*path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Configured {
        Configured(PATHS().iter().map(|path| ((*path).to_owned(), (0o644, b"x".to_vec()))).collect())
    }

    #[test]
    fn equal_nodes_have_no_differences() {
        assert_eq!(differing(&all(), &all()), [""; 0]);
        assert!(PATHS().len() > 10 && PATHS().contains(&"/etc/kiln/current/kubelet.env"));
    }

    #[test]
    fn different_content_mode_and_missing_path_are_reported() {
        let mut other = all();
        other.0.get_mut("/etc/hostname").unwrap().1.push(b'y');
        other.0.get_mut("/etc/bench/motd").unwrap().0 = 0o600;
        other.0.remove("/etc/bench/settings.json");
        assert_eq!(differing(&all(), &other), ["/etc/hostname", "/etc/bench/motd", "/etc/bench/settings.json"]);
    }

    #[test]
    fn path_missing_in_both_nodes_is_a_difference() {
        let mut less = all();
        less.0.remove("/etc/hostname");
        assert_eq!(differing(&less, &less), ["/etc/hostname"]);
    }
}
