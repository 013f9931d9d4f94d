//! Packages of npm. `npm ci` rejects packages whose checksum differs from the lock file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::go::numbers;
use super::{Failed, Stop, at_low_priority, debian, run};

/// The packages to install.
#[derive(Clone, Copy, Debug)]
pub(super) struct Npm {
    /// The content of `package.json`.
    pub(super) manifest: &'static str,
    /// The content of `package-lock.json`.
    pub(super) lock: &'static str,
    /// The oldest sufficient Node.js.
    pub(super) node: &'static str,
    /// A package that is loaded to check the installation.
    pub(super) proof: &'static str,
}

/// Installs the packages, and links Node.js to `link`, which is in a folder next to them.
pub(super) fn make(packages: &Npm, link: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let bin = link.parent().unwrap_or(link);
    let folder = bin.parent().unwrap_or(bin);
    let node = match on_path("node", "process.execPath") {
        Some(path) => PathBuf::from(path),
        None => debian::find("nodejs", "node", log, stop)?,
    };
    if Command::new("npm").arg("--version").stdin(Stdio::null()).output().is_err() {
        debian::find("npm", "npm", log, stop)?;
    }
    let found = on_path(&node, "process.versions.node").unwrap_or_default();
    if numbers(&found) < numbers(packages.node) {
        return Err(Failed::OldNode { needed: packages.node.to_owned(), found });
    }
    for (name, content) in [("package.json", packages.manifest), ("package-lock.json", packages.lock)] {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|source| Failed::file(&path, source))?;
    }
    run(at_low_priority(&install(folder)), log, stop)?;
    let mut load = Command::new(&node);
    load.args(["-e", &format!("require('{}')", packages.proof)]).current_dir(folder);
    run(load, log, stop)?;
    fs::create_dir_all(bin).map_err(|source| Failed::file(bin, source))?;
    symlink(&node, link).map_err(|source| Failed::file(link, source))
}

fn install(folder: &Path) -> Command {
    let mut command = Command::new("npm");
    // Scripts of packages are code that no checksum of this repository covers beforehand, and none is needed.
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]).current_dir(folder);
    command
}

/// The value of a JavaScript expression in this Node.js.
fn on_path(node: impl AsRef<std::ffi::OsStr>, expression: &str) -> Option<String> {
    let output = Command::new(node).args(["-p", expression]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_from_the_lock_file_without_their_scripts() {
        let command = install(Path::new("/folder"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[..2], ["ci", "--ignore-scripts"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/folder")));
    }

    #[test]
    fn error_for_an_old_node_names_the_needed_version() {
        let message = Failed::OldNode { needed: "20.0.0".into(), found: "18.19.0".into() }.to_string();
        assert!(
            message.contains("Node.js 18.19.0 is too old") && message.contains("install Node.js 20.0.0"),
            "{message}"
        );
    }
}
