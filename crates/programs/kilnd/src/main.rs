//! kilnd: the node's daemon.

use std::io::Write as _;
use std::process::ExitCode;

use kilnd::args::{Args, Command, HELP};
use kilnd::commands::{self, Ending};
use kilnd::node::Node;

/// A program that lives for milliseconds spends half of them in musl's allocator, which is made for safety and small memory.
#[cfg(target_env = "musl")]
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// The command line cannot be understood.
const USAGE: u8 = 2;

/// Whatever runs us may have a stricter one. Files that are not for all are made with a mode that says so; folders for all must be that
/// from their first moment, or a kill before their mode is set leaves them shut for good.
const UMASK: rustix::fs::Mode = rustix::fs::Mode::from_raw_mode(0o022);

fn main() -> ExitCode {
    rustix::process::umask(UMASK);
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
    let done = |text: &str| Ending { code: commands::DONE, text: text.to_owned() };
    match &args.command {
        Command::Help => done(HELP),
        Command::Version => done(concat!("kilnd ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::ConfigCheck { file } => commands::config_check(file, output),
        Command::Apply { config, force } => on(args, |node| commands::apply(node, config, *force, output)),
        Command::Plan { config } => on(args, |node| commands::plan(node, config, output)),
        Command::Boot => on(args, |node| commands::boot(node, output)),
        Command::Rollback { to } => on(args, |node| commands::rollback(node, *to, output)),
        Command::Status => on(args, |node| commands::status(node, output)),
        Command::Identity => on(args, |node| kilnd::identity::run(node, output)),
        Command::Inspect { key } => on(args, |node| commands::inspect::run(node, key.as_deref(), output)),
        Command::Install => on(args, |node| commands::install::run(node, output)),
        Command::Seal { yes, check } => on(args, |node| commands::seal::run(node, *yes, *check, output)),
        Command::Watch => on(args, |node| match kilnd::watch::run(node) {
            Ok(()) => done(""),
            Err(error) => failed(&format!("signals cannot be listened to: {error}")),
        }),
    }
}

fn on(args: &Args, command: impl FnOnce(&Node) -> Ending) -> Ending {
    match Node::open(&args.places) {
        Ok(node) => command(&node),
        Err(error) => failed(&kilnd::log::chain(&error).join(": ")),
    }
}

fn failed(why: &str) -> Ending {
    eprintln!("kilnd: {why}");
    Ending { code: commands::FAILED, text: String::new() }
}
