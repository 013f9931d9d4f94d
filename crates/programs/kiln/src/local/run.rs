//! `kiln local run`: a world, and a command in it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_local::world::{self, Tools, WorldError};

use super::factory::{self, STATE, VARIABLE};
use super::metadata::Metadata;
use crate::failure::Failure;
use crate::stop::Stop;

const EXAMPLES: &str = "Examples:
  kiln local run -- bash
  kiln local run --state ./lab -- sh -c 'kiln local image import debian ./root && kiln local pool create nodes --image debian'

The end of the command ends every machine of the world. Disks, pools and images stay in the state folder for the next world.
Exit code: that of the command; 137 where it was killed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    place: Place,
    /// Command to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Where a world is, and what its machines are run by.
#[derive(Debug, Clone, Args)]
struct Place {
    /// Folder of pools, disks and images
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Root of a Debian to take systemd-nspawn from [default: this system's own]
    #[arg(long, value_name = "DIR")]
    nspawn_root: Option<PathBuf>,
    /// Root of a Debian to take QEMU from [default: this system's own]
    #[arg(long, value_name = "DIR")]
    qemu_root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct First {
    #[command(flatten)]
    place: Place,
    #[arg(long)]
    group: String,
    #[arg(long)]
    ends: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn failed(error: &WorldError) -> Failure {
    match error {
        WorldError::Taken { .. } => Failure::chain(3, error),
        WorldError::NotRoot => Failure::chain(2, error).hint("run it with `sudo`"),
        WorldError::Missing { .. } | WorldError::NotFirst => Failure::chain(2, error),
        _ => Failure::chain(1, error),
    }
}

pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    // A signal of the terminal is the command's to hear: the world ends with that.
    let _signals = runtime.block_on(async { Stop::new() })?;
    let program = std::env::current_exe().map_err(|error| Failure::failed(format_args!("this program: {error}")))?;
    let Place { state, nspawn_root: nspawn, qemu_root: qemu } = arguments.place.clone();
    let entered = world::enter(&state, Tools { nspawn, qemu }, |told| {
        let mut words: Vec<OsString> = vec![program.into(), "local".into(), "first".into()];
        words.extend(["--state".into(), told.state.clone().into()]);
        words.extend(["--group".into(), told.group.clone().into(), "--ends".into(), told.ends.to_string().into()]);
        for (flag, root) in [("--nspawn-root", &told.tools.nspawn), ("--qemu-root", &told.tools.qemu)] {
            words.extend(root.iter().flat_map(|root| [flag.into(), root.clone().into()]));
        }
        words.push("--".into());
        words.extend(arguments.command.iter().cloned());
        words
    });
    let code = entered.and_then(|mut entered| entered.wait()).map_err(|error| failed(&error))?;
    leave(code)
}

pub(crate) fn first(arguments: &First, now: Timestamp) -> Result<(), Failure> {
    let Place { state, nspawn_root: nspawn, qemu_root: qemu } = arguments.place.clone();
    let told =
        world::First { state, group: arguments.group.clone(), ends: arguments.ends, tools: Tools { nspawn, qemu } };
    let world = told.make().map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    runtime.block_on(async {
        let clock = factory::clock(now);
        Metadata::start(factory::open(world.state(), &clock)?, clock).await
    })?;
    let mut command: Vec<OsString> = vec!["env".into(), format!("{VARIABLE}={}", world.state().display()).into()];
    command.extend(arguments.command.iter().cloned());
    leave(world::run(&command).map_err(|error| failed(&error))?)
}

/// Ends with the code of the command.
fn leave(code: i32) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    // The command has said why.
    std::process::exit(code)
}
