//! Reads unit files, their drop-ins, and the `.wants` and `.requires` folders.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_boot_analysis::lint::{File, Pulls};

use crate::failure::Failure;

const KINDS: [&str; 11] =
    ["service", "socket", "target", "timer", "path", "mount", "automount", "swap", "slice", "scope", "device"];

/// Unit files with what is needed to check them.
#[derive(Default)]
pub(super) struct Units {
    pub(super) files: Vec<File>,
    pub(super) pulls: Pulls,
    /// Paths of the files to report on. The others are only the context of a single file.
    pub(super) selected: BTreeSet<String>,
}

/// Reads folders of unit files, and single unit files together with the folder that they are in.
///
/// As in systemd, a unit in an earlier folder hides one of the same name in a later folder.
pub(super) fn read(paths: &[PathBuf]) -> Result<Units, Failure> {
    let mut units = Units::default();
    for path in paths {
        if !path.is_file() {
            units.add_folder(path, None)?;
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_unit(name));
        let hint = "name a unit file such as `kubelet.service`, or a folder of unit files";
        let name = name.ok_or_else(|| Failure::file(path, "not a unit file").hint(hint))?;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        units.add_folder(folder, Some(name))?;
    }
    Ok(units)
}

impl Units {
    fn add_folder(&mut self, folder: &Path, only: Option<&str>) -> Result<(), Failure> {
        for path in entries(folder)? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.is_dir() {
                self.add_subfolder(&path, name, only)?;
            } else if is_unit(name) {
                self.add_file(&path, name, only)?;
            }
        }
        Ok(())
    }

    fn add_subfolder(&mut self, folder: &Path, name: &str, only: Option<&str>) -> Result<(), Failure> {
        if let Some(unit) = name.strip_suffix(".wants").or_else(|| name.strip_suffix(".requires")) {
            for path in entries(folder)? {
                let pulled = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                self.pulls.insert((unit.to_owned(), pulled.to_owned()));
            }
        } else if let Some(unit) = name.strip_suffix(".d").filter(|unit| is_unit(unit)) {
            for path in entries(folder)?.iter().filter(|path| path.extension().is_some_and(|kind| kind == "conf")) {
                self.add_file(path, unit, only)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path, unit: &str, only: Option<&str>) -> Result<(), Failure> {
        let shown = path.display().to_string();
        if only.is_none_or(|only| only == unit) {
            self.selected.insert(shown.clone());
        }
        let is_drop_in = |path: &Path| path.extension().is_some_and(|kind| kind == "conf");
        let is_hidden = |file: &File| {
            file.path == shown || !is_drop_in(path) && file.unit == unit && !is_drop_in(Path::new(&file.path))
        };
        if !self.files.iter().any(is_hidden) {
            self.files.push(File { unit: unit.to_owned(), text: text(path)?, path: shown });
        }
        Ok(())
    }
}

fn is_unit(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind))
}

fn text(path: &Path) -> Result<String, Failure> {
    // A link to /dev/null masks a unit, and reads as an empty file.
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        // A link to an absolute path inside an unpacked image.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.is_symlink() => Ok(String::new()),
        Err(error) => Err(Failure::file(path, error)),
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let read = fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    let mut all = Vec::new();
    for entry in read {
        all.push(entry.map_err(|error| Failure::file(folder, error))?.path());
    }
    all.sort();
    Ok(all)
}
