//! When the current boot reached its milestones. They are kept in `/run`, since systemd and the Node object only know the latest start of the
//! kubelet and the latest time at which the node became Ready.

use std::time::Duration;

use kiln_node_config::node_state::BootTimes;
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::KUBELET_UNIT;

use crate::apiserver::Node as Object;
use crate::node::Node;
use crate::os::systemd::{Systemd, UNIT};
use crate::os::{Durability, clock};

/// Gone after a reboot.
const FILE: &str = "/run/kiln/boot-times.json";
/// Time limit of a request to systemd.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The milestones that are known.
pub(super) fn load(node: &Node) -> BootTimes {
    let read = node.root.read_if_exists(FILE).ok().flatten();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Adds milestones that are not known yet.
pub(super) fn complete(node: &Node, times: &mut BootTimes, object: Option<&Object>) {
    let before = times.clone();
    if times.kernel.is_none() || times.kubelet_start.is_none() {
        ask_systemd(node, times);
    }
    if times.ready.is_none() {
        times.ready = object.and_then(|object| ready_since(object, times.kubelet_start.as_deref()));
    }
    if *times != before {
        let bytes = serde_json::to_vec(times).expect("string keys");
        // Without the file a restart of kilnd reads the times again.
        let _ = node.root.write_all(&[DesiredFile::new(FILE, &bytes, 0o644)], Durability::Later);
    }
}

fn ask_systemd(node: &Node, times: &mut BootTimes) {
    let Some(socket) = &node.systemd else { return };
    let mut systemd = Systemd::new(socket, TIMEOUT);
    let time = |microseconds: u64| (microseconds > 0).then(|| clock::rfc3339(Duration::from_micros(microseconds)));
    if times.kernel.is_none() {
        // Zero in a container.
        let mut started = |property| systemd.manager_property::<u64>(property).ok().and_then(time);
        times.kernel = started("KernelTimestamp").or_else(|| started("UserspaceTimestamp"));
    }
    if times.kubelet_start.is_none() {
        let started = systemd.unit_property::<u64>(KUBELET_UNIT, UNIT, "ActiveEnterTimestamp");
        times.kubelet_start = started.ok().and_then(time);
    }
}

/// Since when the node is Ready, if that is after the start of the kubelet in this boot.
fn ready_since(object: &Object, kubelet: Option<&str>) -> Option<String> {
    let since = object.condition("Ready").filter(|_| object.is_ready())?.last_transition_time.clone()?;
    (since.as_str() >= kubelet?).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::{Condition, ConditionStatus};

    #[test]
    fn node_that_was_ready_before_the_kubelet_started_is_not_ready_in_this_boot() {
        let at = |time: &str| {
            let ready = Condition::new("Ready", ConditionStatus::True, "KubeletReady", "");
            let ready = Condition { last_transition_time: Some(time.to_owned()), ..ready };
            Object { conditions: vec![ready], ..Object::default() }
        };
        let kubelet = Some("2026-11-18T10:00:05Z");
        assert_eq!(ready_since(&at("2026-11-18T09:00:00Z"), kubelet), None);
        assert_eq!(ready_since(&at("2026-11-18T10:00:09Z"), kubelet).as_deref(), Some("2026-11-18T10:00:09Z"));
        assert_eq!(ready_since(&at("2026-11-18T10:00:09Z"), None), None);
        assert_eq!(ready_since(&Object::default(), kubelet), None);
    }
}
