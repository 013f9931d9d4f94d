//! The operator's tool.

mod answer;
mod boot;
mod bootstrap;
mod completions;
mod demo;
#[cfg(test)]
mod examples;
mod failure;
mod launch;
mod local;
mod man;
mod prototype;
mod sim;
mod stop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln demo
      A node becomes the image of the next one, on an Azure inside the program: a minute, and nothing is left behind.
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000
  kiln boot explain
  kiln bootstrap explain --settings settings.yaml --node-pool pool.yaml --node-class class.yaml

Exit codes: 0 done, 1 failed or what was asked does not hold, 2 usage or bad input, 3 held by another, 4 stuck and needs a person, 5 \
drift found, 130 stopped.";

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

/// Kubernetes nodes that come up fast, patched and alike.
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
    /// Why kubelet started when it did, and what would save seconds
    Boot(boot::BootCommand),
    /// What a node starts with, and where each value of it comes from
    Bootstrap(bootstrap::Bootstrap),
    /// Watch a node become the image of the next one, in an embedded Azure
    Demo(demo::Demo),
    /// Single machines: launch template, creation, and what killed creations left
    Launch(Box<launch::Launch>),
    /// Real machines on this machine, with no cloud
    #[command(subcommand, arg_required_else_help = true, after_help = LOCAL)]
    Local(Box<local::Local>),
    /// Make every new node a copy of your best one
    Prototype(Box<prototype::Prototype>),
    /// An embedded Azure to try and test against
    #[command(subcommand, arg_required_else_help = true, after_help = sim::EXAMPLES)]
    Sim(Box<sim::Sim>),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write man pages into a folder
    Man(man::Man),
}

fn main() -> ExitCode {
    let result = match Kiln::parse().command {
        Command::Boot(command) => boot::run(&command),
        Command::Bootstrap(command) => bootstrap::run(&command, &now),
        Command::Demo(command) => demo::run(&command, now()),
        Command::Launch(command) => launch::run(&command, &now),
        Command::Local(command) => local::run(&command, &now),
        Command::Prototype(command) => prototype::run(&command, &now),
        Command::Sim(command) => sim::run(&command, &now),
        Command::Completions(command) => completions::run(&command),
        Command::Man(command) => man::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message, hint }) => {
            eprintln!("error: {message}");
            if let Some(hint) = hint {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(code)
        }
    }
}

/// The one place where this program asks for the time.
#[expect(clippy::disallowed_methods, reason = "a program's main is where time comes in")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
