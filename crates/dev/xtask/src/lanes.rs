//! Running test binaries, several at a time. Cargo runs one after the other, and many of ours wait: for a lease to end, for a server
//! to start, for a drain.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use test_deps::Tier;

use crate::process::{self, Ending};
use crate::stopwatch::Stopwatch;
use crate::tally::{Binary, Tally};
use crate::workspace;

/// How many binaries run at once. Each has a thread per core already; the third lane is for those that wait.
pub const LANES: usize = 3;

/// A test binary that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Its target's name.
    pub name: String,
    /// What `cargo test` takes to run it alone, such as `-p kiln-sim-azure --test world`.
    pub selection: String,
    pub path: PathBuf,
    /// Its package's folder, where cargo would run it.
    pub folder: PathBuf,
}

/// The binaries of a selection that is built, those that wait most first: what is long and begins late makes the whole run long.
pub fn executables(root: &Path, arguments: &[String]) -> io::Result<Vec<Executable>> {
    let mut command = workspace::cargo(root);
    command.args(arguments).args(["--no-run", "--message-format", "json"]);
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("cargo cannot name the test binaries"));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut found: Vec<Executable> = messages.lines().filter_map(executable).collect();
    found.sort_by_key(|one| (Tier::of_test_target(&one.name) == Tier::Fast, one.name.clone()));
    Ok(found)
}

/// The binary that a message of cargo speaks of.
fn executable(message: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let name = message["target"]["name"].as_str()?.to_owned();
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    // `path+file:///kiln/crates/sim/azure#kiln-sim-azure@0.1.0`, and without the name where the folder has it.
    let id = message["package_id"].as_str()?;
    let (place, version) = id.rsplit_once('#')?;
    let package = version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let kind = message["target"]["kind"][0].as_str()?;
    let selection = match kind {
        "test" => format!("-p {package} --test {name}"),
        "bin" => format!("-p {package} --bin {name}"),
        _ => format!("-p {package} --lib"),
    };
    Some(Executable { name, selection, path, folder })
}

/// Runs the binaries and hands each one over as it ends.
pub fn run(
    executables: &[Executable],
    tier: Tier,
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
                    let result = one(executable, tier);
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

fn one(executable: &Executable, tier: Tier) -> io::Result<(Ending, Binary)> {
    let mut command = Command::new(&executable.path);
    command.current_dir(&executable.folder).stdin(std::process::Stdio::null());
    command.env("CARGO_MANIFEST_DIR", &executable.folder).env(Tier::VARIABLE, tier.name());
    let mut binary = Binary::new(&executable.name);
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
    fn a_test_binary_knows_its_package_and_how_to_run_it_alone() {
        let found =
            executable(&message("path+file:///kiln/crates/sim/azure#kiln-sim-azure@0.1.0", "test", true)).unwrap();
        assert_eq!(found.selection, "-p kiln-sim-azure --test world");
        assert_eq!(found.folder, Path::new("/kiln/crates/sim/azure"));
        let found = executable(&message("path+file:///kiln/crates/dev/testkit#0.1.0", "lib", true)).unwrap();
        assert_eq!(found.selection, "-p testkit --lib");
    }

    #[test]
    fn what_is_no_test_binary_is_left_out() {
        assert_eq!(executable(&message("path+file:///kiln/crates/sim/azure#kiln-sim-azure@0.1.0", "bin", false)), None);
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}"), None);
        assert_eq!(executable("   Compiling kiln"), None);
    }
}
