//! What is on the machine, as far as a plan asks.

use std::collections::BTreeMap;

use crate::os::{Found, Kind, Owners, Root};
use kiln_node_plan::{Artifact, Desired, Late, Manifest, Observed, Owner, Questions, Seen};

use crate::apply::{deferred, enablement, metadata_block};

/// Answers what a plan to a desired state asks. `manifest` is what the generation before remembers.
pub fn observe(root: &Root, desired: &Desired, manifest: Option<Manifest>) -> Result<Observed, crate::os::Error> {
    let questions = Questions::of(desired, manifest.as_ref());
    let owners = Owners::of(root);
    let mut observed = Observed { host_name: root.host_name()?, manifest, ..Observed::default() };
    let wanted: BTreeMap<String, &Artifact> = desired
        .files
        .iter()
        .map(|file| (kiln_node_plan::layout::current(&file.path), file))
        .chain(desired.outside().map(|file| (file.path.clone(), file)))
        .collect();
    for path in &questions.files {
        let seen = seen(root, &owners, path, wanted.get(path).copied())?;
        observed.files.insert(path.clone(), seen);
    }
    for path in &questions.texts {
        if let Some(bytes) = root.read_if_there(path)? {
            observed.texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    for path in &questions.settings {
        if let Some(value) = root.kernel_setting(path)? {
            observed.settings.insert(path.clone(), value);
        }
    }
    for unit in &questions.enabled {
        observed.enabled.insert(unit.clone(), enablement::is_enabled(root, unit)?);
    }
    for name in &questions.accounts {
        if let Some(account) = root.account(name)? {
            observed.accounts.insert(name.clone(), account);
        }
    }
    if questions.metadata {
        observed.blocks_metadata = metadata_block::is_blocked(root)?;
    }
    if root.is_host() {
        observed.swap = swap(&text(root, "/proc/swaps")?);
        let mountinfo = text(root, "/proc/self/mountinfo")?;
        observed.root_grown = deferred::is_root_grown(&mountinfo);
        observed.mounts = mounts(&mountinfo);
    } else {
        pretend(desired, &mut observed);
    }
    // A folder has no kernel, unless somebody says what it runs with.
    observed.command_line = Some(text(root, "/proc/cmdline")?).filter(|line| !line.is_empty());
    Ok(observed)
}

/// A folder has no kernel, no disks and no services: what only those have is taken as done. The files that say it at the next start are
/// in the folder.
fn pretend(desired: &Desired, observed: &mut Observed) {
    for setting in &desired.kernel {
        observed.settings.entry(setting.path.clone()).or_insert_with(|| setting.value.clone());
    }
    for late in &desired.late {
        match late {
            Late::Swap { path, mib } => {
                observed.swap.insert(path.clone(), *mib);
            }
            Late::Mount(mount) => {
                observed.mounts.insert(mount.path.clone());
            }
            _ => {}
        }
    }
    observed.root_grown = true;
    observed.blocks_metadata = desired.block_metadata;
}

fn seen(root: &Root, owners: &Owners<'_>, path: &str, wanted: Option<&Artifact>) -> Result<Seen, crate::os::Error> {
    Ok(match root.look(path)? {
        Found::File { sha256, mode, uid, gid } => {
            // An owner has as many names as files give it; the one that is asked for is the one to compare with.
            let same = wanted.filter(|file| {
                let ids = owners.ids(path, &file.owner.user, &file.owner.group);
                ids.is_ok_and(|ids| (ids.uid, ids.gid) == (uid, gid))
            });
            let owner = same.map_or_else(|| Owner { user: number(uid), group: number(gid) }, |file| file.owner.clone());
            Seen::File { sha256, mode, owner }
        }
        Found::Link { target } => Seen::Link { target },
        Found::Other(Kind::File | Kind::Folder | Kind::Link | Kind::Other) => Seen::Other,
        Found::Absent => Seen::Absent,
    })
}

fn number(id: u32) -> String {
    if id == 0 { "root".to_owned() } else { id.to_string() }
}

fn text(root: &Root, path: &str) -> Result<String, crate::os::Error> {
    Ok(String::from_utf8_lossy(&root.read_if_there(path)?.unwrap_or_default()).into_owned())
}

/// Swap files and their sizes in MiB. The kernel keeps the first page of a file for itself, so sizes are rounded up.
fn swap(swaps: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kib: u64 = words.get(2)?.parse().ok()?;
        Some(((*words.first()?).to_owned(), kib.div_ceil(1024)))
    };
    swaps.lines().skip(1).filter_map(line).collect()
}

fn mounts(mountinfo: &str) -> std::collections::BTreeSet<String> {
    mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(|path| path.replace("\\040", " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_and_mounts_are_read_as_the_kernel_writes_them() {
        let swaps = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swap.img file 1048572 0 -2\n";
        assert_eq!(swap(swaps), BTreeMap::from([("/swap.img".to_owned(), 1024)]));
        let lines = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 8:2 / /mnt\\040x rw - ext4 /dev/sdb1 rw\n";
        assert_eq!(mounts(lines).into_iter().collect::<Vec<_>>(), ["/", "/mnt x"]);
    }
}
