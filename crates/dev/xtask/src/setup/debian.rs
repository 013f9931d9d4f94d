//! Programs of Debian packages. A missing package is installed on the machine itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failed, Stop, run};

/// The folders in which Debian installs programs.
const FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

pub(super) fn make(package: &str, program: &str, link: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let found = find(package, program, log, stop)?;
    let folder = link.parent().unwrap_or(link);
    fs::create_dir_all(folder).map_err(|source| Failed::file(folder, source))?;
    symlink(&found, link).map_err(|source| Failed::file(link, source))
}

/// The path of a program; installs its package if it is missing.
pub(super) fn find(package: &str, program: &str, log: &Path, stop: &Stop) -> Result<PathBuf, Failed> {
    installed(program).map_or_else(|| install(package, program, log, stop), Ok)
}

fn installed(program: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

fn install(package: &str, program: &str, log: &Path, stop: &Stop) -> Result<PathBuf, Failed> {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run(command, log, stop)
    };
    // Another installation may have apt's lock.
    let arguments = ["install", "--yes", "--no-install-recommends", "--option", "DPkg::Lock::Timeout=600", package];
    if apt(&arguments).is_err() {
        // A fresh container image has no package lists.
        apt(&["update"])?;
        apt(&arguments)?;
    }
    installed(program).ok_or_else(|| Failed::NoProgram(Path::new(FOLDERS[0]).join(program)))
}
