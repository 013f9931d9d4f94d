//! kilnd: the node's daemon.

use std::io::Write as _;
use std::process::ExitCode;

use kilnd::args::{Args, Command, HELP};
use kilnd::commands::{self, CommandResult};
use kilnd::node::Node;

/// kilnd runs for milliseconds, and musl's allocator would take half of that time.
#[cfg(target_env = "musl")]
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Exit code for an invalid command line.
const USAGE: u8 = 2;

/// The caller may have a stricter umask. Private files are created with a restrictive mode anyway. Public folders must be public from the
/// start: if kilnd were killed before it sets their mode, they would stay inaccessible.
const UMASK: rustix::fs::Mode = rustix::fs::Mode::from_raw_mode(0o022);

fn main() -> ExitCode {
    rustix::process::umask(UMASK);
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(usage) => {
            eprintln!("error: {usage}\nhint: run `kilnd help`");
            return ExitCode::from(USAGE);
        }
    };
    let result = run(&args);
    // A closed pipe is not an error.
    let _ = std::io::stdout().lock().write_all(result.text.as_bytes());
    ExitCode::from(result.code)
}

fn run(args: &Args) -> CommandResult {
    let output = args.output;
    let done = |text: &str| CommandResult { code: commands::DONE, text: text.to_owned() };
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
        Command::Freeze { run, ready_port } => {
            on(args, |node| commands::freeze::freeze(node, run, *ready_port, output))
        }
        Command::Thaw { run } => on(args, |node| commands::freeze::thaw(node, run, output)),
        Command::Enable(options) => on(args, |node| commands::enable::run(node, *options, output)),
        Command::Disable(options) => on(args, |node| commands::disable::run(node, *options, output)),
        Command::CheckImage => on(args, |node| commands::check_image::run(node, output)),
        Command::Support { out } => on(args, |node| commands::support::run(node, out, output)),
        Command::Install => on(args, |node| commands::install::run(node, output)),
        Command::Seal { yes, check } => on(args, |node| commands::seal::run(node, *yes, *check, output)),
        Command::Watch => on(args, |node| match kilnd::watch::run(node) {
            Ok(()) => done(""),
            Err(error) => failed(&format!("cannot listen for signals: {error}")),
        }),
    }
}

fn on(args: &Args, command: impl FnOnce(&Node) -> CommandResult) -> CommandResult {
    match Node::open(&args.locations) {
        Ok(node) => command(&node),
        Err(error) => failed(&kilnd::log::error_line(&error)),
    }
}

fn failed(message: &str) -> CommandResult {
    eprintln!("error: {message}");
    CommandResult { code: commands::FAILED, text: String::new() }
}
