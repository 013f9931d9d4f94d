//! Trials in virtual time, checked every two seconds as by `kilnd watch`.

use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const WITHIN: Duration = Duration::from_mins(2);

fn limits(seed: u64) -> Limits {
    Limits::new(WITHIN, Duration::ZERO, seed, "hash")
}

fn result(node: GateResult) -> Checked {
    let gates = vec![("kubelet".to_owned(), GateResult::Passed), ("node".to_owned(), node)];
    Checked { gates, kubelet: None, can_revert: true }
}

fn failed() -> Checked {
    result(GateResult::Failed("not ready".to_owned()))
}

fn unknown() -> Checked {
    result(GateResult::Unknown("no route".to_owned()))
}

/// Runs a trial until it ends, at most until `until`. Returns the end and its time.
fn run(limits: Limits, until: Duration, check: impl Fn(Duration) -> Checked) -> (TrialProgress, Duration) {
    let (mut progress, mut now) = (Progress::new(Duration::ZERO), Duration::ZERO);
    while now <= until {
        match progress.evaluate(now, limits, &check(now), false) {
            TrialProgress::Running => now += SECOND * 2,
            done => return (done, now),
        }
    }
    (TrialProgress::Running, now)
}

#[test]
fn trial_passes_when_all_gates_pass_without_interruption() {
    let (done, at) =
        run(limits(3), WITHIN, |now| if now == SECOND * 8 { failed() } else { result(GateResult::Passed) });
    assert_eq!((done, at), (TrialProgress::Passed, SECOND * 10 + STEADY), "the interruption counts");
}

#[test]
fn failed_gate_ends_the_trial_at_its_time_limit() {
    let (done, at) = run(limits(3), WITHIN * 2, |_| failed());
    let TrialProgress::Failed(reason) = done else { panic!("not failed") };
    assert!(at >= WITHIN && at <= WITHIN * 5 / 4 + SECOND * 2, "{at:?}");
    assert!(reason.contains("node: not ready"), "{reason}");
}

#[test]
fn outage_of_an_hour_reverts_nothing() {
    let hour = Duration::from_hours(1);
    for begin in [0, 4, 60, 100] {
        let check = |now: Duration| match now.checked_sub(SECOND * begin) {
            None => failed(),
            Some(outage) if outage < hour => unknown(),
            // The node controller has marked the node NotReady, and the kubelet needs a while.
            Some(outage) if outage < hour + SECOND * 100 => failed(),
            Some(_) => result(GateResult::Passed),
        };
        let (done, at) = run(limits(3), hour * 3, check);
        assert_eq!(done, TrialProgress::Passed, "{begin}");
        assert!(at < hour + WITHIN + SECOND * 160, "{begin}: {at:?}");
    }
}

#[test]
fn node_that_its_document_cut_off_returns_by_itself() {
    let (done, at) = run(limits(3), Duration::from_hours(24), |_| unknown());
    assert!(matches!(done, TrialProgress::Failed(reason) if reason.contains("no route")));
    assert!(at >= LONGEST_OUTAGE, "{at:?}");
}

#[test]
fn unreachable_api_server_counts_as_a_failure_of_a_first_generation() {
    let (done, at) = run(limits(3), WITHIN * 2, |_| Checked { can_revert: false, ..unknown() });
    assert!(matches!(done, TrialProgress::Failed(_)) && at < WITHIN * 2, "{at:?}");
}

#[test]
fn local_failure_counts_during_an_outage() {
    let check = |_| Checked {
        gates: vec![
            ("kubelet".to_owned(), GateResult::Failed("500".to_owned())),
            ("node".to_owned(), GateResult::Unknown("no route".to_owned())),
        ],
        kubelet: None,
        can_revert: true,
    };
    let (done, at) = run(limits(3), WITHIN * 2, check);
    assert!(matches!(done, TrialProgress::Failed(reason) if reason.contains("500")) && at < WITHIN * 2);
}

/// A kubelet that lives this long and is healthy two seconds after each start.
fn crashing(life: Duration, now: Duration) -> Checked {
    let period = life + SECOND * 2;
    let restarts = now.as_secs() / period.as_secs();
    let started = restarts * period.as_secs() * 1_000_000;
    let run = KubeletRun { restarts: u32::try_from(restarts).expect("few"), started };
    let healthy = now.as_secs() % period.as_secs() >= 2;
    let node = if healthy { GateResult::Passed } else { GateResult::Failed("connection refused".to_owned()) };
    Checked { kubelet: Some(run), ..result(node) }
}

#[test]
fn crashing_kubelet_is_never_confirmed() {
    for life in [6, 12, 20, 28] {
        let (done, at) = run(limits(3), WITHIN * 3, |now| crashing(SECOND * life, now));
        let TrialProgress::Failed(reason) = done else { panic!("{life} s: {done:?} at {at:?}") };
        assert!(reason.contains("systemd restarted the kubelet"), "{reason}");
    }
}

#[test]
fn kubelet_that_crashes_once_is_confirmed_later() {
    let check = |now: Duration| {
        let restarts = u32::from(now >= SECOND * 10);
        let started = u64::from(restarts) * 10_000_000;
        Checked { kubelet: Some(KubeletRun { restarts, started }), ..result(GateResult::Passed) }
    };
    assert_eq!(run(limits(3), WITHIN * 2, check), (TrialProgress::Passed, SECOND * 10 + STEADY_AFTER_RESTART));
}

#[test]
fn restart_by_a_person_only_interrupts() {
    let check = |now: Duration| {
        let started = if now < SECOND * 10 { 1 } else { 10_000_000 };
        Checked { kubelet: Some(KubeletRun { restarts: 0, started }), ..result(GateResult::Passed) }
    };
    assert_eq!(run(limits(3), WITHIN * 2, check), (TrialProgress::Passed, SECOND * 10 + STEADY));
}

#[test]
fn reverts_of_a_fleet_are_spread() {
    let spread = Duration::from_mins(10);
    let times = |check: fn() -> Checked, spread| -> Vec<u64> {
        let end = |seed| run(Limits::new(WITHIN, spread, seed, "hash"), Duration::from_hours(24), |_| check()).1;
        (0..200).map(|seed| end(seed).as_secs()).collect()
    };
    let busiest = |times: &[u64], window: u64| {
        times.iter().map(|at| times.iter().filter(|other| (*at..at + window).contains(other)).count()).max()
    };
    let seen = times(failed, spread);
    assert!(busiest(&seen, 60) < Some(60), "{:?} of 200 nodes within a minute of a window of ten", busiest(&seen, 60));
    let seen = times(failed, Duration::ZERO);
    assert!(busiest(&seen, 2) < Some(60), "{:?} of 200 nodes at once without a window", busiest(&seen, 2));
    let seen = times(unknown, Duration::ZERO);
    assert!(busiest(&seen, 60) < Some(20), "{:?} of 200 nodes within a minute", busiest(&seen, 60));
}
