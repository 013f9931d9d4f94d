//! Whatever becomes of the lab, nothing of it is left.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Says that this process plays the lab, and is the one to be killed.
const OUTER: &str = "KILN_TEST_LAB";
const TEST: &str = "a_lab_that_is_killed_leaves_nobody_behind";
/// Far longer than a kernel takes to end three processes; whoever lives as long is left behind.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(50);

#[test]
fn a_lab_that_is_killed_leaves_nobody_behind() {
    if std::env::var_os(OUTER).is_some() {
        // As a machine does: a grandchild that knows nothing of the lab. It says its number as the host sees it.
        let line = "(exec sh -c 'read pid rest </proc/self/stat; echo $pid >&2; exec sleep 1000') & wait";
        let status = boot_bench::alone("sh").args(["-c", line]).stderr(Stdio::inherit()).status();
        panic!("ended by itself: {status:?}");
    }
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture"]).env(OUTER, "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut outer = command.spawn().expect("started");
    let mut lines = BufReader::new(outer.stderr.take().expect("piped")).lines();
    // The namespace has the host's `/proc` still, so that the number is the host's.
    let inner = lines.find_map(|line| line.ok()?.trim().parse::<u32>().ok()).expect("a number");
    let family = [vec![inner], ancestors(inner, outer.id())].concat();
    assert!(family.len() >= 3, "sleep, sh, unshare: {family:?}");
    assert!(family.iter().all(|pid| runs(*pid)), "{family:?}");
    outer.kill().expect("killed");
    outer.wait().expect("waited");
    for _ in 0..LOOKS {
        if !family.iter().any(|pid| runs(*pid)) {
            return;
        }
        thread::sleep(LOOK);
    }
    panic!("left behind: {:?}", family.iter().filter(|pid| runs(**pid)).collect::<Vec<_>>());
}

/// The processes between one and another, which is left out.
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

/// A process that ended and that nobody asked about is not at work.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}
