//! Observes the machine, as far as a plan needs it.

use std::collections::BTreeMap;

use crate::os::{Owners, Root};
use kiln_node_plan::{Deferred, Desired, DesiredFile, FileState, Manifest, Observed, Owner, ToObserve};

use crate::apply::{deferred, enablement, pod_block};

/// Observes what a plan for `desired` needs. `manifest` is the one of the previous generation.
pub fn observe(root: &Root, desired: &Desired, manifest: Option<Manifest>) -> Result<Observed, crate::os::Error> {
    let needed = ToObserve::new(desired, manifest.as_ref());
    let owners = Owners::new(root);
    let mut observed = Observed { host_name: root.host_name()?, manifest, ..Observed::default() };
    let wanted: BTreeMap<String, &DesiredFile> = desired
        .files
        .iter()
        .map(|file| (kiln_node_plan::layout::current(&file.path), file))
        .chain(desired.outside().map(|file| (file.path.clone(), file)))
        .collect();
    for path in &needed.files {
        let state = file_state(root, &owners, path, wanted.get(path).copied())?;
        observed.files.insert(path.clone(), state);
    }
    for path in &needed.texts {
        if let Some(bytes) = root.read_if_exists(path)? {
            observed.texts.insert(path.clone(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    for path in &needed.settings {
        if let Some(value) = root.kernel_setting(path)? {
            observed.settings.insert(path.clone(), value);
        }
    }
    for unit in &needed.enabled {
        observed.enabled.insert(unit.clone(), enablement::is_enabled(root, unit)?);
    }
    for name in &needed.accounts {
        if let Some(account) = root.account(name)? {
            observed.accounts.insert(name.clone(), account);
        }
    }
    for service in needed.blocked {
        if pod_block::is_blocked(root, service)? {
            observed.blocked.insert(service);
        }
    }
    if root.is_host() {
        observed.swap = swap(&text(root, "/proc/swaps")?);
        let mountinfo = text(root, "/proc/self/mountinfo")?;
        observed.root_grown = deferred::is_root_grown(&mountinfo);
        observed.mounts = mounts(&mountinfo);
    } else {
        assume_applied(desired, &mut observed);
    }
    // Below `--root` the file usually does not exist.
    observed.command_line = Some(text(root, "/proc/cmdline")?).filter(|line| !line.is_empty());
    Ok(observed)
}

/// Below `--root`, settings of the kernel and disks count as applied. The files that take effect at the next
/// boot are written all the same.
fn assume_applied(desired: &Desired, observed: &mut Observed) {
    for setting in &desired.kernel {
        observed.settings.entry(setting.path.clone()).or_insert_with(|| setting.value.clone());
    }
    for deferred in &desired.deferred {
        match deferred {
            Deferred::Swap { path, mib } => {
                observed.swap.insert(path.clone(), *mib);
            }
            Deferred::Mount(mount) => {
                observed.mounts.insert(mount.path.clone());
            }
            _ => {}
        }
    }
    observed.root_grown = true;
    observed.blocked.clone_from(&desired.blocked);
}

/// The state of a path. An owner may have several names, so the desired name is used if it has the same numbers.
fn file_state(
    root: &Root,
    owners: &Owners<'_>,
    path: &str,
    wanted: Option<&DesiredFile>,
) -> Result<FileState, crate::os::Error> {
    let mut state = root.file_state(path)?;
    if let (FileState::File { owner, .. }, Some(wanted)) = (&mut state, wanted)
        && owners.ids(path, &wanted.owner).is_ok_and(|ids| Owner::from_ids(ids.uid, ids.gid) == *owner)
    {
        owner.clone_from(&wanted.owner);
    }
    Ok(state)
}

fn text(root: &Root, path: &str) -> Result<String, crate::os::Error> {
    Ok(String::from_utf8_lossy(&root.read_if_exists(path)?.unwrap_or_default()).into_owned())
}

/// Swap files and their sizes in MiB, rounded up because the kernel does not count the first page.
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
    fn swaps_and_mountinfo_are_parsed() {
        let swaps = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swap.img file 1048572 0 -2\n";
        assert_eq!(swap(swaps), BTreeMap::from([("/swap.img".to_owned(), 1024)]));
        let lines = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 8:2 / /mnt\\040x rw - ext4 /dev/sdb1 rw\n";
        assert_eq!(mounts(lines).into_iter().collect::<Vec<_>>(), ["/", "/mnt x"]);
    }
}
