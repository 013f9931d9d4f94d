//! What is put into a root.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::Error;

/// One thing that is put into a root, or taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    File {
        /// Where, from the root.
        path: String,
        mode: u32,
        /// What is in it.
        content: Vec<u8>,
    },
    Link {
        /// Where, from the root.
        path: String,
        /// What it leads to.
        to: String,
    },
    /// Nothing may be there.
    Gone(String),
}

impl Item {
    /// A text that everybody may read.
    pub(crate) fn text(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::File { path: path.to_owned(), mode: 0o644, content: content.into() }
    }

    /// A program.
    pub(crate) fn program(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::File { path: path.to_owned(), mode: 0o755, content: content.into() }
    }

    /// A unit that multi-user.target wants.
    pub(crate) fn wanted(unit: &str) -> Self {
        let path = format!("/etc/systemd/system/multi-user.target.wants/{unit}");
        Self::Link { path, to: format!("/etc/systemd/system/{unit}") }
    }
}

/// Puts items below a root, in order: a later one replaces an earlier one.
pub(crate) fn place(root: &Path, items: &[Item]) -> Result<(), Error> {
    for item in items {
        let (Item::File { path, .. } | Item::Link { path, .. } | Item::Gone(path)) = item;
        let path = root.join(path.trim_start_matches('/'));
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
        if !matches!(item, Item::Gone(_)) {
            let folder = path.parent().unwrap_or(root);
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        match item {
            Item::File { mode, content, .. } => {
                fs::write(&path, content).map_err(Error::file(&path))?;
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).map_err(Error::file(&path))?;
            }
            Item::Link { to, .. } => symlink(to, &path).map_err(Error::file(&path))?,
            Item::Gone(_) => {}
        }
    }
    Ok(())
}
