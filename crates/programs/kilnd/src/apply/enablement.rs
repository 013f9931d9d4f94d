//! Whether a unit starts by itself: links in folders, as the unit's own `[Install]` section asks. The same for a running machine and for
//! a folder, and without asking the service manager, which at first boot has other things to do.

use crate::os::{Durability, Root};

/// Where an administrator's links are.
const ETC: &str = "/etc/systemd/system";
/// Where unit files are, the first one counts.
const PLACES: [&str; 4] = [ETC, "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// Whether anything starts the unit by itself.
pub fn is_enabled(root: &Root, unit: &str) -> Result<bool, crate::os::Error> {
    Ok(!links(root, unit)?.is_empty())
}

/// Whether the unit starts by itself, be it that somebody turned it on or that its package did.
pub fn starts(root: &Root, unit: &str) -> Result<bool, crate::os::Error> {
    for place in PLACES {
        for ending in ["wants", "requires"] {
            if !root.glob(&format!("{place}/*.{ending}/{unit}"))?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Lets a unit start by itself, or no longer. One without an `[Install]` section starts when something else wants it, and stays so.
pub fn set(root: &Root, unit: &str, enabled: bool, durability: Durability) -> Result<(), crate::os::Error> {
    if !enabled {
        for link in links(root, unit)? {
            root.remove(&link, durability)?;
        }
        return Ok(());
    }
    for place in PLACES {
        let path = format!("{place}/{unit}");
        if let Some(bytes) = root.read_if_there(&path)? {
            for folder in wanted_by(&String::from_utf8_lossy(&bytes)) {
                root.flip(&format!("{ETC}/{folder}/{unit}"), &path, durability)?;
            }
            break;
        }
    }
    Ok(())
}

fn links(root: &Root, unit: &str) -> Result<Vec<String>, crate::os::Error> {
    let mut all = root.glob(&format!("{ETC}/*.wants/{unit}"))?;
    all.extend(root.glob(&format!("{ETC}/*.requires/{unit}"))?);
    Ok(all)
}

/// The folders that the `[Install]` section of a unit asks for.
fn wanted_by(unit: &str) -> Vec<String> {
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
    fn a_unit_says_itself_who_wants_it() {
        let unit = "[Unit]\nWantedBy=no\n[Install]\nWantedBy=multi-user.target kubelet.service\nRequiredBy = a.target\nAlias=x\n";
        assert_eq!(wanted_by(unit), ["multi-user.target.wants", "kubelet.service.wants", "a.target.requires"]);
    }

    #[test]
    fn enabling_makes_links_and_disabling_takes_them_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("root");
        let unit = folder.path().join("usr/lib/systemd/system/agent.service");
        std::fs::create_dir_all(unit.parent().expect("a parent")).expect("folders");
        std::fs::write(&unit, "[Install]\nWantedBy=multi-user.target\n").expect("written");
        assert!(!is_enabled(&root, "agent.service").expect("looked"));
        set(&root, "agent.service", true, Durability::Later).expect("enabled");
        assert!(is_enabled(&root, "agent.service").expect("looked"));
        let link = root.read_link("/etc/systemd/system/multi-user.target.wants/agent.service").expect("read");
        assert_eq!(link.as_deref(), Some("/usr/lib/systemd/system/agent.service"));
        set(&root, "agent.service", false, Durability::Later).expect("disabled");
        assert!(!is_enabled(&root, "agent.service").expect("looked"));
    }
}
