//! The decision of a kubelet about a pod.

use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::meta;

/// How many seconds a pod takes to stop; 0 by default. The grace period is the limit.
const STOPS_AFTER: &str = "sim.kiln.dev/stops-after-seconds";

/// The next action for a pod.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PodAction {
    Nothing,
    /// The containers run with this status.
    Run(Value),
    /// The containers have stopped: delete the pod.
    End,
}

/// Whether a pod has not ended and is not terminating.
pub(super) fn is_active(pod: &Value) -> bool {
    !meta::is_terminating(pod) && !matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The next action for a pod. `running` is whether it was started since the last boot.
pub(super) fn next(pod: &Value, running: bool, host: Ipv4Addr, now: Timestamp) -> PodAction {
    let phase = meta::text(pod, "/status/phase");
    if meta::is_terminating(pod) {
        return if !running || has_stopped(pod, now) { PodAction::End } else { PodAction::Nothing };
    }
    if matches!(phase, "Succeeded" | "Failed") {
        return PodAction::Nothing;
    }
    // The server marks pods of a node without heartbeats as not ready; the kubelet corrects it.
    if running && meta::is_ready(pod) { PodAction::Nothing } else { PodAction::Run(status(pod, running, host, now)) }
}

/// Whether a terminating pod has stopped.
fn has_stopped(pod: &Value, now: Timestamp) -> bool {
    let Ok(end) = meta::text(pod, "/metadata/deletionTimestamp").parse::<Timestamp>() else { return true };
    let grace = SignedDuration::from_secs(meta::deletion_grace(pod).unwrap_or_default());
    let seconds = pod.pointer("/metadata/annotations").and_then(|annotations| annotations.get(STOPS_AFTER));
    let seconds = seconds.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(0);
    now >= (end - grace + SignedDuration::from_secs(seconds)).min(end)
}

fn status(pod: &Value, running: bool, host: Ipv4Addr, now: Timestamp) -> Value {
    let now = meta::time(now);
    let old = |name: &str| {
        let statuses = meta::list(pod, "/status/containerStatuses");
        statuses.iter().find(|status| meta::text(status, "/name") == name)
    };
    let containers: Vec<Value> = meta::list(pod, "/spec/containers")
        .iter()
        .map(|container| {
            let name = meta::text(container, "/name");
            let before = old(name);
            // A container that ran before this boot is restarted.
            let restarts =
                before.map_or(0, |before| before["restartCount"].as_i64().unwrap_or_default() + i64::from(!running));
            let since = match before {
                Some(before) if running => before["state"]["running"]["startedAt"].clone(),
                _ => json!(now),
            };
            json!({
                "name": name, "image": container["image"], "imageID": "", "ready": true, "started": true,
                "restartCount": restarts, "state": {"running": {"startedAt": since}}, "lastState": {},
                "containerID": format!("containerd://{}-{name}-{restarts}", meta::uid(pod)),
            })
        })
        .collect();
    let kinds = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            let since = match meta::condition(pod, kind) {
                Some(before) if before["status"] == "True" => before["lastTransitionTime"].clone(),
                _ => json!(now),
            };
            json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": since})
        })
        .collect();
    let host_network = pod.pointer("/spec/hostNetwork") == Some(&json!(true));
    let address = if host_network { host.to_string() } else { pod_address(pod) };
    let started = pod.pointer("/status/startTime").cloned().filter(|at| !at.is_null()).unwrap_or(json!(now));
    json!({
        "phase": "Running", "conditions": conditions, "containerStatuses": containers, "startTime": started,
        "hostIP": host.to_string(), "hostIPs": [{"ip": host.to_string()}], "podIP": address,
        "podIPs": [{"ip": address}],
    })
}

/// A stable address of the pod network. No traffic is ever sent to it.
fn pod_address(pod: &Value) -> String {
    let hash = meta::uid(pod).bytes().fold(17u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let [high, low] = hash.to_be_bytes();
    format!("10.244.{high}.{}", low.clamp(2, 254))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 4);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "a", "uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"},
        })
    }

    fn started(pod: &Value, running: bool, now: Timestamp) -> Value {
        let PodAction::Run(status) = next(pod, running, HOST, now) else { panic!("the pod is not started") };
        let mut pod = pod.clone();
        pod["status"] = status;
        pod
    }

    #[test]
    fn pod_is_started_once_and_again_after_a_boot() {
        let first = started(&pod(), false, at(0));
        assert_eq!(first["status"]["phase"], "Running");
        assert_eq!(first["status"]["containerStatuses"][0]["restartCount"], 0);
        assert_eq!(next(&first, true, HOST, at(1)), PodAction::Nothing);
        let again = started(&first, false, at(9));
        assert_eq!(again["status"]["containerStatuses"][0]["restartCount"], 1);
        assert_eq!(again["status"]["startTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn pod_marked_as_not_ready_becomes_ready_without_a_restart() {
        let mut silent = started(&pod(), false, at(0));
        silent["status"]["conditions"][2]["status"] = json!("False");
        let again = started(&silent, true, at(9));
        assert_eq!(again["status"]["containerStatuses"][0]["restartCount"], 0);
        assert_eq!(again["status"]["conditions"][2]["lastTransitionTime"], "1970-01-01T00:00:09Z");
    }

    #[test]
    fn pod_stops_when_done_or_at_the_end_of_its_grace_period() {
        let mut ending = started(&pod(), false, at(0));
        ending["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
        ending["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(next(&ending, true, HOST, at(0)), PodAction::End);
        ending["metadata"]["annotations"] = json!({STOPS_AFTER: "10"});
        assert_eq!(next(&ending, true, HOST, at(9)), PodAction::Nothing);
        assert_eq!(next(&ending, true, HOST, at(10)), PodAction::End);
        ending["metadata"]["annotations"] = json!({STOPS_AFTER: "99"});
        assert_eq!(next(&ending, true, HOST, at(29)), PodAction::Nothing);
        assert_eq!(next(&ending, true, HOST, at(30)), PodAction::End);
        assert_eq!(next(&ending, false, HOST, at(0)), PodAction::End, "it was never started");
    }

    #[test]
    fn ended_pod_is_left_alone() {
        let mut ended = pod();
        ended["status"]["phase"] = json!("Succeeded");
        assert_eq!(next(&ended, false, HOST, at(0)), PodAction::Nothing);
    }
}
