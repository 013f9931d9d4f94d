//! `cargo xtask bench fleet`: one rollout over fleets of different size.

mod fleet;
mod operator;
mod report;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fleet_bench::kilnd::Kilnd;
use jiff::Timestamp;
use kiln_fleet_api::Rollout;

use crate::fleet::Fleet;
use crate::operator::{Operator, Usage};
use crate::report::{Cost, Figures};

/// The smallest and the largest size are compared.
const SIZES: [usize; 3] = [500, 1_500, 5_000];
/// A real node needs longer to restart its kubelet and to be Ready, so the operator has less to do per second than here.
const KILND: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let sizes: Result<Vec<usize>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let sizes = match sizes {
        Ok(sizes) if sizes.is_empty() => SIZES.to_vec(),
        Ok(sizes) => sizes,
        Err(error) => {
            eprintln!("error: {error}\nUsage: fleet-bench [NODES...]");
            return ExitCode::from(2);
        }
    };
    match measure_all(&sizes).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures all sizes and returns whether the figures are within their limits.
async fn measure_all(sizes: &[usize]) -> Result<bool, Box<dyn Error>> {
    let kiln = std::env::current_exe()?.with_file_name("kiln");
    let mut all = Vec::new();
    for &size in sizes {
        eprintln!("{size} nodes");
        let figures = measure(&kiln, size).await?;
        eprintln!("{figures:?}");
        all.push(figures);
    }
    println!("{}", report::table(&all));
    let (text, over) = report::verdict(&all);
    println!("{text}");
    for line in &over {
        eprintln!("error: {line}");
    }
    Ok(over.is_empty())
}

/// Measures one size.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
async fn measure(kiln: &Path, size: usize) -> Result<Figures, Box<dyn Error>> {
    let fleet = Fleet::start(size).await?;
    let _kilnd = Kilnd::with_delay(fleet.client.clone(), KILND);
    let mut operator = Operator::start(kiln, &fleet.plane, &fleet.client).await?;
    let idle = operator.usage().await?;
    fleet.create_pools().await?;
    fleet.until_reported().await?;
    let joined = operator.usage().await?;
    let began = Instant::now();
    let rollout = fleet.roll_out().await?;
    let seconds = began.elapsed().as_secs_f64();
    let done = operator.usage().await?;
    operator.stop()?;
    Ok(Figures {
        nodes: size,
        peak_bytes: done.peak_bytes,
        start: between(idle, joined),
        rollout: between(joined, done),
        seconds,
        wave_seconds: wave_seconds(&rollout),
    })
}

fn between(before: Usage, after: Usage) -> Cost {
    Cost { cpu_seconds: after.cpu_seconds - before.cpu_seconds, requests: after.requests - before.requests }
}

/// How long each wave took, from the times in the status.
fn wave_seconds(rollout: &Rollout) -> Vec<f64> {
    let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let waves = rollout.status.iter().flat_map(|status| &status.waves);
    waves.filter_map(|wave| Some(time(&wave.done_at)?.duration_since(time(&wave.started_at)?).as_secs_f64())).collect()
}
