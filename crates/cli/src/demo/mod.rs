//! `kiln demo`: what kiln is for, on one machine and in seconds.

mod azure;
mod report;
mod story;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kiln_sim::Speed;

use crate::failure::Failure;
use crate::stop::Stop;

const EXAMPLES: &str = "Examples:
  kiln demo
      Ten nodes in an embedded Azure; one of them becomes the image of the next. About fifteen seconds to watch.
  kiln demo --speed instant --output json
      The same without waiting, for programs.

Nothing outside this machine is contacted, and nothing is left behind, also after Ctrl-C.";

/// Azure's two hours of image work become about ten seconds.
const WATCHABLE: f64 = 700.0;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// World seconds per second, or `instant`
    #[arg(long, value_name = "FACTOR|instant", default_value_t = Pace(Speed::Factor(WATCHABLE)))]
    speed: Pace,
    /// How to print what came of it
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// A speed that prints as it is written.
#[derive(Debug, Clone, Copy)]
struct Pace(Speed);

impl std::str::FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl std::fmt::Display for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Speed::Factor(factor) => write!(f, "{factor}"),
            Speed::Instant => f.write_str("instant"),
        }
    }
}

pub(crate) fn run(arguments: &Demo, now: Timestamp) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        // Before the first file is made: a signal in between would leave it.
        let stop = Stop::new()?;
        tokio::select! {
            outcome = tell(arguments, now) => outcome,
            () = stop.received() => Err(Failure::new(130, "stopped; nothing is left behind")),
        }
    });
    // The embedded Azure ends with the runtime: no connection is worth waiting for.
    runtime.shutdown_background();
    outcome
}

async fn tell(arguments: &Demo, now: Timestamp) -> Result<(), Failure> {
    let azure = azure::Embedded::start(arguments.speed.0, now).await?;
    let outcome = story::tell(&azure, now).await?;
    match arguments.output {
        Output::Table => report::table(&outcome),
        Output::Json => report::json(&outcome),
    }
}
