//! What a configured node has: the same for every variant, or nothing is compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::Error;

/// The committed list of paths.
const LIST: &str = include_str!("../paths.txt");

/// The paths that are compared.
pub const PATHS: fn() -> Vec<&'static str> = || LIST.lines().filter(|line| line.starts_with('/')).collect();

/// What stood at each path: mode and content. Settings of the kernel have no mode that anybody chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured(pub BTreeMap<String, (u32, Vec<u8>)>);

impl Configured {
    /// Reads the paths below a folder; what is not there is left out.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut found = BTreeMap::new();
        for path in PATHS() {
            let file = folder.join(path.trim_start_matches('/'));
            let Ok(metadata) = fs::metadata(&file) else { continue };
            let content = fs::read(&file).map_err(Error::file(&file))?;
            let mode = if path.starts_with("/proc/") { 0 } else { metadata.permissions().mode() & 0o7777 };
            found.insert(path.to_owned(), (mode, content));
        }
        Ok(Self(found))
    }
}

/// The paths at which two nodes differ, or that one of them lacks.
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
    fn equal_nodes_differ_nowhere() {
        assert_eq!(differing(&all(), &all()), [""; 0]);
        assert!(PATHS().len() > 10 && PATHS().contains(&"/etc/kiln/current/kubelet.env"));
    }

    #[test]
    fn another_content_another_mode_and_a_missing_path_are_named() {
        let mut other = all();
        other.0.get_mut("/etc/hostname").unwrap().1.push(b'y');
        other.0.get_mut("/etc/bench/motd").unwrap().0 = 0o600;
        other.0.remove("/etc/bench/settings.json");
        assert_eq!(differing(&all(), &other), ["/etc/hostname", "/etc/bench/motd", "/etc/bench/settings.json"]);
    }

    #[test]
    fn what_both_lack_is_a_difference_too() {
        let mut less = all();
        less.0.remove("/etc/hostname");
        assert_eq!(differing(&less, &less), ["/etc/hostname"]);
    }
}
