//! `kiln local`: machines on this machine, with no cloud.

pub(crate) mod factory;
mod image;
mod machine;
mod metadata;
mod nodes;
mod pool;
mod run;
mod status;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use crate::answer::Output;
use crate::failure::Failure;
use factory::State;

#[derive(Debug, Subcommand)]
pub(crate) enum Local {
    /// Run a command in a private world with a network, a cloud's addresses, and room for machines
    Run(run::Run),
    /// What machines are made from
    #[command(subcommand)]
    Image(image::Image),
    /// Machines that one recipe makes
    #[command(subcommand)]
    Pool(pool::Pool),
    /// Machines that are of no pool
    #[command(subcommand)]
    Machine(machine::Machine),
    /// Switch on every machine that should be on: in a new world, those of the last one
    Start(status::Status),
    /// Shut every machine down in good order, before the world ends
    Stop(status::Status),
    /// All machines, and whether they are on
    Status(status::Status),
    /// Tie the nodes of a cluster to the machines of this world, as the controller of a cloud would, until it is stopped
    Nodes(nodes::Nodes),
    /// What the first process of a world does
    #[command(hide = true)]
    First(run::First),
}

/// What every command inside a world takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    state: State,
    /// Form of the result
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(command: &Local, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    match command {
        Local::Run(command) => return run::run(command),
        Local::First(command) => return run::first(command, now()),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let clock = factory::clock(now());
    runtime.block_on(async {
        match command {
            Local::Image(command) => image::run(command, &clock).await,
            Local::Pool(command) => pool::run(command, &clock).await,
            Local::Machine(command) => machine::run(command, &clock).await,
            Local::Start(command) => status::start(command, &clock).await,
            Local::Stop(command) => status::stop(command, &clock).await,
            Local::Status(command) => status::run(command, &clock).await,
            Local::Nodes(command) => nodes::run(command, &clock).await,
            Local::Run(_) | Local::First(_) => Ok(()),
        }
    })
}
