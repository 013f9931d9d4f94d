//! `kiln local`: pools, images and machines on this host, without a cloud.

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
    /// Run a command in a sandbox: private namespaces with a network and the addresses of a cloud, in which machines can run
    Run(run::Run),
    /// Images that machines are created from
    #[command(subcommand)]
    Image(image::Image),
    /// Pools of machines with the same recipe
    #[command(subcommand)]
    Pool(pool::Pool),
    /// Machines outside of pools
    #[command(subcommand)]
    Machine(machine::Machine),
    /// Start every machine that should be running, such as those of the previous sandbox
    Start(status::Status),
    /// Shut down every machine, before the sandbox ends
    Stop(status::Status),
    /// List all machines and whether they are running
    Status(status::Status),
    /// Set the provider id of a cluster's nodes and delete nodes without a machine, as a cloud's controller does, until stopped
    Nodes(nodes::Nodes),
    /// Set up the sandbox of `run`, as its first process
    #[command(hide = true)]
    Init(run::Init),
}

/// The arguments of every command in a sandbox.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    state: State,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(command: &Local, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    match command {
        Local::Run(command) => return run::run(command),
        Local::Init(command) => return run::init(command, now()),
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
            Local::Run(_) | Local::Init(_) => Ok(()),
        }
    })
}
