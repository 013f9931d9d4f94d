//! `kiln local`: machines on this machine, with no cloud.

mod run;

use clap::Subcommand;
use jiff::Timestamp;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Local {
    /// Run a command in a private world with a network, a cloud's addresses, and room for machines
    Run(run::Run),
    /// What the first process of a world does
    #[command(hide = true)]
    First(run::First),
}

pub(crate) fn run(command: &Local, _now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    match command {
        Local::Run(command) => run::run(command),
        Local::First(command) => run::first(command),
    }
}
