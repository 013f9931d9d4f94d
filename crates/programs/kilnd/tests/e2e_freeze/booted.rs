//! A machine that boots from an ext4 file system of its own, and can therefore be frozen.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use kiln_machines::command::run;
use kiln_machines::namespaces::{Namespaces, enter, group_name};
use kiln_machines::processes::{children, signal};
use kiln_machines::{nspawn, tools};
use kiln_types::ThawReport;
use rustix::process::Signal;
use test_deps::TestDep;

/// Holds the namespaces of a machine until its standard input ends. The root is thawed first: the kernel keeps a frozen file system, and its
/// loop device, for ever. Argument: the image.
pub(crate) const HOLD: &str = r#"
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
pub(crate) const PORT: u16 = 10_298;

/// Copies a root folder without what would only make the image larger.
const COPY: &str =
    "cd \"$1\" && tar -c --one-file-system --exclude=./usr/share/doc --exclude=./usr/share/locale . | tar -x -C \"$2\"";

/// The root folder of a Debian that boots.
pub(crate) fn debian() -> PathBuf {
    testkit::require(TestDep::NodeRoot).ancestors().nth(3).expect("a root").to_owned()
}

/// The folder for images: in memory, if there is some.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// An ext4 image of a Debian with kilnd. It is created once, and ends with this process: it is an open file without a name, because a
/// static value is never dropped.
pub(crate) fn image() -> &'static Path {
    static IMAGE: OnceLock<(fs::File, PathBuf)> = OnceLock::new();
    let (_, image) = IMAGE.get_or_init(|| {
        let folder = scratch();
        let file = fs::File::open(make_image(folder.path(), "900M", |_| {})).expect("the image");
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        (file, path.into())
    });
    image
}

/// Creates an ext4 image of a Debian with kilnd, changed by `change`.
pub(crate) fn make_image(folder: &Path, size: &str, change: impl FnOnce(&Path)) -> PathBuf {
    let root = scratch();
    let mut copy = Command::new("sh");
    copy.args(["-c", COPY, "sh"]);
    run(copy.arg(debian()).arg(root.path())).expect("a copy");
    fs::copy(env!("CARGO_BIN_EXE_kilnd"), root.path().join("usr/bin/kilnd")).expect("copied");
    change(root.path());
    let image = folder.join("base.img");
    let mut make = tools::command(Some(&debian()), "mke2fs");
    make.env("MKE2FS_CONFIG", debian().join("etc/mke2fs.conf"));
    run(make.args(["-q", "-F", "-t", "ext4", "-d"]).arg(root.path()).arg(&image).arg(size)).expect("an image");
    image
}

pub(crate) fn copy_image(from: &Path, to: &Path) {
    run(Command::new("cp").arg("--sparse=always").arg(from).arg(to)).expect("a copy");
}

/// A running machine.
pub(crate) struct Booted {
    pub(crate) leader: u32,
    process: Child,
    pub(crate) image: PathBuf,
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
    /// Boots a copy of an image. `arguments` are further arguments of systemd-nspawn.
    pub(crate) fn new(name: &str, from: &Path, arguments: &[&str]) -> Self {
        let folder = scratch();
        let image = folder.path().join("root.img");
        copy_image(from, &image);
        let name = group_name(name);
        let group = format!("kiln-{name}");
        let namespaces = Namespaces::create(&group, HOLD, &[image.as_os_str()]).expect("namespaces");
        let mut boot = namespaces.command();
        boot.args(nspawn::boot_words(Some(&debian()), &group, &name)).args(arguments).stdin(Stdio::null());
        let console = fs::File::create(folder.path().join("console")).expect("a file");
        boot.stdout(console.try_clone().expect("a file")).stderr(console);
        let mut process = boot.spawn().expect("nsenter");
        let leader = wait("the machine has booted", || {
            if let Some(status) = process.try_wait().expect("a child") {
                let console = fs::read_to_string(folder.path().join("console")).unwrap_or_default();
                panic!("systemd-nspawn ended with {status}: {console}");
            }
            nspawn::leader(process.id()).filter(|leader| nspawn::is_manager_up(*leader))
        });
        Self { leader, process, image, _folder: folder, _namespaces: namespaces }
    }

    pub(crate) fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        let mut command = enter(self.leader, &["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]);
        command.args(words).stdin(Stdio::null());
        command
    }

    pub(crate) fn spawn(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nsenter")
    }

    /// A path of the machine, as this process sees it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.leader))
    }

    /// Starts `kilnd freeze` and waits until the root is frozen.
    pub(crate) fn freeze(&self, scale: &str) -> Child {
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

    pub(crate) fn thaw_report(&self) -> ThawReport {
        let output = self.command(&["kilnd", "thaw", "--run", "r1", "--output", "json"]).output().expect("nsenter");
        assert!(output.status.success(), "{}", printed(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&output)))
    }

    pub(crate) fn written(&self) -> u64 {
        fs::metadata(self.path("/var/log/written")).map_or(0, |file| file.len())
    }

    #[track_caller]
    pub(crate) fn assert_writable(&self) {
        let output =
            self.command(&["sh", "-c", "echo x >/var/log/probe && sync /var/log/probe"]).output().expect("nsenter");
        assert!(output.status.success(), "{}", printed(&output));
    }
}

pub(crate) fn child_output(child: &mut Child) -> Output {
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

pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits until `look` returns a value, for two minutes at most.
#[track_caller]
pub(crate) fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out waiting until {what}")
}

/// The process that `nsenter` runs.
pub(crate) fn inner(child: &Child) -> u32 {
    children(child.id()).into_iter().next().expect("nsenter has a child")
}

pub(crate) fn fsck(image: &Path) -> Output {
    tools::command(Some(&debian()), "e2fsck").args(["-f", "-n"]).arg(image).output().expect("e2fsck")
}
