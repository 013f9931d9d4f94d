//! `kiln local run`: starts a sandbox and runs a command in it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_local::sandbox::{self, MachineError, SandboxError, ToolRoots};

use super::factory::{self, STATE, VARIABLE};
use super::metadata::Metadata;
use crate::failure::Failure;
use crate::stop::Stop;

const EXAMPLES: &str = "Examples:
  kiln local run -- bash
  kiln local run --state ./state -- sh -c 'kiln local image import debian ./root && kiln local pool create nodes --image debian'

When the command ends, every machine of the sandbox ends too. Disks, pools and images stay in the state folder.
Exit code: that of the command, or 137 if the sandbox was killed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    options: Options,
    /// Command to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The state folder of a sandbox and the programs that run its machines.
#[derive(Debug, Clone, Args)]
struct Options {
    /// Folder for pools, disks and images
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Root folder of a Debian with systemd-nspawn [default: this system]
    #[arg(long, value_name = "DIR")]
    nspawn_root: Option<PathBuf>,
    /// Root folder of a Debian with QEMU [default: this system]
    #[arg(long, value_name = "DIR")]
    qemu_root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    options: Options,
    #[arg(long)]
    group: String,
    #[arg(long)]
    lifeline: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn failed(error: &SandboxError) -> Failure {
    match error {
        SandboxError::AlreadyRunning { .. } => Failure::chain(3, error),
        SandboxError::NotRoot => Failure::chain(2, error).hint("run it with `sudo`"),
        SandboxError::Machine(MachineError::Missing { .. }) | SandboxError::NotFirst => Failure::chain(2, error),
        _ => Failure::chain(1, error),
    }
}

pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    // Ctrl-C is for the command: the sandbox ends when the command does.
    let _signals = runtime.block_on(async { Stop::new() })?;
    let program = std::env::current_exe().map_err(|error| Failure::failed(format_args!("this program: {error}")))?;
    let Options { state, nspawn_root: nspawn, qemu_root: qemu } = arguments.options.clone();
    let sandbox = sandbox::start(&state, ToolRoots { nspawn, qemu }, |init| {
        let mut words: Vec<OsString> = vec![program.into(), "local".into(), "init".into()];
        words.extend(["--state".into(), init.state.clone().into()]);
        words.extend([
            "--group".into(),
            init.group.clone().into(),
            "--lifeline".into(),
            init.lifeline.to_string().into(),
        ]);
        for (flag, root) in [("--nspawn-root", &init.tools.nspawn), ("--qemu-root", &init.tools.qemu)] {
            words.extend(root.iter().flat_map(|root| [flag.into(), root.clone().into()]));
        }
        words.push("--".into());
        words.extend(arguments.command.iter().cloned());
        words
    });
    let code = sandbox.and_then(|mut sandbox| sandbox.wait()).map_err(|error| failed(&error))?;
    leave(code)
}

pub(crate) fn init(arguments: &Init, now: Timestamp) -> Result<(), Failure> {
    let Options { state, nspawn_root: nspawn, qemu_root: qemu } = arguments.options.clone();
    let tools = ToolRoots { nspawn, qemu };
    let init = sandbox::Init { state, group: arguments.group.clone(), lifeline: arguments.lifeline, tools };
    let sandbox = init.set_up().map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    runtime.block_on(async {
        let clock = factory::clock(now);
        Metadata::start(factory::open(sandbox.state(), &clock)?, clock).await
    })?;
    let mut command: Vec<OsString> = vec!["env".into(), format!("{VARIABLE}={}", sandbox.state().display()).into()];
    command.extend(arguments.command.iter().cloned());
    leave(sandbox::run(&command).map_err(|error| failed(&error))?)
}

/// Exits with the code of the command, which has reported its own errors.
fn leave(code: i32) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    std::process::exit(code)
}
