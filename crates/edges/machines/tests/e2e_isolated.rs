//! Processes in private namespaces end with the process that started them.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use kiln_machines::namespaces::isolated;
use kiln_machines::processes::is_running;

/// Set in the process that the test kills.
const OUTER: &str = "KILN_TEST_ISOLATED";
const TEST: &str = "killed_process_leaves_no_isolated_process_behind";
/// 10 s, far longer than the kernel takes to end three processes.
const POLLS: u32 = 200;
const POLL: Duration = Duration::from_millis(50);

#[test]
fn killed_process_leaves_no_isolated_process_behind() {
    if std::env::var_os(OUTER).is_some() {
        // A grandchild, like a machine. It prints its process id as the host sees it.
        let line = "(exec sh -c 'read pid rest </proc/self/stat; echo $pid >&2; exec sleep 1000') & wait";
        let status = isolated("sh").args(["-c", line]).stderr(Stdio::inherit()).status();
        panic!("ended by itself: {status:?}");
    }
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture"]).env(OUTER, "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut outer = command.spawn().expect("started");
    let mut lines = BufReader::new(outer.stderr.take().expect("piped")).lines();
    // The namespace still has the host's `/proc`, so the process id is the host's.
    let inner = lines.find_map(|line| line.ok()?.trim().parse::<u32>().ok()).expect("a number");
    let family = [vec![inner], ancestors(inner, outer.id())].concat();
    assert!(family.len() >= 3, "sleep, sh, unshare: {family:?}");
    assert!(family.iter().all(|pid| is_running(*pid)), "{family:?}");
    outer.kill().expect("killed");
    outer.wait().expect("waited");
    for _ in 0..POLLS {
        if !family.iter().any(|pid| is_running(*pid)) {
            return;
        }
        thread::sleep(POLL);
    }
    panic!("left behind: {:?}", family.iter().filter(|pid| is_running(**pid)).collect::<Vec<_>>());
}

/// The processes between a process and its ancestor `until`.
fn ancestors(pid: u32, until: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = parent(pid);
    while let Some(pid) = next.filter(|pid| *pid != until && *pid > 1) {
        found.push(pid);
        next = parent(pid);
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}
