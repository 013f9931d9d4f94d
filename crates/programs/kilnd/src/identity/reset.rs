//! A clone gets rid of its donor's identity: everything of the list, first looked at as a whole, then taken away, then made anew.

use crate::os::{Durability, FileKind, Root, Systemd, clock};
use kiln_node_plan::layout::{BOOTSTRAP_KUBECONFIG, GENERATIONS, STATE};
use kiln_node_plan::{FileState, Treatment};
use kiln_types::{JoinCredential, KeepOrDrop, RefuseReason, clone_credential};

use super::fresh::{self, HOST_NAME, Had, INITIATOR, MACHINE_ID};
use super::tenants::{self, Layers};
use super::{IdentityError, ancestry, items, join};
use crate::node::Node;

/// What is replaced in one step rather than removed: at no moment is a machine without it.
const REPLACED: [&str; 3] = [MACHINE_ID, HOST_NAME, "/etc/netplan/50-cloud-init.yaml"];
/// It read the machine id when it started, before us.
const JOURNALD: &str = "systemd-journald.service";
/// Where plugins for credentials keep what they fetched.
const PLUGIN_CACHE: &str = "/root/.kube/cache";

/// What a cleaning took away.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Items of the list, by name, that were there.
    pub items: Vec<String>,
    /// What became of the join credential.
    pub credential: String,
    had: Had,
}

/// Makes a clone a machine of its own.
pub(super) fn reset(node: &Node, donor: &str, id: Option<&str>) -> Result<(), IdentityError> {
    let cleaned = clean(&node.root, &REPLACED, |line| node.log.info(line))?;
    node.log.info(&format!("identity: reset {}; {}", cleaned.items.join(", "), cleaned.credential));
    fresh::make(node, id, cleaned.had)?;
    ancestry::add(&node.root, donor, id, clock::wall())?;
    if let Some(socket) = &node.systemd {
        // Without waiting: journald may be ordered after us. Its logs of this boot stay with PID 1 meanwhile.
        let told = Systemd::new(socket, std::time::Duration::from_secs(5)).restart_no_wait(JOURNALD);
        if let Err(error) = told {
            node.log.info(&format!("the journal goes on under the donor's machine id: {error}"));
        }
    }
    Ok(())
}

/// Takes away everything of an identity and of tenants but what is `replaced` by the caller. Refuses, before anything is deleted, where
/// something is mounted in it.
pub fn clean(root: &Root, replaced: &[&str], mut say: impl FnMut(&str)) -> Result<Cleaned, IdentityError> {
    let mut cleaned = Cleaned::default();
    let mut doomed = Vec::new();
    for item in items::all(root)?.into_iter().filter(|item| item.treatment != Treatment::Keep) {
        if !item.telling(root)?.is_empty() {
            cleaned.items.push(item.name.clone());
        }
        let found = item.found(root)?;
        cleaned.had.initiator |= found.iter().any(|path| path == INITIATOR);
        cleaned.had.nvme |= item.name == "nvme-host-ids" && !found.is_empty();
        doomed.extend(found.into_iter().filter(|path| !replaced.contains(&path.as_str())));
    }
    doomed.extend(tenants::folders(root)?);
    match tenants::layers(root)? {
        Layers::Known(folders) => doomed.extend(folders),
        Layers::Unknown { why } => {
            say(&format!("layers of containers cannot be told from those of images and stay: {why}"));
        }
    }
    doomed.extend(outside(root)?);
    let (dropped, what) = match join::credential(root)? {
        Some(credential) => fate(root, &credential)?,
        None => (Vec::new(), "there is no join credential".to_owned()),
    };
    doomed.extend(dropped);
    cleaned.credential = what;
    for path in &doomed {
        root.refuse_mounts(path)?;
    }
    for path in &doomed {
        let done = remove(root, path)?;
        // A node had some hundred containers, each with two folders.
        if !tenants::is_layer(path) {
            say(&format!("{done} {path}"));
        }
    }
    // What the donor remembers of its documents is not ours; what they changed on the disk still is.
    root.remove(STATE, Durability::Later)?;
    Ok(cleaned)
}

/// Files of others that hold a token of the donor, by its documents. A token must come from outside an image, so it goes wherever it lies:
/// who writes it for new machines writes it here again, and until then this one waits instead of joining with one that may be revoked.
fn outside(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let tokens = join::named(root)?.into_iter().filter(|(_, is_token)| *is_token);
    let mut all = Vec::new();
    for (mut path, _) in tokens {
        // What a link leads to holds it. One that leads by `..` is all that goes: where that ends is not for us to guess.
        while let Some(target) = root.read_link(&path)? {
            let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let next = if target.starts_with('/') { target.clone() } else { format!("{beside}/{target}") };
            all.push(std::mem::replace(&mut path, join::plain(&next)));
            if target.split('/').any(|part| part == "..") {
                break;
            }
        }
        all.extend(root.kind(&path).ok().flatten().map(|_| path));
    }
    Ok(all)
}

/// A folder stays, empty: its owner and mode were given by a package, and journald writes to disk only where its folder is.
fn remove(root: &Root, path: &str) -> Result<&'static str, crate::os::Error> {
    match root.kind(path)? {
        Some(FileKind::Folder) => root.clear_folder(path).map(|_| "emptied"),
        _ => root.remove(path, Durability::Later).map(|_| "removed"),
    }
}

/// Which files of the join credential go, by its kind, and a word on it. The operation that made this clone refused what cannot join; here
/// the safest is done.
fn fate(root: &Root, credential: &JoinCredential) -> Result<(Vec<String>, String), crate::os::Error> {
    let kind = credential.kind();
    match clone_credential(credential) {
        Ok(KeepOrDrop::Keep) => Ok((Vec::new(), format!("the join credential ({kind}) stays"))),
        Ok(KeepOrDrop::KeepDroppingCache) => {
            let cache = root.kind(PLUGIN_CACHE)?.map(|_| PLUGIN_CACHE.to_owned());
            Ok((cache.into_iter().collect(), format!("the join credential ({kind}) stays, what it fetched goes")))
        }
        Ok(KeepOrDrop::Drop { .. }) | Err(RefuseReason::NotRenewed { .. }) => {
            Ok((tokens(root)?, format!("the join credential ({kind}) goes, a new one comes from outside")))
        }
        Err(RefuseReason::Unknown { why }) => Ok((Vec::new(), format!("the join credential is left alone: {why}"))),
    }
}

/// Files that hold the donor's token: the secret ones of kiln's own generations, and the kubelet's. What the kind of the credential is told
/// by comes last, so that whoever is cut off sees it again.
fn tokens(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let (mut all, mut evidence) = (Vec::new(), Vec::new());
    for path in root.glob(&format!("{GENERATIONS}/*/*"))? {
        // Only the superuser reads it: mode 0x00.
        if matches!(root.file_state(&path)?, FileState::File { mode, .. } if mode.trailing_zeros() >= 6) {
            if path.ends_with(BOOTSTRAP_KUBECONFIG) { evidence.push(path) } else { all.push(path) }
        }
    }
    all.extend(join::own(root)?);
    for path in join::FIRST {
        if root.kind(path)? == Some(FileKind::File) {
            all.push(path.to_owned());
        }
    }
    all.extend(evidence);
    Ok(all)
}
