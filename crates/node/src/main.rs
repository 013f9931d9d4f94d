//! kilnd: the node's daemon.

use std::process::ExitCode;

use kilnd::args::{Args, Command, HELP};

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(usage) => {
            eprintln!("kilnd: {usage}\n`kilnd help` shows what there is");
            return ExitCode::from(2);
        }
    };
    match args.command {
        Command::Help => print!("{HELP}"),
        Command::Version => println!(concat!("kilnd ", env!("CARGO_PKG_VERSION"))),
        other => {
            eprintln!("kilnd: {other:?}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
