//! kilnd: the node's daemon.

use std::io::Write as _;
use std::process::ExitCode;

use kilnd::args::{Args, Command, HELP};
use kilnd::commands::{self, Ending};
use kilnd::node::Node;

/// The command line cannot be understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(usage) => {
            eprintln!("kilnd: {usage}\n`kilnd help` shows what there is");
            return ExitCode::from(USAGE);
        }
    };
    let ending = run(&args);
    // Whoever closed the other end does not want to know.
    let _ = std::io::stdout().lock().write_all(ending.text.as_bytes());
    ExitCode::from(ending.code)
}

fn run(args: &Args) -> Ending {
    let output = args.output;
    match &args.command {
        Command::Help => return Ending { code: commands::DONE, text: HELP.to_owned() },
        Command::Version => {
            return Ending {
                code: commands::DONE,
                text: concat!("kilnd ", env!("CARGO_PKG_VERSION"), "\n").to_owned(),
            };
        }
        Command::ConfigCheck { file } => return commands::config_check(file, output),
        _ => {}
    }
    let node = match Node::open(&args.places) {
        Ok(node) => node,
        Err(error) => {
            eprintln!("kilnd: {}", kilnd::journal::chain(&error).join(": "));
            return Ending { code: commands::FAILED, text: String::new() };
        }
    };
    match &args.command {
        Command::Apply { config, force } => commands::apply(&node, config, *force, output),
        Command::Plan { config } => commands::plan(&node, config, output),
        Command::Boot => commands::boot(&node, output),
        Command::Rollback { to } => commands::rollback(&node, *to, output),
        Command::Status => commands::status(&node, output),
        Command::Identity => kilnd::identity::run(&node, output),
        Command::Inspect => kilnd::inspect::run(&node, output),
        Command::Seal { yes, check } => kilnd::seal::run(&node, *yes, *check, output),
        Command::Watch => match kilnd::watch::run(&node) {
            Ok(()) => Ending { code: commands::DONE, text: String::new() },
            Err(error) => {
                eprintln!("kilnd: signals cannot be listened to: {error}");
                Ending { code: commands::FAILED, text: String::new() }
            }
        },
        other => {
            eprintln!("kilnd: {other:?} is not in this build");
            Ending { code: commands::FAILED, text: String::new() }
        }
    }
}
