//! Unit files of folders, with their drop-ins and the links that pull units in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_boot_analysis::lint::{File, Pulls};

use crate::failure::Failure;

const KINDS: [&str; 11] =
    ["service", "socket", "target", "timer", "path", "mount", "automount", "swap", "slice", "scope", "device"];

/// All unit files. A unit of an earlier folder hides those of the same name in later ones, as it does for systemd.
pub(super) fn read(folders: &[PathBuf]) -> Result<(Vec<File>, Pulls), Failure> {
    let (mut files, mut pulls): (Vec<File>, Pulls) = (Vec::new(), Pulls::new());
    let mut seen = BTreeSet::new();
    for folder in folders {
        for path in entries(folder)? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            if path.is_dir() {
                inside(&path, &name, &mut files, &mut pulls)?;
            } else if is_unit(&name) && seen.insert(name.clone()) {
                files.push(file(&path, name)?);
            }
        }
    }
    Ok((files, pulls))
}

fn inside(folder: &Path, name: &str, files: &mut Vec<File>, pulls: &mut Pulls) -> Result<(), Failure> {
    if let Some(unit) = name.strip_suffix(".wants").or_else(|| name.strip_suffix(".requires")) {
        for path in entries(folder)? {
            let pulled = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            pulls.insert((unit.to_owned(), pulled.to_owned()));
        }
    } else if let Some(unit) = name.strip_suffix(".d").filter(|unit| is_unit(unit)) {
        for path in entries(folder)?.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "conf")) {
            files.push(file(&path, unit.to_owned())?);
        }
    }
    Ok(())
}

fn is_unit(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind))
}

fn file(path: &Path, unit: String) -> Result<File, Failure> {
    // A link to /dev/null masks a unit: it reads as an empty file, which is what it is.
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        // A link out of an image that is not the root of this machine.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.is_symlink() => String::new(),
        Err(error) => return Err(Failure::file(path, error)),
    };
    Ok(File { unit, path: path.display().to_string(), text })
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
