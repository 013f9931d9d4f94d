//! The metrics of rollouts, pools and freezes.

use jiff::Timestamp;

use super::index::until;
use super::session::Session;
use super::stores::Snapshots;

impl Session {
    /// Updates the metrics of all objects.
    pub(super) fn show(&self, view: &Snapshots, now: Timestamp) {
        let metrics = &self.shared.metrics;
        let (mut in_flight, number) = (0, |value: i64| f64::from(i32::try_from(value).unwrap_or(i32::MAX)));
        metrics.clear(&[
            "kiln_rollout_nodes",
            "kiln_rollout_phase",
            "kiln_rollout_waiting",
            "kiln_rollout_wave",
            "kiln_pool_nodes",
            "kiln_pool_nodes_unavailable",
            "kiln_pool_nodes_up_to_date",
        ]);
        for (name, rollout) in &view.rollouts {
            let Some(status) = &rollout.status else { continue };
            let flying = i64::try_from(status.in_flight.len()).unwrap_or(i64::MAX);
            in_flight += flying;
            let waiting = (status.total - status.updated - status.failed - flying).max(0);
            let counts =
                [("waiting", waiting), ("in_flight", flying), ("updated", status.updated), ("failed", status.failed)];
            for (state, nodes) in counts {
                metrics.set("kiln_rollout_nodes", &[name, state], number(nodes));
            }
            metrics.set("kiln_rollout_phase", &[name, status.phase.as_str()], 1.0);
            let wave = status.waves.iter().filter(|wave| wave.started_at.is_some()).count();
            metrics.set("kiln_rollout_wave", &[name], number(i64::try_from(wave).unwrap_or(i64::MAX)));
            if let Some(waiting) = &status.waiting_for {
                metrics.set("kiln_rollout_waiting", &[name, &format!("{:?}", waiting.reason)], 1.0);
            }
        }
        metrics.set("kiln_nodes_in_flight", &[], number(in_flight));
        for (name, pool) in &view.pools {
            let Some(status) = &pool.status else { continue };
            metrics.set("kiln_pool_nodes", &[name], number(status.nodes));
            metrics.set("kiln_pool_nodes_unavailable", &[name], number(status.unavailable));
            metrics.set("kiln_pool_nodes_up_to_date", &[name], number(status.up_to_date));
        }
        let frozen = view.freezes.values().filter(|freeze| until(freeze).is_none_or(|until| until > now)).count();
        metrics.set("kiln_frozen", &[], number(i64::try_from(frozen).unwrap_or(i64::MAX)));
    }
}
