//! The freezes of a simulated node: from the start of a pod with that task until its end, as measured by the kubelet.

use jiff::Timestamp;
use kiln_types::{FREEZE_WINDOW, FreezeEnd, FreezeReport, ThawReport};
use serde_json::Value;

use super::task::{FREEZE, TASK_LABEL};
use crate::meta;

/// The annotation with the run that created a pod.
const RUN_ANNOTATION: &str = "kiln.dev/run";

/// The freezes of one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Freezes {
    since: Option<Timestamp>,
    last: Option<FreezeReport>,
}

/// The run that created a pod.
pub(super) fn run_of(pod: &Value) -> &str {
    let annotations = pod.pointer("/metadata/annotations").and_then(|all| all.get(RUN_ANNOTATION));
    annotations.and_then(Value::as_str).unwrap_or_default()
}

impl Freezes {
    /// A pod has started. Only one with the right task freezes anything.
    pub(super) fn start(&mut self, pod: &Value, now: Timestamp) {
        if meta::label(pod, TASK_LABEL) == Some(FREEZE) {
            (self.since, self.last) = (Some(now), None);
        }
    }

    /// A pod has ended.
    pub(super) fn end(&mut self, pod: &Value, now: Timestamp) {
        if meta::label(pod, TASK_LABEL) != Some(FREEZE) {
            return;
        }
        let Some(since) = self.since.take() else { return };
        let frozen = now.duration_since(since).unsigned_abs();
        let end = if frozen <= FREEZE_WINDOW { FreezeEnd::Requested } else { FreezeEnd::WindowOver };
        let frozen_ms = u64::try_from(frozen.min(FREEZE_WINDOW).as_millis()).unwrap_or(u64::MAX);
        let file_systems = vec!["/".to_owned()];
        self.last = Some(FreezeReport { run: run_of(pod).to_owned(), file_systems, frozen_ms, end });
    }

    /// The report for a run, as JSON.
    pub(super) fn report(&self, run: &str) -> Vec<u8> {
        let freeze = self.last.clone().filter(|last| last.run == run);
        serde_json::to_vec(&ThawReport { thawed: Vec::new(), freeze }).unwrap_or_default()
    }
}
