//! Edits files that a clone keeps: network configuration with the donor's MAC addresses, and `/etc/hosts`. netplan's generator has already converted the
//! donor's file for networkd before any service of this boot runs, so its output is edited too.

use std::path::Path;

use crate::os::{Durability, FileKind, Root};
use kiln_node_plan::identity_edit::edited;
use kiln_node_plan::{DesiredFile, IDENTITY, Owner, Treatment};

use super::fresh::HOST_NAME;

/// Files that netplan's generator wrote at the start of this boot.
const GENERATED: [&str; 2] = ["/run/systemd/network/10-netplan-*.network", "/run/systemd/network/10-netplan-*.link"];

/// Removes the donor's identity from all files of the list that are edited. The host name must still be the donor's.
pub fn edit_files(root: &Root) -> Result<(), crate::os::Error> {
    let items = IDENTITY.iter().filter(|item| item.treatment == Treatment::Edit);
    let patterns = items.flat_map(|item| item.paths).chain(&GENERATED);
    let mut files = Vec::new();
    for pattern in patterns {
        for path in root.glob(pattern)? {
            files.extend(edited_file(root, &path)?);
        }
    }
    root.write_all(&files, Durability::Later)
}

/// Whether a file has lines to remove.
pub(super) fn is_edited(root: &Root, path: &Path) -> Result<bool, crate::os::Error> {
    Ok(edited_file(root, path)?.is_some())
}

/// The file without the donor's identity, with its owner and mode; none if it has none. Links are not followed: their target is another program's.
fn edited_file(root: &Root, path: &Path) -> Result<Option<DesiredFile>, crate::os::Error> {
    // No program writes its configuration under a name that is not UTF-8.
    let Some(name) = path.to_str().filter(|_| matches!(root.kind(path), Ok(Some(FileKind::File)))) else {
        return Ok(None);
    };
    let contents = root.contents(path)?;
    let content = edited(name, &contents.bytes, &host_name(root)?);
    let owner = Owner::from_ids(contents.uid, contents.gid);
    Ok(content.map(|content| DesiredFile::new(name, content, contents.mode).owned_by(owner)))
}

/// The host name on the disk; empty without one.
pub(super) fn host_name(root: &Root) -> Result<String, crate::os::Error> {
    let bytes = root.read_if_exists(HOST_NAME)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
