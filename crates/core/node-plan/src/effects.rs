//! Effects of single settings inside a field that contains many.

use kiln_node_config::changes::{self, Change};
use kiln_node_config::{Effect, NodeConfig};

/// Kubelet settings with a larger effect than a restart.
const KUBELET: [(&str, Effect); 8] = [
    // The kubelet records assignments in a state file and does not start if the file does not match the policy. So the file is deleted,
    // and with it the assignments of running pods.
    ("cpuManagerPolicy", Effect::Drain),
    ("cpuManagerPolicyOptions", Effect::Drain),
    ("memoryManagerPolicy", Effect::Drain),
    ("reservedMemory", Effect::Drain),
    ("reservedSystemCPUs", Effect::Drain),
    ("topologyManagerPolicy", Effect::Drain),
    ("topologyManagerScope", Effect::Drain),
    // Running pods use the other cgroup driver.
    ("cgroupDriver", Effect::Drain),
];

/// Keys anywhere in the runtime's configuration that a running node cannot change, because it would lose its images.
const RUNTIME: [&str; 3] = ["snapshotter", "root", "state"];

/// Returns the effect that a change from one document to another has on a node that has the first one in force.
pub fn effect_between(from: &NodeConfig, to: &NodeConfig) -> Effect {
    let changes: Vec<Change> = changes::between(from, to).into_iter().map(weigh).collect();
    changes::highest_effect(&changes)
}

/// The change with its actual effect.
pub(crate) fn weigh(mut change: Change) -> Change {
    let least = |name: &str| KUBELET.iter().find(|(known, _)| *known == name).map(|(_, effect)| *effect);
    if let Some(name) = inside(&change.path, "spec.kubelet.configuration") {
        change.effect = least(name).map_or(change.effect, |effect| effect.max(change.effect));
    } else if inside(&change.path, "spec.runtime.configuration").is_some() {
        let (from, to) = (fixed_values(change.from.as_ref()), fixed_values(change.to.as_ref()));
        let is_listed = inside(&change.path, "spec.runtime.configuration").is_some_and(|name| RUNTIME.contains(&name));
        if is_listed || from != to {
            change.effect = Effect::Replace;
        }
    }
    change
}

fn inside<'a>(path: &'a str, map: &str) -> Option<&'a str> {
    path.strip_prefix(map)?.strip_prefix('[')?.strip_suffix(']')
}

/// Path and value of every key in [`RUNTIME`].
fn fixed_values(value: Option<&serde_json::Value>) -> Vec<(String, String)> {
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
    use serde_json::{Value, json};

    use super::*;

    fn effect(from: Value, to: Value) -> Effect {
        let config =
            |spec: Value| NodeConfig { spec: serde_json::from_value(spec).expect("a spec"), ..NodeConfig::default() };
        effect_between(&config(from), &config(to))
    }

    #[test]
    fn kubelet_policies_need_a_drain_and_other_settings_a_restart() {
        let kubelet = |name: &str, value: &str| json!({"kubelet": {"configuration": {name: value}}});
        assert_eq!(effect(kubelet("cpuManagerPolicy", "none"), kubelet("cpuManagerPolicy", "static")), Effect::Drain);
        assert_eq!(effect(json!({}), kubelet("containerLogMaxSize", "9Mi")), Effect::Restart);
    }

    #[test]
    fn snapshotter_and_root_need_a_replacement() {
        let runtime =
            |name: &str, value: &str| json!({"runtime": {"configuration": {"plugins": {"x": {name: value}}}}});
        assert_eq!(effect(runtime("snapshotter", "overlayfs"), runtime("snapshotter", "btrfs")), Effect::Replace);
        assert_eq!(effect(runtime("max", "1"), runtime("max", "2")), Effect::Restart);
        assert_eq!(effect(json!({}), json!({"runtime": {"configuration": {"root": "/data"}}})), Effect::Replace);
    }
}
