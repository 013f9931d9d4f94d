//! Reads a unit with its drop-ins as systemd would load it, also below `--root`, where no systemd runs.

use std::collections::BTreeMap;
use std::path::Path;

use kiln_node_plan::unit_file::UnitFile;

use crate::os::{Error, Root};

/// Drop-ins here win over all others, and the folder is empty after a boot.
pub const RUNTIME_CONTROL: &str = "/run/systemd/system.control";
/// The folder of local units.
pub const ETC: &str = "/etc/systemd/system";

/// systemd's search path: a file hides those with the same name in later folders.
pub const SEARCH_PATH: [&str; 13] = [
    "/etc/systemd/system.control",
    RUNTIME_CONTROL,
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    ETC,
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// A link to it masks a unit or a drop-in.
pub const MASK: &str = "/dev/null";

/// The unit file and its drop-ins, in the order in which systemd reads them. Empty if the unit does not exist.
pub fn load(root: &Root, unit: &str) -> Result<Vec<UnitFile>, Error> {
    let mut files = Vec::new();
    for folder in SEARCH_PATH {
        let path = format!("{folder}/{unit}");
        if root.kind(&path)?.is_some() {
            files.extend(read(root, path)?);
            break;
        }
    }
    files.extend(drop_ins(root, unit)?);
    Ok(files)
}

/// The drop-ins of a unit, sorted by file name.
pub fn drop_ins(root: &Root, unit: &str) -> Result<Vec<UnitFile>, Error> {
    let kind = unit.rsplit_once('.').map_or("service", |(_, kind)| kind);
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    // Drop-ins of the unit hide those of its type (`service.d`).
    for of in [unit, kind] {
        for folder in SEARCH_PATH {
            let is_drop_in = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "conf");
            for name in root.text_names(format!("{folder}/{of}.d"))?.into_iter().filter(is_drop_in) {
                let path = format!("{folder}/{of}.d/{name}");
                names.entry(name).or_insert(path);
            }
        }
    }
    let mut files = Vec::new();
    for path in names.into_values() {
        files.extend(read(root, path)?);
    }
    Ok(files)
}

/// A file; none if it is masked or a dangling link, which systemd ignores.
fn read(root: &Root, path: String) -> Result<Option<UnitFile>, Error> {
    if root.read_link(&path)?.as_deref() == Some(Path::new(MASK)) {
        return Ok(None);
    }
    let bytes = root.read_if_exists(&path)?;
    Ok(bytes.map(|bytes| UnitFile { text: String::from_utf8_lossy(&bytes).into_owned(), path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_ins_are_sorted_by_name_and_earlier_folders_hide_later_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("root");
        let write = |path: &str| {
            let file = folder.path().join(path);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("folders");
            std::fs::write(file, path).expect("written");
        };
        for path in [
            "usr/lib/systemd/system/kubelet.service",
            "etc/systemd/system/kubelet.service.d/90-z.conf",
            "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
            "usr/lib/systemd/system/kubelet.service.d/50-masked.conf",
            "usr/lib/systemd/system/kubelet.service.d/90-z.conf",
            "usr/lib/systemd/system/kubelet.service.d/note.txt",
            "usr/lib/systemd/system/service.d/10-all.conf",
        ] {
            write(path);
        }
        std::fs::create_dir_all(folder.path().join("run/systemd/system/kubelet.service.d")).expect("folders");
        let mask = folder.path().join("run/systemd/system/kubelet.service.d/50-masked.conf");
        std::os::unix::fs::symlink(MASK, mask).expect("linked");
        let paths: Vec<_> = load(&root, "kubelet.service").expect("read").into_iter().map(|file| file.path).collect();
        assert_eq!(
            paths,
            [
                "/usr/lib/systemd/system/kubelet.service",
                "/usr/lib/systemd/system/service.d/10-all.conf",
                "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
                "/etc/systemd/system/kubelet.service.d/90-z.conf",
            ]
        );
        assert_eq!(load(&root, "none.service").expect("read").len(), 1, "only the drop-in of the type");
    }
}
