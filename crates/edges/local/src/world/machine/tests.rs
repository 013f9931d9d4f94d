//! Locks and scripts, without a machine.

use std::process::{Child, Stdio};
use std::thread;

use super::*;

/// A process that ends with the test, however that ends, and all that came from it.
struct Ends(Child);

impl Drop for Ends {
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

/// A world of a folder, with nothing in it.
fn world(state: &Path) -> World {
    fs::create_dir_all(state.join("run/machines/pool_0")).unwrap();
    let text = r#"{"group": "none", "tools": {}}"#;
    fs::write(state.join("run/world.json"), text).unwrap();
    World::around(state).unwrap()
}

/// Lines of shell in place of a machine.
fn shell(lines: &str) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--fork", "sh", "-euc", lines]).current_dir("/").stdout(Stdio::null());
    command
}

#[tokio::test]
async fn a_machine_that_ends_early_is_told_at_once_with_the_end_of_its_console() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    let console = world.console("pool_0");
    fs::create_dir_all(console.parent().unwrap()).unwrap();
    let output = private_file(&console).unwrap();
    let mut command = shell("exec 9<&0 </dev/null; echo 'no such bridge' >&2; exit 1");
    command.stderr(output).stdin(taken(&world.lock(&key())).await.unwrap());
    started(command).unwrap();
    // A minute's patience is for machines that are on.
    let told = tokio::time::timeout(Duration::from_secs(30), world.wait_started(&key())).await.unwrap();
    let Err(WorldError::NotStarted { console }) = told else { panic!("{told:?}") };
    assert_eq!(console, "no such bridge");
}

#[tokio::test]
async fn a_machine_is_on_from_before_its_first_line_and_off_with_its_last_process() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    let lock = world.lock(&key());
    let go = folder.path().join("go");
    // It has opened nothing by itself yet, as one whose starter was killed right after.
    let mut command = shell(&format!("until test -e {}; do sleep 0.01; done", go.display()));
    command.stdin(taken(&lock).await.unwrap());
    started(command).unwrap();
    assert!(held(&lock).unwrap());
    let second = flock(File::open(&lock).unwrap(), FlockOperation::NonBlockingLockExclusive);
    assert_eq!(second, Err(Errno::WOULDBLOCK), "a second machine on the same disk");
    fs::write(&go, "").unwrap();
    assert!(gone(&lock, BURIED).await.unwrap());
}

#[tokio::test]
async fn who_looks_whether_a_machine_is_on_does_not_keep_it_from_being_switched_on() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let looker = File::create(&lock).unwrap();
    flock(&looker, FlockOperation::NonBlockingLockShared).unwrap();
    let looking = thread::spawn(move || {
        thread::sleep(TICK * 2);
        drop(looker);
    });
    let _taken = taken(&lock).await.unwrap();
    assert!(held(&lock).unwrap());
    looking.join().unwrap();
}

#[tokio::test]
async fn a_number_that_a_machine_left_is_nobodys_once_the_machine_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path());
    // Somebody else has its number by now, and children as a virtual machine has.
    let lines = "sh -c 'sleep 600 & wait' & wait";
    let mut stranger = Ends(Command::new("sh").args(["-c", lines]).spawn().unwrap());
    while family(stranger.0.id()).len() < 3 {
        tokio::time::sleep(TICK).await;
    }
    let machine = world.machine("pool_0");
    fs::write(machine.join("pid"), stranger.0.id().to_string()).unwrap();
    fs::write(qemu::monitor(&machine), "").unwrap();
    fs::write(world.lock(&key()), "").unwrap();
    assert_eq!(world.leader(&key()), None);
    world.off(&key()).await.unwrap();
    assert!(stranger.0.try_wait().unwrap().is_none(), "it lives");
}

#[test]
fn nothing_of_a_machine_that_was_killed_is_taken_for_its_next_life() {
    let folder = tempfile::tempdir().unwrap();
    forget(folder.path()).unwrap();
    for file in ["pid", "monitor", "lock"] {
        fs::write(folder.path().join(file), "17").unwrap();
    }
    forget(folder.path()).unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

#[tokio::test]
async fn a_killed_machine_is_off_only_when_the_last_of_its_processes_is_gone() {
    let mut outer = Ends(Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap());
    let id = outer.0.id();
    while family(id).len() < 2 {
        tokio::time::sleep(TICK).await;
    }
    let all = family(id);
    outer.0.kill().unwrap();
    assert!(!buried(&all, 3).await, "the inner one lives on");
    signal(all[1], Signal::KILL);
    assert!(buried(&all, BURIED).await, "and the outer one, which nobody asked for yet, does not count");
}

#[test]
fn a_console_is_its_owners_alone_even_where_it_was_everybodys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool_0.log");
    fs::write(&path, "earlier").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    private_file(&path).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.permissions().mode() & 0o777, found.len()), (0o600, 0));
}

/// The programs that the script calls, doing nothing but what it counts on.
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
fn the_runner_of_a_machine_is_a_child_whatever_shell_the_system_has() {
    for shell in ["/bin/dash", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists()) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.env("PATH", programs(folder.path(), shell)).env("FOLDER", folder.path());
        command.env("WIRE", "m1").env("BRIDGE", "kiln0").stdin(Stdio::null());
        // `unshare` is played by a program that does not fork: the shell inside is the child itself.
        let inside = Ends(command.args(["-c", qemu::QEMU, "qemu", "sleep", "600"]).spawn().unwrap());
        let mut ticks = 0;
        loop {
            let found = children(inside.0.id()).into_iter().find(|child| name(*child) == "sleep");
            ticks += 1;
            match found {
                Some(_) => break,
                None if ticks < STARTED && name(inside.0.id()) != "sleep" => thread::sleep(TICK),
                None => panic!("`{shell}` became the runner"),
            }
        }
    }
}
