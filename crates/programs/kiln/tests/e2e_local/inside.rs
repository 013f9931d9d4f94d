//! Tests that run in a world: each is started again there.

use std::path::{Path, PathBuf};
use std::process::Command;

use test_deps::Part;

/// The kiln that was built.
pub(crate) const KILN: &str = env!("CARGO_BIN_EXE_kiln");

/// The state folder of the world around us; none where this process is not in one.
pub(crate) fn state() -> Option<PathBuf> {
    std::env::var_os("KILN_LOCAL").map(PathBuf::from)
}

/// The root of a Debian that boots.
pub(crate) fn node_root() -> PathBuf {
    let nspawn = testkit::require(Part::NodeRoot);
    nspawn.ancestors().nth(3).unwrap_or_else(|| panic!("{} is in no root", nspawn.display())).to_owned()
}

/// The root that a part is in.
pub(crate) fn root_of(part: Part) -> PathBuf {
    let program = testkit::require(part);
    let depth = program.ancestors().position(|path| path.ends_with("root"));
    let root = depth.and_then(|depth| program.ancestors().nth(depth));
    root.unwrap_or_else(|| panic!("{} is in no root", program.display())).to_owned()
}

/// A command in a world of its own.
pub(crate) fn world(state: &Path) -> Command {
    let mut command = Command::new(KILN);
    command.args(["local", "run", "--state"]).arg(state).arg("--nspawn-root").arg(node_root());
    if cfg!(feature = "tier2") {
        command.arg("--qemu-root").arg(root_of(Part::BenchTools));
    }
    command.arg("--");
    command
}

/// Where machines keep their disks. They see how full that is, and nobody clones a node whose disk is nearly full: memory has room where the
/// disk of who tests may have none.
fn roomy() -> PathBuf {
    /// What five nodes write, with a margin.
    const ENOUGH: u64 = 8 << 30;
    let memory = PathBuf::from("/dev/shm");
    let free = rustix::fs::statvfs(&memory).map_or(0, |room| room.f_bavail * room.f_frsize);
    if free >= ENOUGH { memory } else { std::env::temp_dir() }
}

/// Runs a test in a world with a state folder of its own, by starting it again in there.
#[track_caller]
pub(crate) fn in_world(test: &str, body: impl FnOnce(&Path)) {
    if let Some(state) = state() {
        return body(&state);
    }
    let folder = tempfile::Builder::new().prefix("kiln-local-").tempdir_in(roomy()).expect("a folder");
    let mut command = world(&folder.path().join("state"));
    command.arg(std::env::current_exe().expect("this program")).args(["--exact", test, "--nocapture"]);
    let status = command.status().expect("kiln runs");
    assert!(status.success(), "`{test}` failed in its world: {status}");
}
