//! What a change costs where one field holds many settings of different weight.

use kiln_node_config::Effect;
use kiln_node_config::changes::Change;

/// Settings of the kubelet that cost more than a restart.
const KUBELET: [(&str, Effect); 8] = [
    // The kubelet keeps what it gave to whom in a file and does not start when the policy no longer fits it, so the file goes, and
    // with it what running pods were given.
    ("cpuManagerPolicy", Effect::Drain),
    ("cpuManagerPolicyOptions", Effect::Drain),
    ("memoryManagerPolicy", Effect::Drain),
    ("reservedMemory", Effect::Drain),
    ("reservedSystemCPUs", Effect::Drain),
    ("topologyManagerPolicy", Effect::Drain),
    ("topologyManagerScope", Effect::Drain),
    // Running pods are in control groups of the other kind.
    ("cgroupDriver", Effect::Drain),
];

/// Names anywhere in the runtime's configuration that no running node can change: its images would be gone.
const RUNTIME: [&str; 3] = ["snapshotter", "root", "state"];

/// The change with what it really costs.
pub(crate) fn weigh(mut change: Change) -> Change {
    let least = |name: &str| KUBELET.iter().find(|(known, _)| *known == name).map(|(_, effect)| *effect);
    if let Some(name) = inside(&change.path, "spec.kubelet.configuration") {
        change.effect = least(name).map_or(change.effect, |effect| effect.max(change.effect));
    } else if inside(&change.path, "spec.runtime.configuration").is_some() {
        let (from, to) = (snapshots(change.from.as_ref()), snapshots(change.to.as_ref()));
        let itself = inside(&change.path, "spec.runtime.configuration").is_some_and(|name| RUNTIME.contains(&name));
        if itself || from != to {
            change.effect = Effect::Replace;
        }
    }
    change
}

fn inside<'a>(path: &'a str, map: &str) -> Option<&'a str> {
    path.strip_prefix(map)?.strip_prefix('[')?.strip_suffix(']')
}

/// Every value below a name of [`RUNTIME`], with where it is.
fn snapshots(value: Option<&serde_json::Value>) -> Vec<(String, String)> {
    fn walk(path: &str, value: &serde_json::Value, found: &mut Vec<(String, String)>) {
        for (name, inner) in value.as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if RUNTIME.contains(&name.as_str()) {
                found.push((path.clone(), inner.to_string()));
            }
            walk(&path, inner, found);
        }
    }
    let mut found = Vec::new();
    if let Some(value) = value {
        walk("", value, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use kiln_node_config::{NodeConfig, changes};
    use serde_json::{Value, json};

    use super::*;

    fn cost(from: Value, to: Value) -> Effect {
        let config =
            |spec: Value| NodeConfig { spec: serde_json::from_value(spec).expect("a spec"), ..NodeConfig::default() };
        let changes: Vec<Change> = changes::between(&config(from), &config(to)).into_iter().map(weigh).collect();
        changes::highest_effect(&changes)
    }

    #[test]
    fn a_policy_of_the_kubelet_costs_a_drain_and_a_plain_setting_a_restart() {
        let kubelet = |name: &str, value: &str| json!({"kubelet": {"configuration": {name: value}}});
        assert_eq!(cost(kubelet("cpuManagerPolicy", "none"), kubelet("cpuManagerPolicy", "static")), Effect::Drain);
        assert_eq!(cost(json!({}), kubelet("containerLogMaxSize", "9Mi")), Effect::Restart);
    }

    #[test]
    fn a_running_node_never_gets_another_snapshotter() {
        let runtime =
            |name: &str, value: &str| json!({"runtime": {"configuration": {"plugins": {"x": {name: value}}}}});
        assert_eq!(cost(runtime("snapshotter", "overlayfs"), runtime("snapshotter", "btrfs")), Effect::Replace);
        assert_eq!(cost(runtime("max", "1"), runtime("max", "2")), Effect::Restart);
        assert_eq!(cost(json!({}), json!({"runtime": {"configuration": {"root": "/data"}}})), Effect::Replace);
    }
}
