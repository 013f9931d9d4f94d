//! `kilnd freeze` and `kilnd thaw`: freeze the file systems of the OS disk while a snapshot of it is created.
//!
//! A node with a frozen root cannot write: its journal, its container runtime and every log wait. Therefore nothing that ends the freeze
//! may need the disk or the network:
//!
//! 1. kilnd itself thaws when it receives SIGTERM, and after [`FREEZE_WINDOW`] if it does not. Before it freezes anything it locks its
//!    memory, runs `fsfreeze` once and opens everything that it needs.
//! 2. systemd thaws after [`THAW_TIMER`] if kilnd was killed. kilnd starts that timer first and does not freeze before it runs.
//! 3. If `fsfreeze` cannot be executed any more, kilnd asks the kernel to thaw everything (`SysRq` with `j`).
//!
//! The report is written to a folder in memory after the thaw. Its duration is measured here, on the node's own clock.

mod file_systems;
mod tool;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use kiln_types::{FREEZE_WINDOW, FreezeEnd, FreezeReport, THAW_TIMER, ThawReport};
use rustix::mm::MlockAllFlags;
use socket2::{Domain, Socket, Type};

use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::node::Node;
use crate::os::{Systemd, clock};
use crate::watch::signals::{self, Wake};
use tool::Fsfreeze;

/// The report of the last freeze, in memory.
const REPORT: &str = "/run/kiln/freeze.json";
/// The timer and service of systemd that thaw.
const TIMER: &str = "kiln-thaw";
/// Block devices by number.
const NUMBERS: &str = "/sys/dev/block";
/// systemd answers in milliseconds; on a busy node with one processor in seconds.
const SYSTEMD_TIMEOUT: Duration = Duration::from_secs(20);

/// Why nothing was frozen, or why a file system could not be thawed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    #[error(
        "cannot freeze the file systems of `{path}`: {why}\nhint: copy the disk of a stopped donor, without `--live`"
    )]
    Root { path: String, why: String },
    #[error(
        "cannot freeze: this node has no `fsfreeze`\nhint: install util-linux, or copy the disk of a stopped donor, without `--live`"
    )]
    NoTool,
    #[error("`fsfreeze {act}` failed: {why}")]
    Tool { act: String, mount: String, why: String },
    #[error("cannot freeze: nothing would thaw the file systems if kilnd were killed\nhint: use `--systemd SOCKET`")]
    NoTimer,
    #[error("cannot {doing}")]
    Io {
        doing: String,
        #[source]
        source: io::Error,
    },
    #[error("stopped before anything was frozen")]
    Stopped,
    #[error(transparent)]
    Os(#[from] crate::os::Error),
}

fn io_error(doing: impl Into<String>) -> impl FnOnce(io::Error) -> FreezeError {
    let doing = doing.into();
    move |source| FreezeError::Io { doing, source }
}

/// `kilnd freeze`.
pub fn freeze(node: &Node, run: &str, ready_port: Option<u16>, output: Output) -> CommandResult {
    let frozen = Freezer::prepare(node, ready_port).and_then(|freezer| freezer.freeze(run));
    finish(node, frozen, output, |report| {
        format!("{} frozen for {} ms\n", report.file_systems.join(", "), report.frozen_ms)
    })
}

/// `kilnd thaw`.
pub fn thaw(node: &Node, run: &str, output: Output) -> CommandResult {
    finish(node, thaw_all(node, run), output, |report| match &report.thawed[..] {
        [] => "nothing was frozen\n".to_owned(),
        thawed => format!("thawed {}\n", thawed.join(", ")),
    })
}

fn finish<T: serde::Serialize>(
    node: &Node,
    done: Result<T, FreezeError>,
    output: Output,
    text: impl FnOnce(&T) -> String,
) -> CommandResult {
    match done {
        Ok(report) => match output {
            Output::Json => {
                let line = serde_json::to_string(&report).unwrap_or_default();
                CommandResult { code: DONE, text: format!("{line}\n") }
            }
            Output::Text => CommandResult { code: DONE, text: text(&report) },
        },
        Err(error) => {
            node.log.report(&error);
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

/// Everything that a freeze needs, in memory.
struct Freezer {
    tool: Fsfreeze,
    /// In the order of freezing.
    mounts: Vec<String>,
    systemd: Systemd,
    signals: Receiver<Wake>,
    ready: Option<Socket>,
    /// The kernel's last resort, if this process may use it.
    sysrq: Option<File>,
    window: Duration,
    timer: Duration,
}

impl Freezer {
    fn prepare(node: &Node, ready_port: Option<u16>) -> Result<Self, FreezeError> {
        let mounts = mounts(node)?;
        let socket = node.systemd.as_ref().ok_or(FreezeError::NoTimer)?;
        let ready = ready_port.map(bind).transpose()?;
        let (_, signals) = signals::listen().map_err(io_error("listen for signals"))?;
        let sysrq = OpenOptions::new().write(true).open("/proc/sysrq-trigger").ok();
        let mut systemd = Systemd::new(socket, SYSTEMD_TIMEOUT);
        // Connects now: below the root folder the socket has another path.
        systemd.stop_timer(TIMER)?;
        enter(node.root.path())?;
        let tool = Fsfreeze::find()?;
        // Without the capability its pages may be read from the disk again, which a frozen file system allows.
        let _ = rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
        let scale = node.wait.scale;
        Ok(Self {
            tool,
            mounts,
            systemd,
            signals,
            ready,
            sysrq,
            window: FREEZE_WINDOW / scale,
            timer: THAW_TIMER / scale,
        })
    }

    fn freeze(mut self, run: &str) -> Result<FreezeReport, FreezeError> {
        remove(REPORT)?;
        let commands: Vec<Vec<String>> = self
            .mounts
            .iter()
            .rev()
            .map(|mount| vec![self.tool.path.clone(), "--unfreeze".to_owned(), mount.clone()])
            .collect();
        self.systemd.start_timer(TIMER, self.timer, &commands)?;
        // Most of what is to be written is written now, while others can still write too.
        rustix::fs::sync();
        if matches!(self.signals.try_recv(), Ok(Wake::Stop)) {
            self.systemd.stop_timer(TIMER)?;
            return Err(FreezeError::Stopped);
        }
        let began = clock::boot_time();
        for (count, mount) in self.mounts.iter().enumerate() {
            if let Err(error) = self.tool.freeze(mount) {
                self.thaw(&self.mounts[..count]);
                self.systemd.stop_timer(TIMER)?;
                return Err(error);
            }
        }
        let is_requested = self.wait(began);
        let is_thawed_here = self.thaw(&self.mounts);
        let frozen = clock::boot_time().saturating_sub(began);
        let end = match (is_requested, is_thawed_here) {
            (true, true) => FreezeEnd::Requested,
            (false, true) => FreezeEnd::WindowOver,
            (_, false) => FreezeEnd::ThawedElsewhere,
        };
        let frozen_ms = u64::try_from(frozen.as_millis()).unwrap_or(u64::MAX);
        let report = FreezeReport { run: run.to_owned(), file_systems: self.mounts.clone(), frozen_ms, end };
        write_report(&report)?;
        self.systemd.stop_timer(TIMER)?;
        Ok(report)
    }

    /// Reports readiness and waits for a request to thaw. Returns whether there was one.
    fn wait(&self, began: Duration) -> bool {
        if let Some(ready) = &self.ready {
            // The kubelet only connects; nobody has to accept.
            let _ = ready.listen(8);
        }
        loop {
            let left = (began + self.window).saturating_sub(clock::boot_time());
            match self.signals.recv_timeout(left) {
                Ok(Wake::Stop) => return true,
                Ok(Wake::Poll | Wake::NodeState(..)) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Thaws file systems, the last frozen first. Returns whether all of them were still frozen.
    fn thaw(&self, mounts: &[String]) -> bool {
        let thawed: Vec<Option<bool>> = mounts.iter().rev().map(|mount| self.tool.thaw(mount).ok()).collect();
        if thawed.contains(&None)
            && let Some(mut sysrq) = self.sysrq.as_ref()
        {
            let _ = sysrq.write_all(b"j");
        }
        thawed.iter().all(|was_frozen| *was_frozen == Some(true))
    }
}

fn thaw_all(node: &Node, run: &str) -> Result<ThawReport, FreezeError> {
    let mounts = mounts(node);
    if let Some(socket) = &node.systemd {
        Systemd::new(socket, SYSTEMD_TIMEOUT).stop_timer(TIMER)?;
    }
    enter(node.root.path())?;
    let mut report = ThawReport::default();
    // A node without `fsfreeze`, or with another kind of root, was never frozen.
    if let (Ok(mounts), Ok(tool)) = (mounts, Fsfreeze::find()) {
        for mount in mounts.into_iter().rev() {
            if tool.thaw(&mount)? {
                report.thawed.push(mount);
            }
        }
    }
    let last: Option<FreezeReport> = fs::read(REPORT).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    report.freeze = last.filter(|last| last.run == run);
    Ok(report)
}

fn mounts(node: &Node) -> Result<Vec<String>, FreezeError> {
    let table = fs::read("/proc/self/mountinfo").map_err(io_error("read `/proc/self/mountinfo`"))?;
    // The mount point of a pod's volume may not be UTF-8; it is not one of the OS disk.
    let table = String::from_utf8_lossy(&table);
    let root = fs::canonicalize(node.root.path()).map_err(io_error("read the root folder"))?;
    file_systems::of_os_disk(&table, &root, |device| file_systems::disks_of(Path::new(NUMBERS), device))
}

/// Makes the node's root this process's: `fsfreeze` and its libraries are the node's.
fn enter(root: &Path) -> Result<(), FreezeError> {
    if root == Path::new("/") {
        return Ok(());
    }
    let entered = rustix::process::chroot(root).and_then(|()| rustix::process::chdir("/"));
    entered.map_err(|errno| io_error(format!("enter `{}`", root.display()))(errno.into()))
}

/// Reserves the port. Connections are refused until the socket listens.
fn bind(port: u16) -> Result<Socket, FreezeError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).and_then(|socket| {
        // The last connections of an earlier freeze do not block it.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    });
    bound.map_err(io_error(format!("bind {address}")))
}

fn remove(path: &str) -> Result<(), FreezeError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io_error(format!("remove `{path}`"))(source)),
        _ => Ok(()),
    }
}

fn write_report(report: &FreezeReport) -> Result<(), FreezeError> {
    let (path, new) = (PathBuf::from(REPORT), format!("{REPORT}.new"));
    let bytes = serde_json::to_vec(report).unwrap_or_default();
    let folder = path.parent().unwrap_or(&path);
    let written =
        fs::create_dir_all(folder).and_then(|()| fs::write(&new, bytes)).and_then(|()| fs::rename(&new, &path));
    written.map_err(io_error(format!("write `{REPORT}`")))
}
