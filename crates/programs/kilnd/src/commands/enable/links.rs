//! The links that put the packaged units into effect. The package's own folder is not read by systemd, so that installing the package changes
//! nothing. Links rather than copies: if the package is removed without its scripts, systemd ignores the dangling links, and no gate is left.

use std::path::Path;

use kiln_node_plan::layout::{PACKAGED_UNITS, UNITS};
use kiln_node_plan::unit_file::UnitFile;
use serde::Serialize;

use crate::apply::enablement::wanted_by;
use crate::os::{Error, FileKind, Root};

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    pub path: String,
    pub target: String,
}

impl Link {
    /// Unit and file name, if it is a drop-in.
    pub fn drop_in(&self) -> Option<(&str, &str)> {
        let (folder, name) = self.path.strip_prefix(UNITS)?.strip_prefix('/')?.split_once('/')?;
        Some((folder.strip_suffix(".d")?, name))
    }
}

/// The packaged units and drop-ins. Paths are relative to their folder. Empty if the package is not installed.
pub fn packaged(root: &Root) -> Result<Vec<UnitFile>, Error> {
    let mut paths = root.glob(&format!("{PACKAGED_UNITS}/*"))?;
    paths.extend(root.glob(&format!("{PACKAGED_UNITS}/*/*"))?);
    let mut files = Vec::new();
    for path in paths {
        if root.kind(&path)? == Some(FileKind::File) {
            let text = String::from_utf8_lossy(&root.read(&path)?).into_owned();
            let name = path.strip_prefix(PACKAGED_UNITS).unwrap_or(&path).to_string_lossy().into_owned();
            files.push(UnitFile { path: name, text });
        }
    }
    Ok(files)
}

/// The links for these units. Drop-ins are last: without the other links they would only close the gate.
pub fn wanted(packaged: &[UnitFile]) -> Vec<Link> {
    let linked = |name: &str| Link { path: format!("{UNITS}/{name}"), target: format!("{PACKAGED_UNITS}/{name}") };
    let (drop_ins, units): (Vec<&UnitFile>, Vec<&UnitFile>) = packaged.iter().partition(|file| file.path.contains('/'));
    let mut links = Vec::new();
    for unit in units {
        let link = linked(&unit.path);
        let wants = wanted_by(&unit.text).into_iter();
        let wants = wants.map(|folder| format!("{UNITS}/{folder}/{}", unit.path));
        let wants: Vec<Link> = wants.map(|path| Link { path, target: link.path.clone() }).collect();
        links.push(link);
        links.extend(wants);
    }
    links.extend(drop_ins.into_iter().map(|file| linked(&file.path)));
    links
}

/// The links that `kilnd enable` created, whichever version of the package is installed now. Drop-ins are first: whenever the removal is
/// interrupted, no gate is left that nothing opens.
pub fn existing(root: &Root) -> Result<Vec<Link>, Error> {
    let mut all = Vec::new();
    for pattern in ["*", "*/*"] {
        for path in root.glob(&format!("{UNITS}/{pattern}"))? {
            // A link whose name or target is not UTF-8 is not kiln's.
            let target = root.read_link(&path)?;
            if let (Some(path), Some(target)) = (path.to_str(), target.as_deref().and_then(Path::to_str)) {
                all.push(Link { path: path.to_owned(), target: target.to_owned() });
            }
        }
    }
    let folder = format!("{PACKAGED_UNITS}/");
    let (mut links, others): (Vec<Link>, Vec<Link>) =
        all.into_iter().partition(|link| link.target.starts_with(&folder));
    let units: Vec<String> = links.iter().map(|link| link.path.clone()).collect();
    links.extend(others.into_iter().filter(|link| units.contains(&link.target)));
    // Units last: the other links of an interrupted removal are recognised by them.
    links.sort_by_key(|link| (link.drop_in().is_none(), link.target.starts_with(&folder)));
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packaged_file_is_linked_and_drop_ins_are_last() {
        let file = |path: &str, text: &str| UnitFile { path: path.to_owned(), text: text.to_owned() };
        let links = wanted(&[
            file("kubelet.service.d/99-kiln.conf", "[Unit]\n"),
            file("kiln-a.service", "[Install]\nWantedBy=x.target\n"),
            file("kiln-b.service", ""),
        ]);
        let shown: Vec<_> = links.iter().map(|link| (link.path.as_str(), link.target.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("/etc/systemd/system/kiln-a.service", "/usr/lib/kiln/units/kiln-a.service"),
                ("/etc/systemd/system/x.target.wants/kiln-a.service", "/etc/systemd/system/kiln-a.service"),
                ("/etc/systemd/system/kiln-b.service", "/usr/lib/kiln/units/kiln-b.service"),
                (
                    "/etc/systemd/system/kubelet.service.d/99-kiln.conf",
                    "/usr/lib/kiln/units/kubelet.service.d/99-kiln.conf"
                ),
            ]
        );
        assert_eq!(links[3].drop_in(), Some(("kubelet.service", "99-kiln.conf")));
        assert!(links[..3].iter().all(|link| link.drop_in().is_none()));
    }
}
