//! Programs of Debian packages: those of this machine, installed where they are not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failed, Stop, run};

/// Where Debian puts programs.
const PLACES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

pub(super) fn make(package: &str, program: &str, link: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let found = find(package, program, log, stop)?;
    let folder = link.parent().unwrap_or(link);
    fs::create_dir_all(folder).map_err(|source| Failed::file(folder, source))?;
    symlink(&found, link).map_err(|source| Failed::file(link, source))
}

/// The program of this machine, installed where it is not.
pub(super) fn find(package: &str, program: &str, log: &Path, stop: &Stop) -> Result<PathBuf, Failed> {
    installed(program).map_or_else(|| install(package, program, log, stop), Ok)
}

fn installed(program: &str) -> Option<PathBuf> {
    PLACES.iter().map(|place| Path::new(place).join(program)).find(|path| path.exists())
}

fn install(package: &str, program: &str, log: &Path, stop: &Stop) -> Result<PathBuf, Failed> {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        run(command, log, stop)
    };
    // Two parts may be installed at once, and apt has one lock.
    let wanted = ["install", "--yes", "--no-install-recommends", "--option", "DPkg::Lock::Timeout=600", package];
    if apt(&wanted).is_err() {
        // A fresh image knows no packages yet.
        apt(&["update"])?;
        apt(&wanted)?;
    }
    installed(program).ok_or_else(|| Failed::NoProgram(Path::new(PLACES[0]).join(program)))
}
