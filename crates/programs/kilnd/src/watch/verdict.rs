//! The end of a trial: its gates are checked, and it is committed or reverted.

use std::time::Duration;

use kiln_node_config::spec::GateKind;

use super::Watch;
use super::condition::CandidateOutcome;
use super::gates::{self, ClusterView};
use super::progress::{GateResult, TrialProgress};
use super::schedule::Timing;
use crate::apiserver::Severity;
use crate::apply::{load_state, rollback, store};
use crate::commands::check_image;
use crate::provisioning;
use crate::status::Outcome;

/// How long gates fail before the image is checked. A kubelet that works passes in less.
const IMAGE_CHECK: Duration = Duration::from_secs(45);

impl Watch<'_> {
    /// Checks the gates of the generation on trial.
    pub(super) fn check_gates(&mut self, now: Duration, timing: Timing) {
        let Some((hash, config)) = self.in_force.clone() else { return };
        let needs_cluster = gates::gates(&config).iter().any(|gate| gate.kind == GateKind::NodeReady);
        if let Some(trial) = self.trial.as_mut().filter(|trial| needs_cluster && !trial.has_answered)
            && gates::answers(self.cluster.client())
        {
            trial.set_answered(self.node);
        }
        let committed = load_state(self.node).ok().and_then(|state| state.committed);
        let can_revert = committed.is_some();
        let before = committed.and_then(|before| store::document(&self.node.root, &before.folder).ok().flatten());
        let cluster = ClusterView {
            client: self.cluster.client(),
            previous: self.cluster.previous(),
            was_ready: self.trial.as_ref().and_then(|trial| trial.was_ready),
            has_answered: self.trial.as_ref().is_some_and(|trial| trial.has_answered),
            can_cut_off: before.is_none_or(|before| gates::can_cut_off(&before, &config)),
        };
        let checked = gates::check(self.node, &config, cluster, &mut self.heartbeat, can_revert);
        self.follower.gates.clone_from(&checked.gates);
        let progress = self.schedule.evaluate(now, timing, &checked);
        if let (Some(trial), Some((_, since))) = (&mut self.trial, self.schedule.trial_since()) {
            trial.set_since(self.node, since);
        }
        match progress {
            TrialProgress::Running => {
                self.check_image(now, &checked.gates);
                if let Some(why) = &mut self.overdue {
                    *why = failed_gates(&checked.gates);
                }
            }
            TrialProgress::Passed => self.commit(now, &hash),
            TrialProgress::Failed(reason) => self.revert(now, &hash, &reason),
        }
    }

    /// Checks the image once if the gates keep failing: a unit that systemd skips, or a drop-in that wins, fails without a word. A blocker is
    /// shown on the console.
    fn check_image(&mut self, now: Duration, results: &[(String, GateResult)]) {
        if results.iter().all(|(_, result)| *result == GateResult::Passed) {
            return;
        }
        let since = *self.failing_since.get_or_insert(now);
        if self.has_checked_image || now.saturating_sub(since) < IMAGE_CHECK {
            return;
        }
        self.has_checked_image = true;
        if let Some(problem) = check_image::report(self.node).sentence().filter(|_| self.node.root.is_host()) {
            provisioning::show(self.node, &format!("the node is not healthy ({}); {problem}", failed_gates(results)));
        }
    }

    fn commit(&mut self, now: Duration, hash: &str) {
        self.schedule.sync_now(now);
        if !self.is_on_trial(hash) {
            return;
        }
        match rollback::commit(self.node) {
            Ok(state) => {
                self.overdue = None;
                let number = state.in_force().map_or(0, |generation| generation.number);
                self.forget_trial();
                self.announce(Severity::Normal, "KilnCommitted", &format!("generation {number} is committed"));
                self.report(Outcome::Verified, None);
            }
            // The state still has the trial, so the next check tries again.
            Err(error) => self.node.log.error(&format!("cannot commit the trial: {error}")),
        }
    }

    fn revert(&mut self, now: Duration, hash: &str, reason: &str) {
        self.schedule.sync_now(now);
        if !self.is_on_trial(hash) {
            return;
        }
        match rollback::revert(self.node, reason) {
            Ok(Some(done)) => {
                let number = done.from.map_or(0, |generation| generation.number);
                self.candidate_outcome =
                    CandidateOutcome::Reverted(format!("generation {number} was reverted {reason}"));
                let line = format!(
                    "generation {number} was reverted {reason}; generation {} is in force again",
                    done.to.number
                );
                self.announce(Severity::Warning, "KilnReverted", &line);
                self.finished = Some(done.to.folder);
                self.report(Outcome::Reverted, Some(reason));
            }
            Ok(None) => {
                self.schedule.mark_overdue();
                self.overdue = Some(reason.to_owned());
                let line = format!("not healthy {reason}; no earlier generation exists");
                self.announce(Severity::Warning, "KilnUnhealthy", &line);
                self.report(Outcome::Failed, Some(reason));
            }
            Err(error) => {
                let causes = crate::log::error_line(&error);
                self.candidate_outcome = CandidateOutcome::Failed(format!("the revert failed: {causes}"));
                self.announce(Severity::Warning, "KilnStuck", &format!("{reason}; the revert failed: {causes}"));
                self.report(Outcome::Failed, Some(&causes));
            }
        }
    }

    /// Whether this generation is still on trial. Another one may have been applied while the gates were checked.
    fn is_on_trial(&self, hash: &str) -> bool {
        let state = load_state(self.node);
        state.is_ok_and(|state| state.trial.is_some_and(|trial| trial.generation.hash == hash))
    }
}

fn failed_gates(results: &[(String, GateResult)]) -> String {
    let failed = results.iter().filter_map(|(name, result)| match result {
        GateResult::Passed => None,
        GateResult::Failed(why) | GateResult::Unknown(why) => Some(format!("{name}: {why}")),
    });
    failed.collect::<Vec<_>>().join("; ")
}
