//! Files that are put into a root folder.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::Error;

/// One change to a root folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    File {
        path: String,
        mode: u32,
        content: Vec<u8>,
    },
    Link {
        path: String,
        to: String,
    },
    /// Removes a file.
    Remove(String),
}

impl Item {
    /// A file that everyone may read.
    pub(crate) fn text(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::File { path: path.to_owned(), mode: 0o644, content: content.into() }
    }

    /// An executable file.
    pub(crate) fn program(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::File { path: path.to_owned(), mode: 0o755, content: content.into() }
    }

    /// Enables a unit for multi-user.target.
    pub(crate) fn enable(unit: &str) -> Self {
        let path = format!("/etc/systemd/system/multi-user.target.wants/{unit}");
        Self::Link { path, to: format!("/etc/systemd/system/{unit}") }
    }
}

/// Applies items to a root folder, in order: a later one replaces an earlier one.
pub(crate) fn apply(root: &Path, items: &[Item]) -> Result<(), Error> {
    for item in items {
        let (Item::File { path, .. } | Item::Link { path, .. } | Item::Remove(path)) = item;
        let path = root.join(path.trim_start_matches('/'));
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
        if !matches!(item, Item::Remove(_)) {
            let folder = path.parent().unwrap_or(root);
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        match item {
            Item::File { mode, content, .. } => {
                fs::write(&path, content).map_err(Error::file(&path))?;
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).map_err(Error::file(&path))?;
            }
            Item::Link { to, .. } => symlink(to, &path).map_err(Error::file(&path))?,
            Item::Remove(_) => {}
        }
    }
    Ok(())
}

/// Creates a folder and the folders above it.
pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::file(path))
}
