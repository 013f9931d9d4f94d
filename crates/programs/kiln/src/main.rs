//! `kiln`, the command line for images, node configuration and boot analysis.
//!
//! Each command is a module with a clap type and a `run` function that returns a [`failure::Failure`]; only `main` prints it and exits.

mod answer;
mod boot;
mod bootstrap;
mod completions;
mod demo;
#[cfg(test)]
mod examples;
mod failure;
mod fleet;
mod freeze;
mod launch;
mod local;
mod man;
mod node;
mod operator;
mod prototype;
mod rollout;
mod sim;
mod stop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "Examples:
  kiln demo
      Create an image from a node of a simulated pool, and new nodes from that image. Takes about a minute and needs no cloud.
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000
  kiln boot explain
  kiln bootstrap explain --settings settings.yaml --node-pool pool.yaml --node-class class.yaml

Exit codes: 0 success, 1 failed, or a check did not pass, 2 invalid usage or input, 3 locked by another run, 4 stuck and needs an operator, \
5 drift found, 130 interrupted.";

const LOCAL: &str = "Examples:
  kiln local run --state ./state -- bash
      A private world; the rest is typed inside it.
  kiln local image import debian ./root
  kiln local pool create nodes --image debian
  kiln local pool list
  kiln local status
  kiln local stop
  kiln local start
  kiln local machine delete node-1
  kiln local pool delete nodes";

/// Kubernetes nodes that start fast, patched and identical
#[derive(Debug, Parser)]
#[command(
    name = "kiln",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
struct Kiln {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find out why the kubelet started late, and what would save time
    Boot(boot::BootCommand),
    /// Render the configuration of a node and show where each value comes from
    Bootstrap(bootstrap::Bootstrap),
    /// Watch a prototype run, or rollouts over a fleet, in a simulated Azure
    Demo(demo::Demo),
    /// Stop all rollouts, or those of some pools
    Freeze(Box<freeze::FreezeCommand>),
    /// Create single machines, and clean up after interrupted creations
    Launch(Box<launch::Launch>),
    /// Run pools of real machines on this host, without a cloud
    #[command(subcommand, arg_required_else_help = true, after_help = LOCAL)]
    Local(Box<local::Local>),
    /// Show and compare the nodes of the fleet, and check images
    Node(Box<node::NodeCommand>),
    /// Carry out rollouts: run the controllers of the fleet
    Operator(operator::Operator),
    /// Create all new nodes of a pool from the image of one node
    Prototype(Box<prototype::Prototype>),
    /// Change the nodes of pools in waves, and go back
    Rollout(Box<rollout::RolloutCommand>),
    /// Serve an embedded Azure for experiments and tests
    #[command(subcommand, arg_required_else_help = true, after_help = sim::EXAMPLES)]
    Sim(Box<sim::Sim>),
    /// Print a shell completion script
    Completions(completions::Completions),
    /// Write man pages to a folder
    Man(man::Man),
}

fn main() -> ExitCode {
    let result = match Kiln::parse().command {
        Command::Boot(command) => boot::run(&command),
        Command::Bootstrap(command) => bootstrap::run(&command, &now),
        Command::Demo(command) => demo::run(&command, now()),
        Command::Freeze(command) => freeze::run(&command, &now),
        Command::Launch(command) => launch::run(&command, &now),
        Command::Local(command) => local::run(&command, &now),
        Command::Node(command) => node::run(&command, &now),
        Command::Operator(command) => operator::run(&command, &now),
        Command::Prototype(command) => prototype::run(&command, &now),
        Command::Rollout(command) => rollout::run(&command, &now),
        Command::Sim(command) => sim::run(&command, &now),
        Command::Completions(command) => completions::run(&command),
        Command::Man(command) => man::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.code)
        }
    }
}

/// The only place where the program reads the clock.
#[expect(clippy::disallowed_methods, reason = "main passes the time to everything else")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
