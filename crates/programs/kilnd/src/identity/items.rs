//! The list of identities as it holds on one disk: ours, and what agents add to it.

use std::path::Path;

use crate::os::{FileKind, Root};
use kiln_node_plan::{DROP_IN_FOLDER, DropIn, IDENTITY, Treatment};

use super::{IQN_PREFIX, IdentityError, UNINITIALIZED};

/// One item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is called.
    pub name: String,
    /// Files and folders, as patterns.
    pub paths: Vec<String>,
    /// What becomes of it.
    pub treatment: Treatment,
}

/// Every item, drop-ins last.
pub fn all(root: &Root) -> Result<Vec<Listed>, IdentityError> {
    let ours = IDENTITY.iter().map(|item| Listed {
        name: item.name.to_owned(),
        paths: item.paths.iter().map(|path| (*path).to_owned()).collect(),
        treatment: item.treatment,
    });
    let mut all: Vec<Listed> = ours.collect();
    for name in root.names(DROP_IN_FOLDER)? {
        if name.starts_with('.') || Path::new(&name).extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let path = format!("{DROP_IN_FOLDER}/{name}");
        let text = root.read(&path)?;
        let item = DropIn::parse(&path, &String::from_utf8_lossy(&text))?;
        all.push(Listed { name: item.name, paths: item.paths, treatment: item.treatment });
    }
    Ok(all)
}

impl Listed {
    /// The paths that are there, whatever is in them.
    pub fn found(&self, root: &Root) -> Result<Vec<String>, crate::os::Error> {
        let mut found = Vec::new();
        for pattern in &self.paths {
            found.extend(root.glob(pattern)?);
        }
        Ok(found)
    }

    /// The paths at which something of an identity is. An empty folder, a file that waits for an id and a configuration that fits any
    /// machine are not.
    pub fn telling(&self, root: &Root) -> Result<Vec<String>, crate::os::Error> {
        let mut telling = Vec::new();
        for path in self.found(root)? {
            let tells = match root.kind(&path)? {
                None => false,
                Some(FileKind::Folder) => !root.names(&path)?.is_empty(),
                Some(FileKind::File) => tells(&self.name, &root.read(&path)?),
                Some(FileKind::Link | FileKind::Other) => true,
            };
            if tells {
                telling.push(path);
            }
        }
        Ok(telling)
    }
}

fn tells(item: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match item {
        "machine-id" => !["", UNINITIALIZED].contains(&text.trim()),
        "netplan" => super::netplan::names_a_machine(&text),
        "iscsi-initiator" => text.lines().any(|line| line.trim_start().starts_with(IQN_PREFIX)),
        "host-name" => !text.trim().is_empty(),
        _ => true,
    }
}
