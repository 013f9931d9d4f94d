//! Follows a rollout until it ends, and prints what changes at a readable speed.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kiln_fleet_api::{Rollout, RolloutStatus, Verdict};
use kiln_kubernetes::Fleet;
use tokio::time::{Instant, sleep};

use super::super::narrator::Pace;
use super::super::report::duration;
use super::super::world::World;
use super::{Ended, Wave};
use crate::failure::Failure;

/// Simulated seconds per second.
const RATE: f64 = 60.0;
/// Interval of reads of the rollout.
const TURN: Duration = Duration::from_secs(5);
/// Turns until a rollout that does not end is an error: a simulated day.
const MAX_TURNS: u32 = 17_280;

pub(super) async fn follow(world: &World, fleet: &Fleet, name: &str, pace: Pace) -> Result<Ended, Failure> {
    let (started, at) = (Instant::now(), world.now());
    let mut known = BTreeSet::new();
    for _ in 0..MAX_TURNS {
        let rollout = fleet.get::<Rollout>(name).await.map_err(Failure::failed)?;
        let status = rollout.and_then(|rollout| rollout.status).unwrap_or_default();
        for line in lines(&status) {
            if known.insert(line.clone()) {
                eprintln!("{:>9}   {line}", duration(started.elapsed().as_secs_f64()));
            }
        }
        if status.phase.is_final() {
            return Ok(ended(name, &status, at, started.elapsed()));
        }
        sleep(TURN).await;
        if let Pace::Times(times) = pace {
            // The whole program sleeps, so the simulated clock stops.
            std::thread::sleep(TURN.div_f64(RATE * times));
        }
    }
    Err(Failure::failed(format_args!("rollout `{name}` did not end")))
}

/// The course of a rollout, without the turns of single nodes.
fn lines(status: &RolloutStatus) -> Vec<String> {
    let mut lines = Vec::new();
    let count = status.waves.len();
    for (at, wave) in status.waves.iter().enumerate() {
        let number = at + 1;
        match wave.verdict {
            Verdict::Waiting => {}
            Verdict::Running => lines.push(format!("wave {number} of {count}: {}", nodes(wave.size))),
            Verdict::Soaking => lines.push(format!("wave {number} of {count}: updated and watched")),
            Verdict::Passed => lines.push(format!("wave {number} of {count}: passed")),
            Verdict::Failed => lines.push(format!("wave {number} of {count}: failed")),
        }
    }
    lines.extend(status.failures.iter().map(|failure| format!("{} failed: {}", failure.node, failure.reason)));
    if status.phase.is_final() || status.failed > 0 {
        lines.push(format!("{}: {} of {} nodes updated", status.phase.as_str(), status.updated, status.total));
    }
    lines
}

/// A number of nodes.
pub(super) fn nodes(count: i64) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

fn ended(name: &str, status: &RolloutStatus, begin: Timestamp, took: Duration) -> Ended {
    let seconds = |text: &Option<String>| {
        let at = text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
        at.map_or(0.0, |at| at.duration_since(begin).as_secs_f64().max(0.0))
    };
    let started = status.waves.iter().filter(|wave| wave.started_at.is_some());
    let waves = started.map(|wave| Wave {
        size: wave.size,
        done: wave.done,
        failed: wave.failed,
        from: seconds(&wave.started_at),
        to: if wave.done_at.is_some() { seconds(&wave.done_at) } else { took.as_secs_f64() },
    });
    Ended {
        name: name.to_owned(),
        phase: status.phase,
        updated: status.updated,
        failed: status.failed,
        seconds: took.as_secs_f64(),
        waves: waves.collect(),
        failures: status.failures.clone(),
        touched: 0,
    }
}
