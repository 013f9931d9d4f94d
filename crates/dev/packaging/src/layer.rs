//! Layers: tar archives whose bytes depend only on their entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use tar::{Builder, EntryType, Header};

use crate::Error;

/// A file of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root.
    pub path: String,
    pub mode: u32,
    pub content: Vec<u8>,
}

impl Entry {
    /// The content of a file on this machine. Its mode does not depend on that of the file, or two clones could differ.
    pub(crate) fn file(path: &str, from: &Path) -> Result<Self, Error> {
        let content = std::fs::read(from).map_err(Error::file(from))?;
        Ok(Self { path: path.to_owned(), mode: 0o644, content })
    }
}

/// The archive of these files and their parent folders, sorted. Everything belongs to root and has the epoch as time.
pub fn layer(files: &[Entry]) -> Result<Vec<u8>, Error> {
    let mut sorted = BTreeMap::new();
    let mut folders = BTreeSet::new();
    for file in files {
        let path = Path::new(&file.path);
        let is_plain = path.components().all(|component| matches!(component, Component::Normal(_)));
        if !is_plain || file.path.is_empty() || sorted.insert(file.path.as_str(), file).is_some() {
            return Err(Error::Path(file.path.clone()));
        }
        folders.extend(path.ancestors().skip(1).filter_map(Path::to_str).filter(|path| !path.is_empty()));
    }
    if let Some(duplicate) = folders.iter().find(|folder| sorted.contains_key(*folder)) {
        return Err(Error::Path((*duplicate).to_owned()));
    }
    let mut archive = Builder::new(Vec::new());
    // Folders precede their content.
    for folder in folders {
        append(&mut archive, &format!("{folder}/"), EntryType::Directory, 0o755, &[])?;
    }
    for (path, file) in sorted {
        append(&mut archive, path, EntryType::Regular, file.mode, &file.content)?;
    }
    archive.into_inner().map_err(|source| Error::Entry { path: "end of archive".to_owned(), source })
}

/// Appends an entry whose header does not depend on the machine.
pub(crate) fn append(
    archive: &mut Builder<Vec<u8>>,
    path: &str,
    kind: EntryType,
    mode: u32,
    content: &[u8],
) -> Result<(), Error> {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, path, content).map_err(|source| Error::Entry { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn file(path: &str, mode: u32, content: &str) -> Entry {
        Entry { path: path.to_owned(), mode, content: content.into() }
    }

    #[test]
    fn order_of_files_does_not_matter_and_folders_are_first() {
        let (one, two) = (file("usr/bin/b", 0o755, "program"), file("etc/a", 0o644, "text"));
        let archive = layer(&[one.clone(), two.clone()]).unwrap();
        assert_eq!(archive, layer(&[two, one]).unwrap());
        let mut reader = tar::Archive::new(archive.as_slice());
        let mut seen = Vec::new();
        for entry in reader.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 0));
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            seen.push((entry.path().unwrap().display().to_string(), header.mode().unwrap(), content));
        }
        let seen: Vec<_> = seen.iter().map(|(path, mode, content)| (path.as_str(), *mode, content.as_str())).collect();
        let expected = [
            ("etc/", 0o755, ""),
            ("usr/", 0o755, ""),
            ("usr/bin/", 0o755, ""),
            ("etc/a", 0o644, "text"),
            ("usr/bin/b", 0o755, "program"),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn paths_outside_the_root_and_duplicates_are_rejected() {
        for paths in [&["/etc/a"][..], &["../a"], &["a/./../b"], &["a", "a"], &["a", "a/b"], &[""]] {
            let files: Vec<_> = paths.iter().map(|path| file(path, 0o644, "")).collect();
            assert!(matches!(layer(&files), Err(Error::Path(_))), "{paths:?}");
        }
    }
}
