//! The operator's tool.

mod completions;
mod demo;
mod failure;
mod man;
mod sim;
mod stop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Kubernetes nodes that come up fast, patched and alike.
#[derive(Debug, Parser)]
#[command(
    name = "kiln",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage or bad input."
)]
struct Kiln {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a node become the image of the next one, in an embedded Azure
    Demo(demo::Demo),
    /// An embedded Azure to try and test against
    #[command(subcommand)]
    Sim(Box<sim::Sim>),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write man pages into a folder
    Man(man::Man),
}

fn main() -> ExitCode {
    let result = match Kiln::parse().command {
        Command::Demo(command) => demo::run(&command, now()),
        Command::Sim(command) => sim::run(&command, &now),
        Command::Completions(command) => completions::run(&command),
        Command::Man(command) => man::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

/// The one place where this program asks for the time.
#[expect(clippy::disallowed_methods, reason = "a program's main is where time comes in")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
