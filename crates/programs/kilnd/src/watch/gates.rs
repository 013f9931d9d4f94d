//! What must hold before a generation counts as good, looked at on this machine and in the cluster.

use std::time::Duration;

use crate::apiserver::Client;
use crate::os::systemd::Systemd;
use kiln_node_config::NodeConfig;
use kiln_node_config::spec::{Gate, GateKind};
use serde_json::Value;
use ureq::Agent;

use super::schedule::Held;
use crate::node::Node;

/// Where a kubelet says how it is, where its configuration does not say otherwise.
const HEALTHZ_PORT: u64 = 10_248;
/// Something on this machine that takes longer is not well.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last that was heard of the kubelet in the cluster when a trial began. A node stays ready there for most of a minute after its
/// kubelet has died, so that only what changed since then counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pulse(Option<String>);

/// The gates of a document. Without any: the kubelet answers and the node is ready.
pub(super) fn gates(config: &NodeConfig) -> Vec<Gate> {
    let given = &config.spec.health.gates;
    if !given.is_empty() {
        return given.clone();
    }
    let gate = |name: &str, kind| Gate { name: name.to_owned(), kind, ..Gate::default() };
    vec![gate("kubelet", GateKind::KubeletHealthy), gate("node", GateKind::NodeReady)]
}

/// Looks at all gates of a document.
pub(super) fn look(
    node: &Node,
    config: &NodeConfig,
    client: Option<&Client>,
    pulse: &mut Pulse,
) -> Vec<(String, Held)> {
    let held = |gate: &Gate, pulse: &mut Pulse| match gate.kind {
        GateKind::KubeletHealthy => answers(&healthz(config)),
        GateKind::HttpOk => answers(&gate.target),
        GateKind::FileExists => match node.root.kind(&gate.target) {
            Ok(Some(_)) => Held::Yes,
            Ok(None) => Held::No(format!("`{}` is not there", gate.target)),
            Err(error) => Held::No(error.to_string()),
        },
        GateKind::UnitActive => is_active(node, &gate.target),
        GateKind::NodeReady => is_ready(client, pulse),
        GateKind::Unset => Held::Yes,
    };
    gates(config).iter().map(|gate| (gate.name.clone(), held(gate, pulse))).collect()
}

fn healthz(config: &NodeConfig) -> String {
    let configuration = &config.spec.kubelet.configuration;
    let port = configuration.get("healthzPort").and_then(Value::as_u64).unwrap_or(HEALTHZ_PORT);
    let address = configuration.get("healthzBindAddress").and_then(Value::as_str).unwrap_or("127.0.0.1");
    let address = match address {
        "0.0.0.0" | "" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        other if other.contains(':') => format!("[{other}]"),
        other => other.to_owned(),
    };
    format!("http://{address}:{port}/healthz")
}

fn answers(url: &str) -> Held {
    let config = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .build();
    match config.new_agent().get(url).call() {
        Ok(response) if response.status().is_success() => Held::Yes,
        Ok(response) => Held::No(format!("`{url}` answers {}", response.status().as_u16())),
        Err(error) => Held::No(format!("`{url}` does not answer ({error})")),
    }
}

fn is_active(node: &Node, unit: &str) -> Held {
    let Some(socket) = &node.systemd else { return Held::Unknown("there is no systemd to ask".to_owned()) };
    match Systemd::new(socket, PATIENCE).unit(unit) {
        Ok(state) if state.is_active() => Held::Yes,
        Ok(state) => Held::No(format!("`{unit}` is {} ({})", state.active, state.sub)),
        Err(error) => Held::Unknown(error.to_string()),
    }
}

fn is_ready(client: Option<&Client>, pulse: &mut Pulse) -> Held {
    let Some(client) = client else { return Held::Unknown("the API server is not known".to_owned()) };
    let (node, renewed) = match client.node().and_then(|node| Ok((node, client.renewed()?))) {
        Ok(read) => read,
        Err(error) if error.is_unreachable() => return Held::Unknown(crate::log::chain(&error).join(": ")),
        Err(error) => return Held::No(error.to_string()),
    };
    let ready = node.condition("Ready");
    if !node.is_ready() {
        return Held::No(ready.map_or("it has no condition `Ready`".to_owned(), |ready| {
            format!("it is not ready: {} {}", ready.reason, ready.message)
        }));
    }
    let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time.clone()).unwrap_or_default();
    let beat = format!("{heartbeat} {}", renewed.unwrap_or_default());
    if pulse.0.get_or_insert_with(|| beat.clone()) == &beat {
        return Held::No("nothing was heard of its kubelet since the trial began".to_owned());
    }
    Held::Yes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(configuration: Value) -> NodeConfig {
        let mut config = NodeConfig::default();
        config.spec.kubelet.configuration = serde_json::from_value(configuration).expect("an object");
        config
    }

    #[test]
    fn the_kubelet_is_asked_where_its_configuration_says() {
        for (configuration, url) in [
            (json!({}), "http://127.0.0.1:10248/healthz"),
            (json!({"healthzPort": 7, "healthzBindAddress": "0.0.0.0"}), "http://127.0.0.1:7/healthz"),
            (json!({"healthzBindAddress": "::"}), "http://[::1]:10248/healthz"),
            (json!({"healthzBindAddress": "fe80::1"}), "http://[fe80::1]:10248/healthz"),
        ] {
            assert_eq!(healthz(&with(configuration)), url);
        }
    }

    #[test]
    fn without_gates_the_kubelet_and_the_node_are_looked_at() {
        let kinds: Vec<GateKind> = gates(&NodeConfig::default()).iter().map(|gate| gate.kind).collect();
        assert_eq!(kinds, [GateKind::KubeletHealthy, GateKind::NodeReady]);
    }
}
