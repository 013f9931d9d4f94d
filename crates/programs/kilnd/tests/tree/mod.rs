//! The tree of a disk as a map.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kiln_types::sha256_hex;

/// An entry with everything that a clone could share.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Folder {
        attributes: Attributes,
    },
    File {
        attributes: Attributes,
        sha256: String,
    },
    Link {
        target: String,
    },
    /// A device, a socket or a pipe; overlayfs marks removed files with a device.
    Other {
        mode: u32,
    },
}

/// Mode, owner and extended attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    mode: u32,
    owner: (u32, u32),
    extended: BTreeMap<String, Vec<u8>>,
}

/// All entries by path.
pub(crate) struct Tree(pub(crate) BTreeMap<String, Entry>);

impl Tree {
    pub(crate) fn read(folder: &Path) -> Self {
        let mut all = BTreeMap::new();
        walk(folder, "", &mut all);
        Self(all)
    }
}

fn walk(folder: &Path, shown: &str, into: &mut BTreeMap<String, Entry>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = format!("{shown}/{}", entry.file_name().to_string_lossy());
        let metadata = entry.path().symlink_metadata().expect("metadata");
        let attributes = || Attributes {
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            extended: extended(&entry.path()),
        };
        if metadata.is_dir() {
            walk(&entry.path(), &path, into);
            into.insert(path, Entry::Folder { attributes: attributes() });
        } else if metadata.is_symlink() {
            let target = fs::read_link(entry.path()).expect("a link").to_string_lossy().into_owned();
            into.insert(path, Entry::Link { target });
        } else if metadata.is_file() {
            let sha256 = sha256_hex(&fs::read(entry.path()).expect("bytes"));
            into.insert(path, Entry::File { attributes: attributes(), sha256 });
        } else {
            into.insert(path, Entry::Other { mode: metadata.mode() });
        }
    }
}

/// The extended attributes, except those of overlayfs.
fn extended(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or_default();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let names = names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| !name.starts_with("trusted.overlay"));
    let value = |name: &String| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name.as_str(), &mut value[..]).unwrap_or_default();
        value.truncate(length);
        value
    };
    names.map(|name| (name.clone(), value(&name))).collect()
}

/// Whether a path matches a pattern where `*` matches anything.
pub(crate) fn fits(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    last == Some("") || rest.is_empty()
}
