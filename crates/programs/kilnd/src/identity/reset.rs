//! Resets a clone: checks everything on the identity list first, then deletes it, then creates a new identity.

use std::path::{Component, Path, PathBuf};

use crate::os::{Durability, FileKind, Root, Systemd, clock};
use kiln_node_plan::identity::is_rotated_log;
use kiln_node_plan::layout::{BOOTSTRAP_KUBECONFIG, GENERATIONS, STATE};
use kiln_node_plan::{FileState, Treatment};
use kiln_types::{JoinCredential, KeepOrDrop, RefuseReason, clone_credential};

use super::fresh::{self, Existing, HOST_NAME, INITIATOR, MACHINE_ID};
use super::tenants::{self, Layers};
use super::{IdentityError, ancestry, edit, items, join};
use crate::node::Node;

/// Files that are replaced atomically instead of deleted, so that they always exist.
const REPLACED: [&str; 2] = [MACHINE_ID, HOST_NAME];
/// Started before kilnd, with the donor's machine id.
const JOURNALD: &str = "systemd-journald.service";
/// The folder of logs.
const LOG_FOLDER: &str = "/var/log";
/// Cache of exec plugins.
const PLUGIN_CACHE: &str = "/root/.kube/cache";

/// The result of a cleanup.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Names of the items that existed.
    pub items: Vec<String>,
    /// The treatment of the join credential, as text.
    pub credential: String,
    existing: Existing,
}

/// Resets the identity of a clone.
pub(super) fn reset(node: &Node, donor: &str, id: Option<&str>) -> Result<(), IdentityError> {
    let cleaned = clean(&node.root, &REPLACED, |line| node.log.info(line))?;
    node.log.info(&format!("reset {}; {}", cleaned.items.join(", "), cleaned.credential));
    fresh::make(node, id, cleaned.existing)?;
    ancestry::add(&node.root, donor, id, clock::wall())?;
    if let Some(socket) = &node.systemd {
        // Without waiting, because journald may be ordered after this unit. systemd buffers its logs meanwhile.
        let restarted = Systemd::new(socket, std::time::Duration::from_secs(5)).restart_no_wait(JOURNALD);
        if let Err(error) = restarted {
            node.log.info(&format!("the journal still uses the donor's machine id: {error}"));
        }
    }
    Ok(())
}

/// Deletes all identity and the remains of containers, except the files in `replaced`. Fails before anything is deleted if something is mounted
/// in one of the folders.
pub fn clean(root: &Root, replaced: &[&str], mut log: impl FnMut(&str)) -> Result<Cleaned, IdentityError> {
    let mut cleaned = Cleaned::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    for item in items::all(root)?.into_iter().filter(|item| item.treatment != Treatment::Keep) {
        if !item.paths_with_identity(root)?.is_empty() {
            cleaned.items.push(item.name.clone());
        }
        if item.treatment == Treatment::Edit {
            continue;
        }
        let found = item.existing_paths(root)?;
        cleaned.existing.initiator |= found.iter().any(|path| path == Path::new(INITIATOR));
        cleaned.existing.nvme |= item.name == "nvme-host-ids" && !found.is_empty();
        paths.extend(found.into_iter().filter(|path| !replaced.iter().any(|replaced| path == Path::new(replaced))));
    }
    paths.extend(tenants::folders(root)?.into_iter().map(PathBuf::from));
    match tenants::layers(root)? {
        Layers::Known(folders) => paths.extend(folders.into_iter().map(PathBuf::from)),
        Layers::Unknown { why } => {
            log(&format!("container layers are kept, because they cannot be distinguished from image layers: {why}"));
        }
    }
    paths.extend(token_files(root)?);
    let (deleted, treatment) = match join::credential(root)? {
        Some(credential) => treat_credential(root, &credential)?,
        None => (Vec::new(), "no join credential".to_owned()),
    };
    paths.extend(deleted);
    cleaned.credential = treatment;
    for path in &paths {
        root.refuse_mounts(path)?;
    }
    let host_name = edit::host_name(root)?;
    // First, because it needs the donor's name.
    edit::edit_files(root)?;
    for path in &paths {
        let done = remove(root, path, &host_name)?;
        // Layers and logs are not logged: a node has hundreds of them.
        if !tenants::is_layer(path) && !path.starts_with(LOG_FOLDER) {
            log(&format!("{done} {}", path.display()));
        }
    }
    // The donor's state does not apply here. Its generations stay, because they know what was on the disk before kiln.
    root.remove(STATE, Durability::Later)?;
    Ok(cleaned)
}

/// Files outside kiln's folders with a bootstrap token, as named by documents. A token must come from outside an image, so it is deleted. The
/// program that writes it for new machines writes it again; until then the clone waits instead of joining with a token that may be revoked.
fn token_files(root: &Root) -> Result<Vec<PathBuf>, crate::os::Error> {
    let tokens = join::credential_files(root)?.into_iter().filter(|(_, is_token)| *is_token);
    let mut all = Vec::new();
    for (path, _) in tokens {
        let mut path = PathBuf::from(path);
        // Links are followed to the file. A link with `..` is deleted but not followed.
        while let Some(target) = root.read_link(&path)? {
            // Joining an absolute target replaces the folder; collecting the components drops `.` and empty ones.
            let next = path.parent().unwrap_or(&path).join(&target).components().collect();
            all.push(std::mem::replace(&mut path, next));
            if target.components().any(|part| part == Component::ParentDir) {
                break;
            }
        }
        all.extend(root.kind(&path).ok().flatten().map(|_| path));
    }
    Ok(all)
}

/// Deletes a file, or the content of a folder. Folders stay, because packages set their owner and mode and journald needs its folder; so do logs that a
/// program may be unable to create again.
fn remove(root: &Root, path: &Path, host_name: &str) -> Result<&'static str, crate::os::Error> {
    match root.kind(path)? {
        Some(FileKind::Folder) => root.clear_folder(path).map(|_| "emptied"),
        Some(FileKind::File) if path.starts_with(LOG_FOLDER) && keeps_name(path, host_name) => {
            root.truncate(path).map(|()| "emptied")
        }
        _ => root.remove(path, Durability::Later).map(|_| "removed"),
    }
}

/// Whether a log stays as an empty file: the current one of a program, without the donor's name in its own.
fn keeps_name(path: &Path, host_name: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| !is_rotated_log(name) && (host_name.is_empty() || !name.contains(host_name)))
}

/// The credential files to delete, by kind, and a description. The prototype operation refuses donors whose clones cannot join; here the safest
/// option is chosen. A clone without a credential joins by the pool's recipe, which starts from a node without traces of an earlier join.
fn treat_credential(root: &Root, credential: &JoinCredential) -> Result<(Vec<PathBuf>, String), crate::os::Error> {
    let kind = credential.kind();
    match clone_credential(credential) {
        Ok(KeepOrDrop::Keep) => Ok((Vec::new(), format!("kept the join credential ({kind})"))),
        Ok(KeepOrDrop::KeepDroppingCache) => {
            let cache = root.kind(PLUGIN_CACHE)?.map(|_| PathBuf::from(PLUGIN_CACHE));
            Ok((cache.into_iter().collect(), format!("kept the join credential ({kind}), deleted its cache")))
        }
        Ok(KeepOrDrop::Drop { .. }) | Err(RefuseReason::NotRenewed { .. } | RefuseReason::NodeCertificate { .. }) => {
            let mut all: Vec<PathBuf> = join::traces(root)?.into_iter().map(PathBuf::from).collect();
            all.extend(tokens(root)?);
            Ok((all, format!("deleted the join credential ({kind}), waiting for a new one")))
        }
        Err(RefuseReason::Unknown { why }) => {
            Ok((Vec::new(), format!("kept the join credential of unknown kind: {why}")))
        }
    }
}

/// Files with the donor's token: secret files of kiln's generations, and kubeconfigs. The files from which the kind is determined come last, so
/// that an interrupted reset determines the same kind again.
fn tokens(root: &Root) -> Result<Vec<PathBuf>, crate::os::Error> {
    let (mut all, mut evidence) = (Vec::new(), Vec::new());
    for path in root.glob(&format!("{GENERATIONS}/*/*"))? {
        // Readable only by root.
        if matches!(root.file_state(&path)?, FileState::File { mode, .. } if mode.trailing_zeros() >= 6) {
            if path.ends_with(BOOTSTRAP_KUBECONFIG) { evidence.push(path) } else { all.push(path) }
        }
    }
    all.extend(join::node_kubeconfigs(root)?.into_iter().map(PathBuf::from));
    for path in join::BOOTSTRAP {
        if root.kind(path)? == Some(FileKind::File) {
            all.push(path.into());
        }
    }
    all.extend(evidence);
    Ok(all)
}
