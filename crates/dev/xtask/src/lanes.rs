//! Runs several test binaries at the same time. Cargo runs one after the other, but many of ours wait: for a lease to expire, a server
//! to start, or a node to drain.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use test_deps::{Recordings, Tier};

use crate::process::{self, Ending};
use crate::stopwatch::Stopwatch;
use crate::tally::{self, Binary, Tally};
use crate::workspace;

/// The number of binaries that run at once. Each has one thread per core already; the third lane uses the time in which others wait.
pub const LANES: usize = 3;

/// A test binary that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The name of the target.
    pub name: String,
    /// The arguments of `cargo test` that run only this binary, such as `-p kiln-sim-azure --test world`.
    pub selection: String,
    /// The smallest tier that runs it.
    pub tier: Tier,
    pub path: PathBuf,
    /// The folder of the package, which is the working directory of its tests.
    pub folder: PathBuf,
}

impl Executable {
    /// The names of its tests that contain `filter`.
    pub fn list(&self, filter: &str) -> io::Result<Vec<String>> {
        let mut command = Command::new(&self.path);
        let output = command
            .current_dir(&self.folder)
            .args(filter.split_whitespace())
            .args(["--list", "--format", "terse"])
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("{} --list: {}", self.path.display(), output.status)));
        }
        Ok(tally::listed(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned).collect())
    }
}

/// Builds a selection and returns its test binaries, the slow ones of higher tiers first: a slow binary that starts late would
/// prolong the run.
pub fn executables(root: &Path, arguments: &[String]) -> io::Result<Vec<Executable>> {
    let mut command = workspace::cargo(root);
    command.args(arguments).args(["--no-run", "--message-format", "json"]);
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("cargo cannot list the test binaries"));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut found: Vec<Executable> = messages.lines().filter_map(executable).collect();
    found.sort_by_key(|one| (one.tier == Tier::Fast, one.name.clone()));
    Ok(found)
}

/// The test binary in a message of cargo, if it has one.
fn executable(message: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let name = message["target"]["name"].as_str()?.to_owned();
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    // `path+file:///kiln/crates/sim/azure#kiln-sim-azure@0.1.0`, or without the name if it is the folder's.
    let id = message["package_id"].as_str()?;
    let (place, version) = id.rsplit_once('#')?;
    let package = version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let kind = message["target"]["kind"][0].as_str()?;
    let selection = match kind {
        "test" => format!("-p {package} --test {name}"),
        "bin" => format!("-p {package} --bin {name}"),
        _ => format!("-p {package} --lib"),
    };
    let tier = if kind == "test" { Tier::of_test_target(&name) } else { Tier::Fast };
    Some(Executable { name, selection, tier, path, folder })
}

/// Runs the binaries and passes each one to `ended` when it ends. Without `has_recordings`, tests that need recorded data are not run.
pub fn run(
    executables: &[Executable],
    tier: Tier,
    has_recordings: bool,
    mut ended: impl FnMut(&Binary, Duration),
) -> io::Result<(Ending, Tally)> {
    let waiting = Mutex::new(executables.iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut tally = Tally::default();
    let mut all = Ending { success: true, left_running: false };
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..LANES {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(executable) = next() {
                    let watch = Stopwatch::start();
                    let result = run_one(executable, tier, has_recordings);
                    if sender.send((executable, result, watch.elapsed())).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (executable, result, time) in results {
            let (ending, binary) = result?;
            ended(&binary, time);
            if !ending.success {
                tally.reruns.push(executable.selection.clone());
            }
            all.success &= ending.success;
            all.left_running |= ending.left_running;
            tally.binaries.push(binary);
        }
        Ok((all, tally))
    })
}

fn run_one(executable: &Executable, tier: Tier, has_recordings: bool) -> io::Result<(Ending, Binary)> {
    let mut command = Command::new(&executable.path);
    command.current_dir(&executable.folder).stdin(std::process::Stdio::null());
    command.env("CARGO_MANIFEST_DIR", &executable.folder).env(Tier::VARIABLE, tier.name());
    let mut binary = Binary::new(&executable.name, &executable.selection);
    if !has_recordings {
        binary.not_run = executable.list(Recordings::MODULE)?;
        command.args(["--skip", Recordings::MODULE]);
    }
    let ending = process::stream(command, |line| binary.line(line))?;
    Ok((ending, binary))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, kind: &str, test: bool) -> String {
        let target = serde_json::json!({ "name": "world", "kind": [kind] });
        serde_json::json!({
            "reason": "compiler-artifact", "package_id": id, "manifest_path": "/kiln/crates/sim/azure/Cargo.toml",
            "target": target, "profile": { "test": test }, "executable": "/kiln/target/debug/deps/world-0123",
        })
        .to_string()
    }

    #[test]
    fn selection_of_a_test_binary_has_its_package_and_target() {
        let found =
            executable(&message("path+file:///kiln/crates/sim/azure#kiln-sim-azure@0.1.0", "test", true)).unwrap();
        assert_eq!(found.selection, "-p kiln-sim-azure --test world");
        assert_eq!(found.folder, Path::new("/kiln/crates/sim/azure"));
        let found = executable(&message("path+file:///kiln/crates/dev/testkit#0.1.0", "lib", true)).unwrap();
        assert_eq!(found.selection, "-p testkit --lib");
    }

    #[test]
    fn other_messages_of_cargo_are_ignored() {
        assert_eq!(executable(&message("path+file:///kiln/crates/sim/azure#kiln-sim-azure@0.1.0", "bin", false)), None);
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}"), None);
        assert_eq!(executable("   Compiling kiln"), None);
    }
}
