//! The content of packages, for every package format.

use std::fs;
use std::path::{Path, PathBuf};

use crate::layer::Entry;
use crate::{Architecture, Error};

/// The content and description of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub architecture: Architecture,
    /// One line.
    pub description: String,
    /// Files below `etc` are configuration files: an upgrade keeps the user's changes.
    pub files: Vec<Entry>,
    /// Symbolic links: path and target.
    pub links: Vec<(String, String)>,
    pub scripts: Scripts,
}

/// The maintainer scripts of both formats. Empty scripts are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scripts {
    /// Debian's scripts, with their first line.
    pub postinst: &'static str,
    pub prerm: &'static str,
    pub postrm: &'static str,
    /// RPM's scriptlets, which `/bin/sh` runs.
    pub rpm_posttrans: &'static str,
    pub rpm_preun: &'static str,
}

/// Where the package keeps kilnd's units. systemd does not read this folder, so an installed package has no effect.
pub const UNITS: &str = "usr/lib/kiln/units";

impl Package {
    /// The package of kilnd with the units of this source tree.
    pub fn kilnd(root: &Path, binary: Vec<u8>, version: &str, architecture: Architecture) -> Result<Self, Error> {
        let mut files = vec![Entry { path: "usr/bin/kilnd".to_owned(), mode: 0o755, content: binary }];
        files.push(Entry::file("usr/share/doc/kilnd/copyright", &root.join("LICENSE"))?);
        let units = root.join("units");
        for path in tree(&units)? {
            let name = path.strip_prefix(&units).unwrap_or(&path).display();
            files.push(Entry { path: format!("{UNITS}/{name}"), mode: 0o644, content: read(&path)? });
        }
        Ok(Self {
            name: "kilnd".to_owned(),
            version: version.to_owned(),
            architecture,
            description: "configures a Kubernetes node at first boot and in place later".to_owned(),
            files,
            links: Vec::new(),
            scripts: Scripts {
                postinst: include_str!("scripts/postinst.sh"),
                prerm: include_str!("scripts/prerm.sh"),
                postrm: include_str!("scripts/postrm.sh"),
                rpm_posttrans: include_str!("scripts/rpm-posttrans.sh"),
                rpm_preun: include_str!("scripts/rpm-preun.sh"),
            },
        })
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(Error::file(path))
}

/// All files below a folder, sorted.
pub(crate) fn tree(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).map_err(Error::file(&path))? {
            let entry = entry.map_err(Error::file(&path))?.path();
            if entry.is_dir() { open.push(entry) } else { files.push(entry) }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// systemd reads no folder of the package, so that installing it changes nothing.
    #[test]
    fn package_of_kilnd_contains_every_unit_where_systemd_does_not_look() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the workspace");
        let package = Package::kilnd(root, b"program".to_vec(), "1.2.3", Architecture::Amd64).expect("a package");
        let units = package.files.iter().filter(|file| file.path.starts_with(UNITS)).count();
        assert_eq!(units, tree(&root.join("units")).expect("units").len());
        assert!(package.files.iter().all(|file| !file.path.contains("systemd/")), "{package:?}");
        assert_eq!(package.links, []);
    }
}
