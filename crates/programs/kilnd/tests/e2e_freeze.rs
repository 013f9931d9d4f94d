//! Freezes the root file system of a running machine. The machine is a container that boots a real systemd from an ext4 file system in a file
//! of its own, on a loop device, so that no file system of the host is ever frozen.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use kiln_machines::command::run;
use kiln_machines::namespaces::{Namespaces, enter, group_name};
use kiln_machines::processes::{children, signal};
use kiln_machines::{nspawn, tools};
use kiln_types::{FreezeEnd, FreezeReport, ThawReport};
use rustix::process::Signal;
use test_deps::TestDep;

/// Holds the namespaces of a machine until its standard input ends. The root is thawed first: the kernel keeps a frozen file system, and its
/// loop device, for ever. Argument: the image.
const HOLD: &str = r#"
set -eu
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/tree
mount -t proc proc /proc
mount -t ext4 -o loop "$1" /run/tree
echo ready
while read -r line; do :; done
fsfreeze --unfreeze /run/tree 2>/dev/null || true
"#;

/// The port that kilnd listens on while the root is frozen.
const PORT: u16 = 10_298;

/// Appends numbered lines, like a container that writes its log.
const WRITER: &str = "i=0; while :; do i=$((i + 1)); echo \"line $i\" >>/var/log/written; done";

/// The root folder of a Debian that boots.
fn debian() -> PathBuf {
    testkit::require(TestDep::NodeRoot).ancestors().nth(3).expect("a root").to_owned()
}

/// The folder for images: in memory, if there is some.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// An ext4 image of a Debian with kilnd. It is created once, and stays until this process ends.
fn image() -> &'static Path {
    static IMAGE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, image) = IMAGE.get_or_init(|| {
        let (folder, root) = (scratch(), scratch());
        // Kernel modules, documentation and the like would only make the image larger.
        let mut copy = Command::new("sh");
        copy.args(["-c", "cd \"$1\" && tar -c --one-file-system --exclude=./usr/share/doc --exclude=./usr/share/locale . | tar -x -C \"$2\"", "sh"]);
        run(copy.arg(debian()).arg(root.path())).expect("a copy");
        fs::copy(env!("CARGO_BIN_EXE_kilnd"), root.path().join("usr/bin/kilnd")).expect("copied");
        let image = folder.path().join("base.img");
        let mut make = tools::command(Some(&debian()), "mke2fs");
        make.env("MKE2FS_CONFIG", debian().join("etc/mke2fs.conf"));
        run(make.args(["-q", "-F", "-t", "ext4", "-d"]).arg(root.path()).arg(&image).arg("900M")).expect("an image");
        (folder, image)
    });
    image
}

fn copy_image(from: &Path, to: &Path) {
    run(Command::new("cp").arg("--sparse=always").arg(from).arg(to)).expect("a copy");
}

/// A running machine.
struct Booted {
    leader: u32,
    process: Child,
    image: PathBuf,
    _folder: tempfile::TempDir,
    _namespaces: Namespaces,
}

impl Drop for Booted {
    fn drop(&mut self) {
        // A process that waits for the frozen root cannot be killed.
        let _ = Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(format!("/proc/{}/root", self.leader))
            .stderr(Stdio::null())
            .status();
        signal(self.leader, Signal::KILL);
        let _ = self.process.wait();
    }
}

impl Booted {
    fn new(name: &str, from: &Path) -> Self {
        let folder = scratch();
        let image = folder.path().join("root.img");
        copy_image(from, &image);
        let name = group_name(name);
        let group = format!("kiln-{name}");
        let namespaces = Namespaces::create(&group, HOLD, &[image.as_os_str()]).expect("namespaces");
        let mut boot = namespaces.command();
        boot.args(nspawn::boot_words(Some(&debian()), &group, &name)).stdin(Stdio::null());
        let console = fs::File::create(folder.path().join("console")).expect("a file");
        boot.stdout(console.try_clone().expect("a file")).stderr(console);
        let process = boot.spawn().expect("nsenter");
        let leader = wait("the machine has booted", || {
            nspawn::leader(process.id()).filter(|leader| nspawn::is_manager_up(*leader))
        });
        Self { leader, process, image, _folder: folder, _namespaces: namespaces }
    }

    fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        let mut command = enter(self.leader, &["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]);
        command.args(words).stdin(Stdio::null());
        command
    }

    fn spawn(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nsenter")
    }

    /// A path of the machine, as this process sees it.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.leader))
    }

    /// Starts `kilnd freeze` and waits until the root is frozen.
    fn freeze(&self, scale: &str) -> Child {
        let port = PORT.to_string();
        let words =
            ["kilnd", "freeze", "--run", "r1", "--ready-port", &port, "--output", "json", "--time-scale", scale];
        let mut child = self.spawn(&words);
        let is_frozen = || {
            let table = fs::read_to_string(format!("/proc/{}/net/tcp", self.leader)).unwrap_or_default();
            table.contains(&format!("0100007F:{PORT:04X} 00000000:0000 0A")).then_some(())
        };
        wait("the root is frozen", || match child.try_wait().expect("a child") {
            Some(status) => Some(Err(status)),
            None => is_frozen().map(Ok),
        })
        .unwrap_or_else(|status| panic!("kilnd ended with {status}: {}", printed(&child_output(&mut child))));
        child
    }

    fn thaw_report(&self) -> ThawReport {
        let output = self.command(&["kilnd", "thaw", "--run", "r1", "--output", "json"]).output().expect("nsenter");
        assert!(output.status.success(), "{}", printed(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&output)))
    }

    fn written(&self) -> u64 {
        fs::metadata(self.path("/var/log/written")).map_or(0, |file| file.len())
    }

    #[track_caller]
    fn assert_writable(&self) {
        let output =
            self.command(&["sh", "-c", "echo x >/var/log/probe && sync /var/log/probe"]).output().expect("nsenter");
        assert!(output.status.success(), "{}", printed(&output));
    }
}

fn child_output(child: &mut Child) -> Output {
    use std::io::Read as _;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    if let Some(pipe) = &mut child.stdout {
        pipe.read_to_end(&mut stdout).expect("output");
    }
    if let Some(pipe) = &mut child.stderr {
        pipe.read_to_end(&mut stderr).expect("errors");
    }
    Output { status: child.wait().expect("a child"), stdout, stderr }
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits until `look` returns a value, for two minutes at most.
#[track_caller]
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out waiting until {what}")
}

/// The process that `nsenter` runs.
fn inner(child: &Child) -> u32 {
    children(child.id()).into_iter().next().expect("nsenter has a child")
}

fn fsck(image: &Path) -> Output {
    tools::command(Some(&debian()), "e2fsck").args(["-f", "-n"]).arg(image).output().expect("e2fsck")
}

#[test]
fn copy_of_a_frozen_root_is_clean_and_boots_while_the_donor_goes_on() {
    let donor = Booted::new("freeze", image());
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
    let clone = Booted::new("freeze-clone", &copy);
    let lines = fs::read_to_string(clone.path("/var/log/written")).expect("a file");
    assert_eq!(lines.len() as u64, before, "the clone has exactly what was written before the freeze");
    for (number, line) in lines.lines().enumerate() {
        assert_eq!(line, format!("line {}", number + 1));
    }
    clone.assert_writable();
}

#[test]
fn systemd_thaws_the_root_if_kilnd_was_killed() {
    let donor = Booted::new("freeze-killed", image());
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

#[test]
fn kilnd_thaws_the_root_at_the_end_of_the_window_if_nobody_asks() {
    let donor = Booted::new("freeze-window", image());
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
