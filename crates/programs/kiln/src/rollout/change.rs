//! Commands that set a field of a Rollout: `pause`, `resume`, `approve` and `abort`.

use jiff::SignedDuration;
use kiln_fleet_api::{Rollout, RolloutStatus, Verdict, WaitReason};
use serde_json::{Value, json};

use super::Approve;
use crate::failure::Failure;
use crate::fleet::objects::{existing, status};
use crate::fleet::{CHANGED_BY, Session, failure, time};

/// Reads a rollout that has not ended.
async fn open(session: &Session, name: &str) -> Result<Rollout, Failure> {
    let rollout: Rollout = existing(session, name).await?;
    let phase = status(&rollout).phase;
    if phase.is_final() {
        let message = format!("rollout `{name}` has ended: it is {}", phase.as_str());
        return Err(
            Failure::failed(message).hint(format_args!("`kiln rollout status {name}` shows what is possible now"))
        );
    }
    Ok(rollout)
}

/// Sets fields of the spec, with the name of the command.
pub(super) async fn set(session: &Session, name: &str, command: &str, spec: Value) -> Result<Rollout, Failure> {
    let patch = json!({"metadata": {"annotations": {CHANGED_BY: session.changed_by(command)}}, "spec": spec});
    session.fleet.patch(name, &patch).await.map_err(failure)
}

fn print(session: &Session, name: &str, changed: bool, text: &str) -> Result<(), Failure> {
    session.print(&json!({"rollout": name, "changed": changed, "message": text}), |_| format!("{text}\n"))
}

/// The nodes that still end their turn.
fn finishing(status: &RolloutStatus) -> String {
    match status.in_flight.len() {
        0 => "no node is in flight".to_owned(),
        1 => format!("the node in flight is finished: {}", status.in_flight[0]),
        count => format!("{count} nodes in flight are finished"),
    }
}

pub(super) async fn pause(session: &Session, name: &str) -> Result<(), Failure> {
    let rollout = open(session, name).await?;
    if rollout.spec.paused {
        return print(session, name, false, &format!("{name} was already paused"));
    }
    set(session, name, "pause", json!({"paused": true})).await?;
    let text = format!("{name} is paused; {}; `kiln rollout resume {name}` continues it", finishing(&status(&rollout)));
    print(session, name, true, &text)
}

pub(super) async fn resume(session: &Session, name: &str) -> Result<(), Failure> {
    let rollout = open(session, name).await?;
    if !rollout.spec.paused {
        let waiting =
            status(&rollout).waiting_for.map_or(String::new(), |waiting| format!("; it waits: {}", waiting.message));
        return print(session, name, false, &format!("{name} was not paused{waiting}"));
    }
    set(session, name, "resume", json!({"paused": false})).await?;
    print(session, name, true, &format!("{name} continues; `kiln rollout status {name} --watch` follows it"))
}

pub(super) async fn abort(session: &Session, name: &str) -> Result<(), Failure> {
    let rollout = open(session, name).await?;
    if rollout.spec.aborted {
        return print(session, name, false, &format!("{name} was already aborted"));
    }
    set(session, name, "abort", json!({"aborted": true})).await?;
    let text = format!(
        "{name} is aborted; {}; updated nodes stay updated: `kiln rollout undo {name}` returns them",
        finishing(&status(&rollout))
    );
    print(session, name, true, &text)
}

pub(super) async fn approve(session: &Session, verb: &Approve) -> Result<(), Failure> {
    let name = &verb.name;
    let rollout = open(session, name).await?;
    let status = status(&rollout);
    let wave = wave(name, verb.wave, &status)?;
    let until = match verb.valid_for {
        Some(span) => {
            let span = SignedDuration::try_from(std::time::Duration::from(span)).map_err(Failure::input)?;
            Some(time(session.now().checked_add(span).map_err(Failure::input)?))
        }
        None => None,
    };
    set(session, name, "approve", json!({"approvedWave": wave, "approvedUntil": until})).await?;
    let limit = until.map_or(String::new(), |until| format!(", if it starts before {until}"));
    let waits = status.waiting_for.is_some_and(|waiting| waiting.reason == WaitReason::Approval);
    let later = if waits { "" } else { "; the rollout did not wait for an approval now" };
    print(session, name, true, &format!("{name}: waves up to {wave} of {} may start{limit}{later}", status.waves.len()))
}

/// The wave to approve: the given one, or the first that has not started.
fn wave(name: &str, given: Option<u32>, status: &RolloutStatus) -> Result<u32, Failure> {
    let count = u32::try_from(status.waves.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return Err(Failure::failed(format_args!("rollout `{name}` has no waves yet"))
            .hint("the operator plans them; try again when `kiln rollout status` shows them"));
    }
    let next = status.waves.iter().position(|wave| wave.verdict == Verdict::Waiting);
    match (given, next) {
        (Some(given), _) if given > count => {
            Err(Failure::input(format_args!("wave {given} does not exist; rollout `{name}` has {count} waves")))
        }
        (Some(given), _) => Ok(given),
        (None, Some(next)) => Ok(u32::try_from(next + 1).unwrap_or(u32::MAX)),
        (None, None) => Err(Failure::failed(format_args!("all {count} waves of rollout `{name}` have started"))),
    }
}

#[cfg(test)]
mod tests {
    use kiln_fleet_api::WaveStatus;

    use super::*;

    fn waves(verdicts: &[Verdict]) -> RolloutStatus {
        let waves = verdicts.iter().map(|verdict| WaveStatus { verdict: *verdict, ..WaveStatus::default() });
        RolloutStatus { waves: waves.collect(), ..RolloutStatus::default() }
    }

    #[test]
    fn next_wave_is_approved_unless_another_is_named() {
        let status = waves(&[Verdict::Passed, Verdict::Soaking, Verdict::Waiting, Verdict::Waiting]);
        assert_eq!(wave("r", None, &status).ok(), Some(3));
        assert_eq!(wave("r", Some(4), &status).ok(), Some(4));
        assert!(wave("r", Some(5), &status).is_err());
        assert!(wave("r", None, &waves(&[Verdict::Running])).is_err());
        assert!(wave("r", None, &waves(&[])).is_err());
    }
}
