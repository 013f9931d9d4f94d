//! What a canary that did not become Ready says about its version.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_types::{SmokeTest, VersionNumber};

use crate::observed::CanaryView;

/// A kubelet needs about ten seconds from its registration until its node is Ready, and a CNI plugin that has to be pulled a few minutes
/// more. A node that registered later than this before the timeout has not had its chance yet.
const SETTLES_WITHIN: Duration = Duration::from_mins(5);

/// The verdict on the version of a canary that is not Ready when its time is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The version is rejected, for this reason.
    Rejected(String),
    /// The canary says nothing about the version, for this reason. A later run tests it again.
    NotProven(String),
}

/// Judges the version of a canary that is not Ready when its time is up.
///
/// A rejection is for good: no node gets the version, and no donor with the same patches is used again. It therefore needs evidence
/// against the version itself, namely that its machine was seen booting *and* failing. The evidence is a registered Node that is not
/// Ready: the disk boots, its kubelet starts, and the network carries it to the API server, so that what is left to fail came with the
/// version. A VM agent that reports shows only that the disk boots. The agent talks to the host, which works without any route out of the
/// subnet, so a machine that never registers may just as well lack outbound access, a firewall rule or an API server. Missing capacity
/// and quota, a failed creation and a machine that was never seen booting are no evidence at all.
pub(crate) fn judge(canary: &CanaryView, version: &VersionNumber, timeout: Duration, now: Timestamp) -> Verdict {
    let minutes = timeout.as_secs() / 60;
    let pending = &canary.pending;
    let unproven = |reason: fmt::Arguments<'_>| Verdict::NotProven(not_proven(version, reason));
    if let Some(SmokeTest::Running(reason)) = &canary.smoke_test {
        // Its image may not be available, or the test may be slow: neither is a fault of the version.
        return unproven(format_args!("its smoke test did not end within {minutes} min ({reason})"));
    }
    match canary.registered {
        Some(_) if canary.ready => Verdict::Rejected(format!(
            "the canary did not stay Ready: after {minutes} min it has been Ready for {} s",
            canary.ready_for.as_secs()
        )),
        Some(since) if now.duration_since(since) >= settles_within() => {
            Verdict::Rejected(format!("the canary is not Ready: {pending}, for {minutes} min now"))
        }
        Some(_) => unproven(format_args!("its canary registered too late to be judged ({pending})")),
        None if canary.booted => unproven(format_args!(
            "its canary booted and did not reach the API server within {minutes} min ({pending}); check the outbound access of new \
             machines"
        )),
        None => unproven(format_args!("its canary was not seen booting within {minutes} min ({pending})")),
    }
}

/// The message for a version that a canary says nothing about.
pub(crate) fn not_proven(version: &VersionNumber, reason: impl fmt::Display) -> String {
    format!("version {version} is not proven: {reason}")
}

fn settles_within() -> SignedDuration {
    SignedDuration::try_from(SETTLES_WITHIN).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::image::CANARY_TIMEOUT;
    use crate::sample::number;

    fn verdict(booted: bool, registered_minutes_ago: Option<i64>) -> Verdict {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let registered = registered_minutes_ago.map(|minutes| now - SignedDuration::from_mins(minutes));
        let canary = CanaryView { booted, registered, pending: "node `c`: x".to_owned(), ..CanaryView::default() };
        judge(&canary, &number("2026.11.15"), CANARY_TIMEOUT, now)
    }

    #[test]
    fn registered_node_that_stays_not_ready_is_evidence_against_its_version() {
        for booted in [true, false] {
            let Verdict::Rejected(reason) = verdict(booted, Some(5)) else { panic!("not rejected") };
            assert_eq!(reason, "the canary is not Ready: node `c`: x, for 20 min now");
        }
    }

    #[test]
    fn canary_that_did_not_register_or_only_just_now_is_no_evidence() {
        for (booted, registered, words) in [
            (false, None, "was not seen booting"),
            (true, None, "did not reach the API server"),
            (true, Some(4), "too late to be judged"),
        ] {
            let Verdict::NotProven(reason) = verdict(booted, registered) else { panic!("{words}: rejected") };
            assert!(reason.starts_with("version 2026.11.15 is not proven: ") && reason.contains(words), "{reason}");
        }
    }
}
