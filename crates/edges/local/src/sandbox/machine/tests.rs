//! Locks and scripts, without a machine.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::thread;

use kiln_machines::processes::name;

use super::*;

/// A process that is killed with its descendants when the test ends.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        for process in family(self.0.id()) {
            signal(process, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn key() -> MachineKey {
    "pool_0".parse().unwrap()
}

/// A sandbox with the folder of one machine.
fn sandbox(state: &Path) -> Sandbox {
    fs::create_dir_all(state.join("run/machines/pool_0")).unwrap();
    let text = r#"{"group": "none", "tools": {}}"#;
    fs::write(state.join("run/sandbox.json"), text).unwrap();
    Sandbox::current(state).unwrap()
}

/// A shell script in place of a machine.
fn shell(lines: &str) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--fork", "sh", "-euc", lines]).current_dir("/").stdout(Stdio::null());
    command
}

#[tokio::test]
async fn machine_that_ends_early_is_reported_at_once_with_the_end_of_its_console() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox(folder.path());
    let console = sandbox.console("pool_0");
    fs::create_dir_all(console.parent().unwrap()).unwrap();
    let output = private_file(&console).unwrap();
    let mut command = shell("exec 9<&0 </dev/null; echo 'no such bridge' >&2; exit 1");
    command.stderr(output).stdin(take_lock(&sandbox.lock(&key())).await.unwrap());
    run_detached(command).unwrap();
    // The limit of a minute applies only to machines that are running.
    let result = tokio::time::timeout(Duration::from_secs(30), sandbox.wait_started(&key())).await.unwrap();
    let Err(SandboxError::NotStarted { console }) = result else { panic!("{result:?}") };
    assert_eq!(console, "no such bridge");
}

#[tokio::test]
async fn machine_is_running_before_its_first_line_and_until_its_last_process_ends() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox(folder.path());
    let lock = sandbox.lock(&key());
    let go = folder.path().join("go");
    // It has not opened the lock itself yet, like a machine whose starter was killed right after the start.
    let mut command = shell(&format!("until test -e {}; do sleep 0.01; done", go.display()));
    command.stdin(take_lock(&lock).await.unwrap());
    run_detached(command).unwrap();
    assert!(is_locked(&lock).unwrap());
    let second = flock(File::open(&lock).unwrap(), FlockOperation::NonBlockingLockExclusive);
    assert_eq!(second, Err(Errno::WOULDBLOCK), "a second machine on the same disk");
    fs::write(&go, "").unwrap();
    assert!(wait_unlocked(&lock, KILL_LIMIT).await.unwrap());
}

#[tokio::test]
async fn testing_the_lock_does_not_prevent_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let tester = File::create(&lock).unwrap();
    flock(&tester, FlockOperation::NonBlockingLockShared).unwrap();
    let testing = thread::spawn(move || {
        thread::sleep(TICK * 2);
        drop(tester);
    });
    let _lock = take_lock(&lock).await.unwrap();
    assert!(is_locked(&lock).unwrap());
    testing.join().unwrap();
}

#[tokio::test]
async fn process_id_of_a_stopped_machine_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox(folder.path());
    // Another process has the id by now, and children like a virtual machine.
    let lines = "sh -c 'sleep 600 & wait' & wait";
    let mut other = KilledOnDrop(Command::new("sh").args(["-c", lines]).spawn().unwrap());
    while family(other.0.id()).len() < 3 {
        tokio::time::sleep(TICK).await;
    }
    let machine = sandbox.machine_folder("pool_0");
    fs::write(machine.join("pid"), other.0.id().to_string()).unwrap();
    fs::write(qemu::monitor(&machine), "").unwrap();
    fs::write(sandbox.lock(&key()), "").unwrap();
    assert_eq!(sandbox.leader(&key()), None);
    sandbox.stop_machine(&key()).await.unwrap();
    assert!(other.0.try_wait().unwrap().is_none(), "it was killed");
}

#[test]
fn files_of_a_killed_machine_are_removed_before_its_next_start() {
    let folder = tempfile::tempdir().unwrap();
    remove_leftovers(folder.path()).unwrap();
    for file in ["pid", "monitor", "lock"] {
        fs::write(folder.path().join(file), "17").unwrap();
    }
    remove_leftovers(folder.path()).unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

#[tokio::test]
async fn killed_machine_has_stopped_only_when_its_last_process_has_ended() {
    let mut outer = KilledOnDrop(Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap());
    let id = outer.0.id();
    while family(id).len() < 2 {
        tokio::time::sleep(TICK).await;
    }
    let all = family(id);
    outer.0.kill().unwrap();
    assert!(!wait_ended(&all, 3).await, "the inner process is still running");
    signal(all[1], Signal::KILL);
    assert!(wait_ended(&all, KILL_LIMIT).await, "the outer process is a zombie, which does not count");
}

#[test]
fn console_is_private_even_if_the_file_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool_0.log");
    fs::write(&path, "earlier").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    private_file(&path).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, 0));
}

/// Fakes of the programs that the script calls.
fn programs(folder: &Path, shell: &str) -> std::ffi::OsString {
    for (name, text) in
        [("ip", "exit 0"), ("mount", "exit 0"), ("unshare", "until test $1 = --; do shift; done; shift; exec \"$@\"")]
    {
        testkit::script(&folder.join(name), text);
    }
    std::os::unix::fs::symlink(shell, folder.join("sh")).unwrap();
    let mut path = folder.as_os_str().to_owned();
    path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
    path
}

#[test]
fn runner_of_a_machine_is_a_child_with_every_shell() {
    for shell in ["/bin/dash", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists()) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.env("PATH", programs(folder.path(), shell)).env("FOLDER", folder.path());
        command.env("PORT", "m1").env("BRIDGE", "kiln0").stdin(Stdio::null());
        // The fake `unshare` does not fork, so the inner shell is the child itself.
        let inside = KilledOnDrop(command.args(["-c", qemu::START, "qemu", "sleep", "600"]).spawn().unwrap());
        let mut ticks = 0;
        loop {
            let runner = children(inside.0.id()).into_iter().find(|child| name(*child) == "sleep");
            ticks += 1;
            match runner {
                Some(_) => break,
                None if ticks < START_LIMIT && name(inside.0.id()) != "sleep" => thread::sleep(TICK),
                None => panic!("`{shell}` became the runner"),
            }
        }
    }
}
