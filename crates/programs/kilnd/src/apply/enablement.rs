//! Enables and disables units by the links that their `[Install]` sections define. This works the same below `--root` and does not involve
//! systemd, which is busy during a first boot.

use std::path::PathBuf;

use crate::os::{Durability, Root};

/// Where `systemctl enable` creates links.
const ETC: &str = "/etc/systemd/system";
/// The unit search path.
const UNIT_PATH: [&str; 4] = [ETC, "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// Whether the unit was enabled in `/etc`.
pub fn is_enabled(root: &Root, unit: &str) -> Result<bool, crate::os::Error> {
    Ok(!links(root, unit)?.is_empty())
}

/// Whether another unit wants or requires it, by a link in any folder of the search path.
pub fn is_wanted(root: &Root, unit: &str) -> Result<bool, crate::os::Error> {
    for folder in UNIT_PATH {
        for ending in ["wants", "requires"] {
            if !root.glob(&format!("{folder}/*.{ending}/{unit}"))?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Enables or disables a unit. A unit without an `[Install]` section is not changed.
pub fn set_enabled(root: &Root, unit: &str, enabled: bool, durability: Durability) -> Result<(), crate::os::Error> {
    if !enabled {
        for link in links(root, unit)? {
            root.remove(&link, durability)?;
        }
        return Ok(());
    }
    for folder in UNIT_PATH {
        let path = format!("{folder}/{unit}");
        if let Some(bytes) = root.read_if_exists(&path)? {
            for wants in wanted_by(&String::from_utf8_lossy(&bytes)) {
                root.replace_link(&format!("{ETC}/{wants}/{unit}"), &path, durability)?;
            }
            break;
        }
    }
    Ok(())
}

fn links(root: &Root, unit: &str) -> Result<Vec<PathBuf>, crate::os::Error> {
    let mut all = root.glob(&format!("{ETC}/*.wants/{unit}"))?;
    all.extend(root.glob(&format!("{ETC}/*.requires/{unit}"))?);
    Ok(all)
}

/// The `.wants` and `.requires` folders of a unit's `[Install]` section.
pub(crate) fn wanted_by(unit: &str) -> Vec<String> {
    let mut folders = Vec::new();
    let mut inside = false;
    for line in unit.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Install]";
        } else if inside && let Some((key, targets)) = line.split_once('=') {
            let ending = match key.trim() {
                "WantedBy" => "wants",
                "RequiredBy" => "requires",
                _ => continue,
            };
            folders.extend(targets.split_whitespace().map(|target| format!("{target}.{ending}")));
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_section_is_read() {
        let unit = "[Unit]\nWantedBy=no\n[Install]\nWantedBy=multi-user.target kubelet.service\nRequiredBy = a.target\nAlias=x\n";
        assert_eq!(wanted_by(unit), ["multi-user.target.wants", "kubelet.service.wants", "a.target.requires"]);
    }

    #[test]
    fn enabling_creates_links_and_disabling_removes_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("root");
        let unit = folder.path().join("usr/lib/systemd/system/agent.service");
        std::fs::create_dir_all(unit.parent().expect("a parent")).expect("folders");
        std::fs::write(&unit, "[Install]\nWantedBy=multi-user.target\n").expect("written");
        assert!(!is_enabled(&root, "agent.service").expect("read"));
        set_enabled(&root, "agent.service", true, Durability::Later).expect("enabled");
        assert!(is_enabled(&root, "agent.service").expect("read"));
        let link = root.read_link("/etc/systemd/system/multi-user.target.wants/agent.service").expect("read");
        assert_eq!(link, Some("/usr/lib/systemd/system/agent.service".into()));
        set_enabled(&root, "agent.service", false, Durability::Later).expect("disabled");
        assert!(!is_enabled(&root, "agent.service").expect("read"));
    }
}
