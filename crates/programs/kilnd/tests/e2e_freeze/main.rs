//! Freezes the root file system of a running machine. The machine is a container that boots a real systemd from an ext4 file system in a file
//! of its own, on a loop device, so that no file system of the host is ever frozen.

mod booted;
#[path = "../../../kiln/tests/e2e_local/image.rs"]
mod image;
mod kubelet;

use std::fs;
use std::os::unix::fs::symlink;

use booted::{Booted, child_output, copy_image, fsck, image, inner, make_image, printed, scratch, wait};
use kiln_machines::processes::signal;
use kiln_types::{FreezeEnd, FreezeReport, ThawReport};
use rustix::process::Signal;

/// Appends numbered lines, like a container that writes its log.
const WRITER: &str = "i=0; while :; do i=$((i + 1)); echo \"line $i\" >>/var/log/written; done";

/// For the module with the container images.
mod root {
    pub(crate) fn read(path: &std::path::Path) -> Vec<u8> {
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

#[test]
fn copy_of_a_frozen_root_is_clean_and_boots_while_the_donor_goes_on() {
    let donor = Booted::new("freeze", image(), &[]);
    let mut writer = donor.spawn(&["sh", "-c", WRITER]);
    wait("lines are written", || (donor.written() > 1000).then_some(()));
    let mut frozen = donor.freeze("1");
    let before = donor.written();
    let blocked = donor.spawn(&["touch", "/var/log/blocked"]);
    let copy = donor.image.with_extension("copy");
    copy_image(&donor.image, &copy);
    assert_eq!(donor.written(), before, "the writer waits");
    assert!(!donor.path("/var/log/blocked").exists(), "every write waits");
    signal(inner(&frozen), Signal::TERM);
    let output = child_output(&mut frozen);
    assert!(output.status.success(), "{}", printed(&output));
    let report: FreezeReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!((report.end, &report.file_systems[..]), (FreezeEnd::Requested, &["/".to_owned()][..]), "{report:?}");
    assert!(report.frozen_ms < 10_000, "{report:?}");

    wait("the writer goes on", || (donor.written() > before).then_some(()));
    let blocked = blocked.wait_with_output().expect("touch");
    assert!(blocked.status.success(), "{}", printed(&blocked));
    assert!(writer.try_wait().expect("a child").is_none(), "the writer ended");
    let thawed = donor.thaw_report();
    assert_eq!(thawed, ThawReport { thawed: Vec::new(), freeze: Some(report) });
    let timer = donor.command(&["systemctl", "is-active", "kiln-thaw.timer"]).output().expect("systemctl");
    assert_eq!(String::from_utf8_lossy(&timer.stdout).trim(), "inactive", "the timer is left");
    signal(inner(&writer), Signal::KILL);
    let _ = writer.wait();

    let checked = fsck(&copy);
    assert_eq!(checked.status.code(), Some(0), "the copy is damaged: {}", printed(&checked));
    let clone = Booted::new("freeze-clone", &copy, &[]);
    let lines = fs::read_to_string(clone.path("/var/log/written")).expect("a file");
    assert_eq!(lines.len() as u64, before, "the clone has exactly what was written before the freeze");
    for (number, line) in lines.lines().enumerate() {
        assert_eq!(line, format!("line {}", number + 1));
    }
    clone.assert_writable();
}

#[test]
fn systemd_thaws_the_root_if_kilnd_was_killed() {
    let donor = Booted::new("freeze-killed", image(), &[]);
    // The window is 3 s long and the timer elapses after 10 s.
    let mut frozen = donor.freeze("3");
    let writes = donor.spawn(&["touch", "/var/log/blocked"]);
    signal(inner(&frozen), Signal::KILL);
    let output = child_output(&mut frozen);
    assert!(!output.status.success() && output.stdout.is_empty(), "it was not killed: {}", printed(&output));
    assert!(!donor.path("/var/log/blocked").exists(), "nothing thaws the root at once");
    wait("systemd has thawed the root", || donor.path("/var/log/blocked").exists().then_some(()));
    assert!(writes.wait_with_output().expect("touch").status.success());
    assert_eq!(donor.thaw_report(), ThawReport::default(), "a freeze without a report proves nothing");
    donor.assert_writable();
}

/// The journal of a node that still boots is frozen before it is flushed, which sysinit.target waits for. Here another unit delays it.
#[test]
fn systemd_thaws_the_root_of_a_node_that_still_boots() {
    const SLOW: &str = "[Unit]\nDefaultDependencies=no\nBefore=sysinit.target\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=sleep infinity\n";
    let folder = scratch();
    let image = make_image(folder.path(), "900M", |root| {
        let units = root.join("etc/systemd/system");
        fs::write(units.join("slow.service"), SLOW).expect("written");
        fs::create_dir_all(units.join("sysinit.target.wants")).expect("a folder");
        symlink("../slow.service", units.join("sysinit.target.wants/slow.service")).expect("a link");
    });
    let donor = Booted::new("freeze-booting", &image, &[]);
    let mut frozen = donor.freeze("3");
    let state = donor.command(&["systemctl", "is-active", "sysinit.target"]).output().expect("systemctl");
    assert_eq!(String::from_utf8_lossy(&state.stdout).trim(), "inactive", "it has booted");
    let writes = donor.spawn(&["touch", "/var/log/blocked"]);
    signal(inner(&frozen), Signal::KILL);
    let output = child_output(&mut frozen);
    assert!(!output.status.success() && output.stdout.is_empty(), "it was not killed: {}", printed(&output));
    wait("systemd has thawed the root", || donor.path("/var/log/blocked").exists().then_some(()));
    assert!(writes.wait_with_output().expect("touch").status.success());
}

#[test]
fn kilnd_thaws_the_root_at_the_end_of_the_window_if_nobody_asks() {
    let donor = Booted::new("freeze-window", image(), &[]);
    // The window is 0.9 s long.
    let mut frozen = donor.freeze("10");
    let output = child_output(&mut frozen);
    let report: FreezeReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.end, FreezeEnd::WindowOver);
    donor.assert_writable();
    assert_eq!(donor.thaw_report().frozen_until_requested(), None);

    // A freeze that someone else ended is not a freeze until the end.
    let mut frozen = donor.freeze("1");
    let ended = donor.command(&["fsfreeze", "--unfreeze", "/"]).status().expect("fsfreeze");
    assert!(ended.success());
    signal(inner(&frozen), Signal::TERM);
    let output = child_output(&mut frozen);
    let report: FreezeReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.end, FreezeEnd::ThawedElsewhere);
    assert_eq!(donor.thaw_report().frozen_until_requested(), None);
}

#[test]
fn folder_that_is_not_a_file_system_of_its_own_is_refused_before_anything_is_frozen() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = testkit::private().command(env!("CARGO_BIN_EXE_kilnd"));
    command.args(["freeze", "--run", "r1", "--root"]).arg(folder.path());
    let output = command.output().expect("kilnd");
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("it is not a mount point"), "{}", printed(&output));
    assert!(printed(&output).contains("without `--live`"), "{}", printed(&output));
}
