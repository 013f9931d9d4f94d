//! Tests that run in a sandbox: each starts itself again there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use test_deps::TestDep;

/// The built kiln.
pub(crate) const KILN: &str = env!("CARGO_BIN_EXE_kiln");

/// The state folder of the sandbox that this process is in, if any.
pub(crate) fn state() -> Option<PathBuf> {
    std::env::var_os("KILN_LOCAL").map(PathBuf::from)
}

/// The root folder of a Debian that boots.
pub(crate) fn node_root() -> PathBuf {
    let nspawn = testkit::require(TestDep::NodeRoot);
    nspawn.ancestors().nth(3).unwrap_or_else(|| panic!("`{}` is not in a root folder", nspawn.display())).to_owned()
}

/// The root folder of a test dependency.
pub(crate) fn root_of(part: TestDep) -> PathBuf {
    let program = testkit::require(part);
    let depth = program.ancestors().position(|path| path.ends_with("root"));
    let root = depth.and_then(|depth| program.ancestors().nth(depth));
    root.unwrap_or_else(|| panic!("`{}` is not in a root folder", program.display())).to_owned()
}

/// A command that runs its arguments in a new sandbox.
pub(crate) fn sandbox(state: &Path) -> Command {
    let mut command = Command::new(KILN);
    command.args(["local", "run", "--state"]).arg(state).arg("--nspawn-root").arg(node_root());
    if cfg!(feature = "tier2") {
        command.arg("--qemu-root").arg(root_of(TestDep::BenchTools));
    }
    command.arg("--");
    command
}

/// The folder for the disks of machines. kiln refuses to clone a node whose disk is nearly full, which the disk of the test host may be; so
/// they are in memory if there is enough.
fn disk_folder() -> PathBuf {
    /// More than five nodes write.
    const ENOUGH: u64 = 8 << 30;
    let memory = PathBuf::from("/dev/shm");
    let free = rustix::fs::statvfs(&memory).map_or(0, |room| room.f_bavail * room.f_frsize);
    if free >= ENOUGH { memory } else { std::env::temp_dir() }
}

/// The kernel limits the inotify objects of a user (to 128 by default), and each machine with systemd, containerd and a kubelet has about ten.
/// Two clusters at once exceed that, and a machine that gets none does not boot.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test in a new sandbox with its own state folder, by starting the test again there.
#[track_caller]
pub(crate) fn in_sandbox(test: &str, body: impl FnOnce(&Path)) {
    if let Some(state) = state() {
        return body(&state);
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::Builder::new().prefix("kiln-local-").tempdir_in(disk_folder()).expect("a folder");
    let mut command = sandbox(&folder.path().join("state"));
    command.arg(std::env::current_exe().expect("this program")).args(["--exact", test, "--nocapture"]);
    let status = command.status().expect("kiln runs");
    assert!(status.success(), "`{test}` failed in its sandbox: {status}");
}
