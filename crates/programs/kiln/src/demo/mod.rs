//! `kiln demo`: what kiln is for, on one machine and in a minute.

mod outcome;
mod page;
mod report;
mod story;
mod teller;
mod world;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::stop::Stop;
use teller::Pace;

const EXAMPLES: &str = "Examples:
  kiln demo
      Ten nodes in an embedded Azure; the best of them becomes the image of the next. About a minute to watch.
  kiln demo --speed instant --output json
      The same without waiting, for programs.

Azure, cluster and nodes live in this process and on its own clock: nothing is contacted, and nothing is left but the report.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// How many times as fast as it is meant to be watched, or `instant`
    #[arg(long, value_name = "TIMES|instant", default_value = "1", value_parser = pace)]
    speed: Pace,
    /// How to print what came of it
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Where the report with its pictures goes
    #[arg(long, value_name = "FILE", default_value = "kiln-demo.html")]
    report: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

fn pace(text: &str) -> Result<Pace, String> {
    if text == "instant" {
        return Ok(Pace::Instant);
    }
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && (0.01..=1_000.0).contains(&times) => Ok(Pace::Times(times)),
        _ => Err("neither `instant` nor a number from 0.01 to 1000".to_owned()),
    }
}

pub(crate) fn run(arguments: &Demo, now: Timestamp) -> Result<(), Failure> {
    watch_for_a_stop()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // The world's hours pass as fast as they are worked off; what people see is slowed down by the teller.
        .start_paused(true)
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let outcome = runtime.block_on(story::tell(now, arguments.speed))?;
    std::fs::write(&arguments.report, page::html(&outcome)).map_err(|error| Failure::file(&arguments.report, error))?;
    match arguments.output {
        Output::Table => report::table(&outcome)?,
        Output::Json => report::json(&outcome)?,
    }
    eprintln!("\nThe report with its pictures is in {}.", arguments.report.display());
    Ok(())
}

/// The teller sleeps in the thread that works, so a signal is heard in another.
fn watch_for_a_stop() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let stop = {
        let _inside = runtime.enter();
        Stop::new()?
    };
    std::thread::spawn(move || {
        runtime.block_on(stop.received());
        eprintln!("error: stopped; nothing is left behind");
        std::process::exit(130);
    });
    Ok(())
}
