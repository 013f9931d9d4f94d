//! `kiln sim`: serves the embedded Azure and Kubernetes to other programs.

mod cluster;
mod endpoint;
mod env;
mod folder;
pub(crate) mod kilnds;
mod serve;

use clap::Subcommand;
use jiff::Timestamp;

use crate::failure::Failure;

pub(crate) const EXAMPLES: &str = "Examples:
  kiln sim serve --state ./azure &
  eval \"$(kiln sim env --state ./azure)\"
      az, the Azure SDKs, kubectl and kiln in this shell now use the embedded Azure and its cluster.";

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Serve an embedded Azure until SIGTERM or Ctrl-C
    Serve(serve::Serve),
    /// Print environment variables for clients of a running embedded Azure
    Env(env::Env),
}

pub(crate) fn run(command: &Sim, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    match command {
        Sim::Serve(arguments) => serve::run(arguments, now()),
        Sim::Env(arguments) => env::run(arguments),
    }
}
