//! A file tree, as the writers of file systems need it.

use std::collections::BTreeMap;

use super::ext4::xattr;

/// The content of a file: what identifies it, and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content<C> {
    pub id: C,
    pub size: u64,
}

/// Owner, mode and times of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, with the set-user-id, set-group-id and sticky bits.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// Extended attributes by their full name, such as `security.capability`.
    pub extended: BTreeMap<String, Vec<u8>>,
}

/// The number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

/// The type of an entry, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<C> {
    Directory,
    File(Content<C>),
    Symlink(Vec<u8>),
    /// Another name of a file: the path of its first name.
    Link(String),
    CharacterDevice(Device),
    BlockDevice(Device),
    Fifo,
}

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<C> {
    pub attributes: Attributes,
    pub kind: Kind<C>,
    /// The number of the region that holds the entry's inode and blocks.
    pub region: usize,
}

/// Why a tree cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error("`{0}`: a path is relative and has no `.`, `..` or empty part")]
    Path(String),
    #[error("`{0}`: a name has at most 255 bytes")]
    NameLength(String),
    #[error("`{0}`: the folder that contains it is missing, or is a file")]
    Parent(String),
    #[error("`{path}`: a link to `{target}`, which is missing, a folder or a link")]
    LinkTarget { path: String, target: String },
    #[error("`{path}`: an extended attribute `{name}` cannot be stored in this file system")]
    Attribute { path: String, name: String },
    #[error("the tree has no root folder: add an entry with an empty path")]
    NoRoot,
}

/// Entries by path, relative to the root, whose path is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree<C> {
    entries: BTreeMap<String, Entry<C>>,
}

impl<C> Tree<C> {
    /// A tree of entries that fit together.
    pub fn new(entries: BTreeMap<String, Entry<C>>) -> Result<Self, TreeError> {
        if !entries.get("").is_some_and(|root| matches!(root.kind, Kind::Directory)) {
            return Err(TreeError::NoRoot);
        }
        for (path, entry) in &entries {
            check(&entries, path, entry)?;
        }
        Ok(Self { entries })
    }

    /// All entries, sorted by path.
    pub fn entries(&self) -> &BTreeMap<String, Entry<C>> {
        &self.entries
    }
}

fn check<C>(entries: &BTreeMap<String, Entry<C>>, path: &str, entry: &Entry<C>) -> Result<(), TreeError> {
    if !path.is_empty() {
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) || path.contains('\0') {
            return Err(TreeError::Path(path.to_owned()));
        }
        if name(path).len() > 255 {
            return Err(TreeError::NameLength(path.to_owned()));
        }
        if !entries.get(parent(path)).is_some_and(|parent| matches!(parent.kind, Kind::Directory)) {
            return Err(TreeError::Parent(path.to_owned()));
        }
    }
    if let Kind::Link(target) = &entry.kind
        && !entries.get(target).is_some_and(|target| !matches!(target.kind, Kind::Directory | Kind::Link(_)))
    {
        return Err(TreeError::LinkTarget { path: path.to_owned(), target: target.clone() });
    }
    match entry.attributes.extended.iter().find(|(name, value)| xattr::stored(name, value).is_none()) {
        Some((name, _)) => Err(TreeError::Attribute { path: path.to_owned(), name: name.clone() }),
        None => Ok(()),
    }
}

/// The path of the folder that contains a path.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The last part of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
