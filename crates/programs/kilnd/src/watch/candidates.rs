//! Polls for a document, decides what to do with it, and applies it.

use std::time::Duration;

use crate::apiserver::Severity;
use crate::os;
use crate::sources::{Rules, Wait as _};
use kiln_node_config::Effect;
use kiln_node_plan::{Admission, PlanAction, Request};

use super::Watch;
use super::condition::CandidateOutcome;
use super::gates;
use super::schedule::Timing;
use super::trial::TrialStart;
use crate::apply::candidate::Candidate;
use crate::apply::{self, ApplyError, Consent};
use crate::log::error_line;
use crate::provisioning;
use crate::status::Outcome;

/// The source, as the status shows it.
const SOURCE: &str = "user data";
/// Time limit of a request. The loop has other tasks; the next poll tries again.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Watch<'_> {
    /// Polls the source whose document can change while the machine runs. While the cluster assigns a document, that is the NodeState, which
    /// is watched; a requested poll only reads the assigned document again.
    pub(super) fn poll(&mut self, now: Duration) {
        let requested = std::mem::take(&mut self.poll_requested);
        if self.follower.is_assigned() {
            if requested {
                self.follower.read_again(now);
            }
            return;
        }
        let rules = Rules { deadline: TIMEOUT, ..Rules::IMDS };
        let bytes = match self.imds.user_data(rules, &self.node.wait) {
            Ok(bytes) => {
                self.last_poll_error = None;
                bytes
            }
            Err(error) => {
                let error = error_line(&error);
                // Logged once, not at every poll of an outage.
                if self.last_poll_error.as_ref() != Some(&error) {
                    self.node.log.info(&format!("cannot poll for a document: {error}"));
                }
                self.last_poll_error = Some(error);
                return;
            }
        };
        let Some(bytes) = bytes else { return };
        let hash = kiln_node_config::canonical::hash(&bytes);
        if self.last_polled.as_ref() == Some(&hash) && !requested {
            return;
        }
        let is_new = self.last_polled.replace(hash).is_none_or(|before| Some(&before) != self.last_polled.as_ref());
        match Candidate::read(self.node, &bytes, SOURCE) {
            Ok(candidate) => self.assess(now, candidate, requested),
            Err(error) => self.reject(now, is_new, &error_line(&error)),
        }
    }

    /// Rejects a document. The generation in force stays.
    pub(super) fn reject(&mut self, now: Duration, is_new: bool, why: &str) {
        self.drop_waiting();
        self.candidate_outcome = CandidateOutcome::Rejected(why.to_owned());
        if is_new {
            self.announce(Severity::Warning, "KilnRejected", &format!("document rejected: {why}"));
            self.report(Outcome::Failed, Some(why));
        }
        self.schedule.sync_now(now);
    }

    /// Decides about a valid document. `requested` applies it without a delay.
    pub(super) fn assess(&mut self, now: Duration, candidate: Candidate, requested: bool) {
        let number = candidate.config.metadata.generation;
        let (admission, transition) = match apply::plan(self.node, &candidate) {
            Ok(planned) => planned,
            Err(error) => return self.refuse(now, &candidate, &error_line(&error)),
        };
        self.drop_waiting();
        self.candidate_outcome = CandidateOutcome::None;
        self.schedule.sync_now(now);
        match admission {
            Admission::InForce => {}
            Admission::Outranked { by } if by > number && candidate.is_assigned => {
                let why = format!(
                    "generation {by} is in force, and this image requires signed documents, so generation {number} is too old"
                );
                self.refuse(now, &candidate, &why);
            }
            Admission::Outranked { by } if by > number => {
                self.node.log.info(&format!("ignoring generation {number}: generation {by} is in force"));
            }
            Admission::Outranked { .. } => {
                let why = format!("another document with generation {number} is in force; raise `metadata.generation`");
                self.refuse(now, &candidate, &why);
            }
            Admission::Replayed { by } => {
                let why = format!(
                    "generation {number} is older than the signed generation {by}, which this machine has accepted"
                );
                self.refuse(now, &candidate, &why);
            }
            Admission::Rejected { reason } => {
                let why = format!("generation {number} was already rejected ({reason})");
                self.candidate_outcome = CandidateOutcome::Reverted(why);
            }
            Admission::Accept if candidate.is_assigned => {
                if let Some(allowed) = self.admit_assigned(&candidate, &transition.plan) {
                    self.schedule_apply(now, candidate, false, allowed);
                }
            }
            Admission::Accept => {
                let plan = &transition.plan;
                let requests = plan.requests.clone();
                match plan.action() {
                    PlanAction::Paused => {
                        let what = format!(
                            "generation {number} would change {} fields, but `spec.update.paused` is set",
                            plan.changes.len()
                        );
                        self.node.log.info(&what);
                        self.candidate_outcome = CandidateOutcome::Paused(what);
                    }
                    PlanAction::Request if self.is_allowed(&candidate.hash, &requests) => {
                        self.schedule_apply(now, candidate, false, true);
                    }
                    PlanAction::Request => {
                        self.stored.requests.wait_for(&requests, number, &candidate.hash);
                        self.save_requests();
                        let lines = self.stored.requests.lines().join("; ");
                        self.announce(Severity::Normal, "KilnPending", &format!("waiting for the cluster: {lines}"));
                        self.report(Outcome::Requested, None);
                    }
                    PlanAction::Apply | PlanAction::Nothing => {
                        let spread = plan.effect >= Effect::Restart && !requested;
                        self.schedule_apply(now, candidate, spread, false);
                    }
                }
            }
        }
    }

    /// Rejects a valid document, finally if the cluster assigned it.
    fn refuse(&mut self, now: Duration, candidate: &Candidate, why: &str) {
        self.reject(now, true, why);
        if candidate.is_assigned {
            self.note_failure(&candidate.hash, why);
        }
    }

    /// Whether the cluster allows exactly this document. A change that needs a new node is never allowed.
    fn is_allowed(&self, hash: &str, requests: &[Request]) -> bool {
        let is_allowed = self.allowed.as_deref() == Some(hash) || self.follower.allows(hash);
        is_allowed && !requests.contains(&Request::Replace)
    }

    fn schedule_apply(&mut self, now: Duration, candidate: Candidate, spread: bool, allowed: bool) {
        let delay = self.schedule.schedule_apply(now, Timing::from_config(&candidate.config), &candidate.hash, spread);
        if !delay.is_zero() {
            let what =
                format!("generation {} will be applied in {} s", candidate.config.metadata.generation, delay.as_secs());
            self.node.log.info(&what);
            self.candidate_outcome = CandidateOutcome::Waiting(what);
        }
        self.waiting = Some((candidate, allowed));
    }

    /// Drops a candidate that waits for its delay or for the cluster.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting = None;
        self.schedule.cancel_apply();
        if self.stored.requests.act.take().is_some() {
            self.save_requests();
        }
    }

    /// Applies the waiting candidate.
    pub(super) fn apply(&mut self, now: Duration) {
        let Some((candidate, allowed)) = self.waiting.take() else { return };
        let number = candidate.config.metadata.generation;
        let consent = if allowed { Consent::Allowed } else { Consent::Automatic };
        self.schedule.sync_now(now);
        self.was_ready = Some((candidate.hash.clone(), gates::readiness(self.cluster.client())));
        match apply::apply(self.node, &candidate, consent) {
            Ok(applied) => {
                self.candidate_outcome = CandidateOutcome::None;
                let mut status = applied.status("watch");
                if applied.outcome == Outcome::Applied {
                    self.finished = applied.generation.as_ref().map(|generation| generation.folder.clone());
                    let effect = applied.plan.effect;
                    self.announce(
                        Severity::Normal,
                        "KilnApplied",
                        &format!("generation {number} is in force, on trial ({effect})"),
                    );
                }
                if applied.outcome == Outcome::Applied && applied.plan.effect == Effect::Reboot {
                    let boot = self.node.boot_id();
                    if self.stored.requests.request_reboot(number, &candidate.hash, &boot) {
                        self.save_requests();
                    }
                }
                if applied.outcome == Outcome::Applied {
                    TrialStart::forget(self.node);
                }
                if let Some(generation) = applied.generation {
                    self.follow_state(&applied.state, self.node.wait.now());
                    self.record_requests(&generation);
                }
                status.pending = self.stored.requests.lines();
                self.node.report(status);
            }
            Err(ApplyError::NotPlanned(apply::Error::Os(os::Error::Locked { .. }))) => {
                // Another process is changing the node. Its result decides whether this candidate is still wanted.
                self.last_polled = None;
                self.schedule.poll_at(now + TIMEOUT);
                self.follower.read_again(now + TIMEOUT);
            }
            Err(error) => {
                let causes = error_line(&error);
                self.candidate_outcome = match error {
                    ApplyError::Reverted { .. } => CandidateOutcome::Reverted(format!("generation {number}: {causes}")),
                    _ => CandidateOutcome::Failed(format!("generation {number}: {causes}")),
                };
                self.announce(
                    Severity::Warning,
                    "KilnFailed",
                    &format!("generation {number} was not applied: {causes}"),
                );
                if candidate.is_assigned {
                    self.note_failure(&candidate.hash, &causes);
                }
                self.report(Outcome::Failed, Some(&causes));
            }
        }
    }

    /// Reports to the wire server that the machine is provisioned, if no other agent does. Once per first boot.
    pub(super) fn report_ready(&mut self) {
        let Some((_, config)) = self.in_force.as_ref().filter(|_| !self.reported_ready) else { return };
        let has_to =
            provisioning::is_due(self.node) && provisioning::is_reporter(self.node, config.spec.platform.report_ready);
        self.reported_ready = !has_to || provisioning::report_ready(self.node);
    }
}
