//! The identity list of one disk, including drop-ins.

use std::path::PathBuf;

use crate::os::{FileKind, Root};
use kiln_node_plan::{DROP_IN_FOLDER, DropIn, IDENTITY, Treatment};

use super::{IQN_PREFIX, IdentityError, UNINITIALIZED, edit};

/// The item with the logs, whose files are emptied.
pub(super) const LOGS: &str = "logs";

/// An item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityItem {
    pub name: String,
    /// Glob patterns of files and folders.
    pub paths: Vec<String>,
    pub treatment: Treatment,
}

/// All items, drop-ins last.
pub fn all(root: &Root) -> Result<Vec<IdentityItem>, IdentityError> {
    let built_in = IDENTITY.iter().map(|item| IdentityItem {
        name: item.name.to_owned(),
        paths: item.paths.iter().map(|path| (*path).to_owned()).collect(),
        treatment: item.treatment,
    });
    let mut all: Vec<IdentityItem> = built_in.collect();
    for path in root.glob(&format!("{DROP_IN_FOLDER}/*.json"))? {
        let text = root.read(&path)?;
        let item = DropIn::parse(&path.to_string_lossy(), &String::from_utf8_lossy(&text))?;
        all.push(IdentityItem { name: item.name, paths: item.paths, treatment: item.treatment });
    }
    Ok(all)
}

impl IdentityItem {
    /// The paths that exist.
    pub fn existing_paths(&self, root: &Root) -> Result<Vec<PathBuf>, crate::os::Error> {
        let mut found = Vec::new();
        for pattern in &self.paths {
            found.extend(root.glob(pattern)?);
        }
        if self.name == LOGS {
            // The journal and the logs of pods are items of their own.
            let others = IDENTITY.iter().filter(|item| item.name != LOGS).flat_map(|item| item.paths);
            let others: Vec<&str> = others.copied().filter(|path| path.starts_with("/var/log/")).collect();
            found.retain(|path| !others.iter().any(|other| path.starts_with(other)));
        }
        Ok(found)
    }

    /// The paths that contain identity. Empty folders, placeholders and machine-independent configuration do not.
    pub fn paths_with_identity(&self, root: &Root) -> Result<Vec<PathBuf>, crate::os::Error> {
        let mut all = Vec::new();
        for path in self.existing_paths(root)? {
            let is_identity = match root.kind(&path)? {
                None => false,
                Some(FileKind::Folder) => !root.names(&path)?.is_empty(),
                Some(FileKind::File) if self.treatment == Treatment::Edit => edit::is_edited(root, &path)?,
                Some(FileKind::File) if self.name == LOGS => root.stat(&path)?.is_some_and(|stat| stat.st_size > 0),
                Some(FileKind::File) => has_identity(&self.name, &root.read(&path)?),
                Some(FileKind::Link | FileKind::Other) => self.treatment != Treatment::Edit,
            };
            if is_identity {
                all.push(path);
            }
        }
        Ok(all)
    }
}

fn has_identity(item: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match item {
        "machine-id" => !["", UNINITIALIZED].contains(&text.trim()),
        "iscsi-initiator" => text.lines().any(|line| line.trim_start().starts_with(IQN_PREFIX)),
        "host-name" => !text.trim().is_empty(),
        _ => true,
    }
}
