//! A node with its kilnd, as the API server shows it.

use jiff::Timestamp;
use kiln_fleet_api::{Current, Desired, Effect, Phase, RequestedAction, Requests, Reverted};
use kiln_rollout::{DrainState, NodeObserved};

/// A simulated node. `shown` is what the API server has; the rest is known to the node only.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a node")]
pub(crate) struct Node {
    pub(crate) shown: NodeObserved,
    /// Effect of every change of its document.
    pub(crate) effect: Effect,
    /// Reverts this digest after its trial.
    pub(crate) fails_on: Option<String>,
    /// A PodDisruptionBudget blocks its drain.
    pub(crate) is_blocked: bool,
    /// kilnd does not run.
    pub(crate) is_mute: bool,
    /// Cordoned by kiln, not by a person.
    pub(crate) is_cordoned_by_kiln: bool,
    /// Grows with every change, like `resourceVersion`.
    pub(crate) version: u64,
    is_rebooting: bool,
    /// The document before the one on trial.
    before: Option<Current>,
    refused: Option<Desired>,
}

impl Node {
    pub(crate) fn new(name: &str, pool: &str, document: Option<&str>) -> Self {
        let mut shown = NodeObserved {
            name: name.to_owned(),
            pool: pool.to_owned(),
            ready: true,
            ready_since: Some("2026-03-01T00:00:00Z".parse().expect("a time")),
            observed: true,
            daemon_sets_ready: true,
            ..NodeObserved::default()
        };
        "boot-1".clone_into(&mut shown.status.boot_id);
        if let Some(digest) = document {
            shown.status.phase = Phase::Current;
            shown.status.current = Some(Current { digest: digest.to_owned(), committed: true, ..Current::default() });
            let (node_config, digest) = (format!("config-{digest}"), digest.to_owned());
            shown.desired = Some(Desired { node_config, digest, ..Desired::default() });
        }
        Self {
            shown,
            effect: Effect::Restart,
            fails_on: None,
            is_blocked: false,
            is_mute: false,
            is_cordoned_by_kiln: false,
            version: 0,
            is_rebooting: false,
            before: None,
            refused: None,
        }
    }

    /// Digest of the document in force.
    pub(crate) fn document(&self) -> &str {
        self.shown.status.current.as_ref().map_or("", |current| current.digest.as_str())
    }

    /// Changes the spec, as the operator does.
    pub(crate) fn write(&mut self, now: Timestamp, change: impl FnOnce(&mut NodeObserved)) {
        change(&mut self.shown);
        self.shown.observed = false;
        self.shown.written = Some(now);
        self.version += 1;
    }

    pub(crate) fn set_ready(&mut self, now: Timestamp, ready: bool) {
        if self.shown.ready != ready {
            self.shown.ready = ready;
            self.shown.ready_since = Some(now);
            self.version += 1;
        }
    }

    /// Takes one step of kilnd, of the kubelet or of the drain.
    pub(crate) fn react(&mut self, now: Timestamp) {
        self.version += 1;
        if let DrainState::Running { .. } = self.shown.drain
            && !self.is_blocked
        {
            self.shown.drain = DrainState::Done;
            return;
        }
        if self.is_mute {
            return;
        }
        if self.is_rebooting {
            self.is_rebooting = false;
            self.set_ready(now, true);
            self.shown.status.phase = Phase::OnTrial;
            self.shown.status.requests = Requests::default();
            return;
        }
        if self.shown.status.phase == Phase::OnTrial && self.shown.observed {
            self.end_trial();
            return;
        }
        self.follow(now);
    }

    fn end_trial(&mut self) {
        let status = &mut self.shown.status;
        let Some(current) = &mut status.current else { return };
        if self.fails_on.as_ref() == Some(&current.digest) {
            let reason = "gate `kubelet` failed".to_owned();
            status.reverted = Some(Reverted { digest: current.digest.clone(), reason });
            status.current = self.before.take();
            status.phase = Phase::Reverted;
            self.refused.clone_from(&self.shown.desired);
        } else {
            current.committed = true;
            status.phase = Phase::Current;
        }
    }

    /// Reads the spec and does what it allows.
    fn follow(&mut self, now: Timestamp) {
        let in_force = self.document().to_owned();
        self.shown.observed = true;
        let Some(desired) = self.shown.desired.clone() else {
            self.shown.status.phase = Phase::Idle;
            return;
        };
        if self.refused.as_ref() == Some(&desired) {
            return;
        }
        let is_allowed = self.shown.allow.as_ref() == Some(&desired.digest);
        let status = &mut self.shown.status;
        status.requests = Requests::default();
        status.effect = None;
        let ask = |action| Requests { action: Some(action), digest: desired.digest.clone(), ..Requests::default() };
        if in_force == desired.digest {
            let waits_for_boot = status.phase == Phase::Pending && self.effect == Effect::Reboot && is_allowed;
            if !waits_for_boot {
                let is_committed = status.current.as_ref().is_some_and(|current| current.committed);
                status.phase = if is_committed { Phase::Current } else { Phase::OnTrial };
                return;
            }
            if self.shown.reboot.as_deref() == Some(status.boot_id.as_str()) {
                status.boot_id = format!("{}'", status.boot_id);
                self.is_rebooting = true;
                self.set_ready(now, false);
            } else {
                status.requests = ask(RequestedAction::Reboot);
            }
            return;
        }
        status.effect = Some(self.effect);
        let action = match self.effect {
            Effect::Drain => Some(RequestedAction::Drain),
            Effect::Reboot => Some(RequestedAction::Reboot),
            Effect::Replace => Some(RequestedAction::Replace),
            _ => None,
        };
        if let Some(action) = action.filter(|_| !is_allowed) {
            status.phase = Phase::Pending;
            status.requests = ask(action);
            return;
        }
        self.before = status.current.take();
        status.current = Some(Current { digest: desired.digest.clone(), ..Current::default() });
        status.effect = None;
        let boots = self.effect == Effect::Reboot;
        status.phase = if boots { Phase::Pending } else { Phase::OnTrial };
        if boots {
            status.requests = ask(RequestedAction::Reboot);
        }
    }
}
