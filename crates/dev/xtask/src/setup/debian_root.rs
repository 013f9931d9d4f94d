//! Whole Debian roots, made by debootstrap.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failed, Stop, at_low_priority, debian, run};

/// The content of a root.
#[derive(Clone, Copy, Debug)]
pub(super) struct DebianRoot {
    pub(super) suite: &'static str,
    /// Packages in addition to the variant `minbase`.
    pub(super) packages: &'static [&'static str],
    /// Units to disable.
    pub(super) disabled: &'static [&'static str],
}

/// Files that an installation leaves and that machines must not share: downloaded packages, the ids and keys of one machine, and the
/// name and resolver of the host.
const LEFTOVERS: [&str; 7] = [
    "etc/hostname",
    "etc/resolv.conf",
    "etc/ssh/ssh_host_*",
    "var/cache/apt/*.bin",
    "var/cache/apt/archives/*.deb",
    "var/lib/apt/lists/*_*",
    "var/lib/dbus/machine-id",
];

pub(super) fn make(wanted: &DebianRoot, folder: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let debootstrap = debian::find("debootstrap", "debootstrap", log, stop)?;
    let root = folder.join("root");
    let mut command = Command::new("unshare");
    // In private namespaces, so that its mounts disappear with it, even if it is killed.
    command
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(debootstrap)
        .args(["--variant=minbase", &format!("--include={}", wanted.packages.join(","))])
        .arg(wanted.suite)
        .arg(&root);
    run(at_low_priority(&command), log, stop)?;
    for pattern in LEFTOVERS {
        for path in matching(&root, pattern)? {
            fs::remove_file(&path).map_err(|source| Failed::file(&path, source))?;
        }
    }
    // Empty, not absent: then systemd generates an id at each boot of a copy.
    let id = root.join("etc/machine-id");
    fs::write(&id, "").map_err(|source| Failed::file(&id, source))?;
    wanted.disabled.iter().try_for_each(|unit| disable(&root, unit))
}

/// Gives every file of a root the label that the default SELinux policy has for it. The kernel of the host need not know SELinux: labels are
/// extended attributes.
pub(super) fn label(folder: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    // setfiles reads its list of mounts from /proc, which disappears with the namespace.
    let script = "mount -t proc proc \"$1/proc\" && exec chroot \"$1\" setfiles -F -m /etc/selinux/default/contexts/files/file_contexts /";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "label"]).arg(folder.join("root"));
    run(at_low_priority(&command), log, stop)
}

/// The files below a root that match a pattern, whose last component may contain one `*`.
fn matching(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, Failed> {
    let path = root.join(pattern);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(Vec::new());
    };
    let (front, back) = name.split_once('*').unwrap_or((name, ""));
    let matches = |name: &str| {
        if pattern.contains('*') { name.starts_with(front) && name.ends_with(back) } else { name == front }
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Failed::file(folder, source)),
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(matches)).collect())
}

/// Removes a unit from every target that wants it.
fn disable(root: &Path, unit: &str) -> Result<(), Failed> {
    let etc = root.join("etc/systemd/system");
    let folders = fs::read_dir(&etc).map_err(|source| Failed::file(&etc, source))?;
    let links = folders.flatten().map(|folder| folder.path().join(unit)).filter(|link| link.is_symlink());
    for link in links {
        fs::remove_file(&link).map_err(|source| Failed::file(&link, source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn disabled_unit_is_removed_from_every_target() {
        let root = std::env::temp_dir().join(format!("kiln-debian-root-{}", std::process::id()));
        let wants = |target: &str, unit: &str| root.join(format!("etc/systemd/system/{target}.wants/{unit}"));
        for target in ["multi-user.target", "timers.target"] {
            fs::create_dir_all(wants(target, "x").parent().unwrap()).unwrap();
            symlink("/lib/systemd/system/ssh.service", wants(target, "ssh.service")).unwrap();
        }
        symlink("/lib/systemd/system/dbus.service", wants("multi-user.target", "dbus.service")).unwrap();
        disable(&root, "ssh.service").unwrap();
        let left = ["multi-user.target", "timers.target"].map(|target| wants(target, "ssh.service").is_symlink());
        let other = wants("multi-user.target", "dbus.service").is_symlink();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((left, other), ([false, false], true));
    }

    #[test]
    fn star_matches_any_ending_and_other_names_match_exactly() {
        let root = std::env::temp_dir().join(format!("kiln-matching-{}", std::process::id()));
        fs::create_dir_all(root.join("etc/ssh")).unwrap();
        for name in ["ssh_host_rsa_key", "ssh_host_rsa_key.pub", "sshd_config"] {
            fs::write(root.join("etc/ssh").join(name), "").unwrap();
        }
        let found = matching(&root, "etc/ssh/ssh_host_*").map(|found| found.len());
        let none = matching(&root, "etc/ssh/ssh_host").map(|found| found.len());
        let missing = matching(&root, "var/x/*").map(|found| found.len());
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((found.ok(), none.ok(), missing.ok()), (Some(2), Some(0), Some(0)));
    }
}
