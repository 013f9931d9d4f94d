//! `kiln demo`: the prototype operation in a simulated environment, in a minute.

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
      Ten nodes in an embedded Azure; the best one becomes the image of new nodes. Takes about a minute.
  kiln demo --speed instant --output json
      The same without waiting, as JSON.

Azure, cluster and nodes are simulated in this process: nothing is contacted, and only the report is written.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Speed, as a multiple of the normal one, or `instant`
    #[arg(long, value_name = "TIMES|instant", default_value = "1", value_parser = pace)]
    speed: Pace,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// File for the HTML report
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
        _ => Err("expected `instant` or a number from 0.01 to 1000".to_owned()),
    }
}

pub(crate) fn run(arguments: &Demo, now: Timestamp) -> Result<(), Failure> {
    handle_signals()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Simulated time passes as fast as the work is done; only the output is slowed down.
        .start_paused(true)
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let outcome = runtime.block_on(story::tell(now, arguments.speed))?;
    std::fs::write(&arguments.report, page::html(&outcome)).map_err(|error| Failure::file(&arguments.report, error))?;
    match arguments.output {
        Output::Table => report::table(&outcome)?,
        Output::Json => report::json(&outcome)?,
    }
    eprintln!("\nThe report is in {}.", arguments.report.display());
    Ok(())
}

/// Handles signals in a separate thread, because the output sleeps in the working one.
fn handle_signals() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let stop = {
        let _inside = runtime.enter();
        Stop::new()?
    };
    std::thread::spawn(move || {
        runtime.block_on(stop.received());
        eprintln!("error: stopped; nothing was left behind");
        std::process::exit(130);
    });
    Ok(())
}
