//! `kiln demo`: a prototype run in a simulated Azure, or with `--fleet` two rollouts over forty nodes, in about a minute.
//!
//! [`story`] runs the operation in a simulated [`world`] and collects an [`outcome`]. [`narrator`] prints progress at a readable speed;
//! [`report`] prints the result, and [`page`] renders it as HTML. [`fleet`] has the same parts for rollouts.

mod fleet;
mod narrator;
mod outcome;
mod page;
mod report;
mod story;
mod world;

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use crate::answer;
use crate::failure::Failure;
use crate::stop::Stop;
use narrator::Pace;

const EXAMPLES: &str = "Examples:
  kiln demo
      A pool of ten nodes: one of them becomes the image of new nodes, and a bad image is caught by its canary.
  kiln demo --speed instant --output json
      The same without delays, for programs.
  kiln demo --fleet
      A pool of forty nodes: a good change reaches all of them in waves, and a bad one stops after one node and is reverted.

Azure, the cluster and the nodes are simulated in this process, with a simulated clock. The demo contacts no other system
and leaves nothing behind except the report.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Show rollouts over forty nodes instead of a prototype run
    #[arg(long)]
    fleet: bool,
    /// Playback speed: a factor from 0.01 to 1000, or `instant`
    #[arg(long, value_name = "FACTOR|instant", default_value = "1", value_parser = pace)]
    speed: Pace,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    output: answer::Output,
    /// File for the HTML report with charts
    #[arg(short, long, value_name = "FILE", default_value = "kiln-demo.html")]
    out: PathBuf,
}

fn pace(text: &str) -> Result<Pace, String> {
    if text == "instant" {
        return Ok(Pace::Instant);
    }
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && (0.01..=1_000.0).contains(&times) => Ok(Pace::Times(times)),
        _ => Err("expected a number from 0.01 to 1000, or `instant`".to_owned()),
    }
}

pub(crate) fn run(arguments: &Demo, now: Timestamp) -> Result<(), Failure> {
    exit_on_signal()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Simulated hours pass as fast as the work is done. The narrator slows down what the user sees.
        .start_paused(true)
        .build()
        .map_err(|error| Failure::failed(format_args!("cannot start the async runtime: {error}")))?;
    if arguments.fleet {
        let outcome = runtime.block_on(fleet::play(now, arguments.speed))?;
        let page = fleet::page(&outcome);
        std::fs::write(&arguments.out, page).map_err(|error| Failure::file(&arguments.out, error))?;
        answer::either(arguments.output, &outcome, fleet::text)?;
        eprintln!("\nwrote the report to {}", arguments.out.display());
        return Ok(());
    }
    let outcome = runtime.block_on(story::play(now, arguments.speed))?;
    std::fs::write(&arguments.out, page::html(&outcome)).map_err(|error| Failure::file(&arguments.out, error))?;
    answer::either(arguments.output, &outcome, report::text)?;
    eprintln!("\nwrote the report to {}", arguments.out.display());
    Ok(())
}

/// The narrator sleeps in the main thread, so a second thread waits for signals.
fn exit_on_signal() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format_args!("cannot start the async runtime: {error}")))?;
    let stop = {
        let _inside = runtime.enter();
        Stop::new()?
    };
    std::thread::spawn(move || {
        runtime.block_on(stop.received());
        eprintln!("error: interrupted; nothing was left behind");
        std::process::exit(130);
    });
    Ok(())
}
