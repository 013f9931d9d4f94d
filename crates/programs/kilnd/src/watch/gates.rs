//! Health gates: the checks that a generation on trial has to pass, on this machine and in the cluster.

use std::time::Duration;

use crate::apiserver::Client;
use crate::os::systemd::{SERVICE, Systemd};
use kiln_node_config::NodeConfig;
use kiln_node_config::spec::{Gate, GateKind};
use kiln_node_plan::layout::KUBELET_UNIT;
use serde_json::Value;
use ureq::Agent;

use super::progress::{Checked, GateResult, KubeletRun};
use crate::node::Node;

/// The kubelet's default health port.
const HEALTHZ_PORT: u64 = 10_248;
/// A local service that takes longer is not healthy.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The last heartbeat of the kubelet when a trial began. A node stays Ready for most of a minute after its kubelet has died, so only a
/// later heartbeat proves that the kubelet runs with the new generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heartbeat(Option<String>);

/// The gates of a document. By default the kubelet must be healthy and the node Ready.
pub(super) fn gates(config: &NodeConfig) -> Vec<Gate> {
    let given = &config.spec.health.gates;
    if !given.is_empty() {
        return given.clone();
    }
    let gate = |name: &str, kind| Gate { name: name.to_owned(), kind, ..Gate::default() };
    vec![gate("kubelet", GateKind::KubeletHealthy), gate("node", GateKind::NodeReady)]
}

/// The cluster, as the gate `nodeReady` needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClusterView<'c> {
    /// The API server of the document on trial.
    pub(super) client: Option<&'c Client>,
    /// The API server of the document before it, if it is another one or is reached in another way.
    pub(super) previous: Option<&'c Client>,
    /// Whether the node was Ready before the change; none if the API server could not be reached then.
    pub(super) was_ready: Option<bool>,
    /// Whether the API server has answered since the change.
    pub(super) has_answered: bool,
    /// Whether the change [can cut the node off](can_cut_off).
    pub(super) can_cut_off: bool,
}

/// Whether a change can keep this node from reaching its API server. The kubelet and the runtime do not transport kilnd's requests.
pub(super) fn can_cut_off(before: &NodeConfig, after: &NodeConfig) -> bool {
    let (before, after) = (&before.spec, &after.spec);
    before.cluster != after.cluster
        || before.network != after.network
        || before.os != after.os
        || before.platform != after.platform
        || before.files != after.files
        || before.units != after.units
}

/// Checks all gates of a document, and the kubelet's process.
pub(super) fn check(
    node: &Node,
    config: &NodeConfig,
    cluster: ClusterView<'_>,
    heartbeat: &mut Heartbeat,
    can_revert: bool,
) -> Checked {
    let result = |gate: &Gate, heartbeat: &mut Heartbeat| match gate.kind {
        GateKind::KubeletHealthy => http_ok(&healthz(config)),
        GateKind::HttpOk => http_ok(&gate.target),
        GateKind::FileExists => match node.root.kind(&gate.target) {
            Ok(Some(_)) => GateResult::Passed,
            Ok(None) => GateResult::Failed(format!("`{}` does not exist", gate.target)),
            Err(error) => GateResult::Failed(error.to_string()),
        },
        GateKind::UnitActive => is_active(node, &gate.target),
        GateKind::NodeReady => node_ready(cluster, heartbeat),
        GateKind::Unset => GateResult::Passed,
    };
    let gates = gates(config).iter().map(|gate| (gate.name.clone(), result(gate, heartbeat))).collect();
    Checked { gates, kubelet: kubelet_run(node), can_revert }
}

/// The kubelet's process; none if systemd cannot be reached or does not know the unit.
fn kubelet_run(node: &Node) -> Option<KubeletRun> {
    let mut systemd = Systemd::new(node.systemd.as_ref()?, TIMEOUT);
    let restarts = systemd.unit_property(KUBELET_UNIT, SERVICE, "NRestarts").ok()?;
    let started = systemd.unit_property(KUBELET_UNIT, SERVICE, "ExecMainStartTimestampMonotonic").ok()?;
    Some(KubeletRun { restarts, started })
}

/// Whether the node is Ready; none if the API server cannot say.
pub(super) fn readiness(client: Option<&Client>) -> Option<bool> {
    client?.node().ok().map(|node| node.is_ready())
}

/// Whether the API server answers, with whatever status.
pub(super) fn answers(client: Option<&Client>) -> bool {
    client.is_some_and(|client| client.node().err().is_none_or(|error| !error.is_outage()))
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

fn http_ok(url: &str) -> GateResult {
    let config = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_global(Some(TIMEOUT))
        .build();
    match config.new_agent().get(url).call() {
        Ok(response) if response.status().is_success() => GateResult::Passed,
        Ok(response) => GateResult::Failed(format!("`{url}` returned {}", response.status().as_u16())),
        Err(error) => GateResult::Failed(format!("cannot reach `{url}` ({error})")),
    }
}

fn is_active(node: &Node, unit: &str) -> GateResult {
    let Some(socket) = &node.systemd else { return GateResult::Unknown("systemd is not available".to_owned()) };
    match Systemd::new(socket, TIMEOUT).unit(unit) {
        Ok(state) if state.is_active() => GateResult::Passed,
        Ok(state) => GateResult::Failed(format!("`{unit}` is {} ({})", state.active, state.sub)),
        Err(error) => GateResult::Unknown(error.to_string()),
    }
}

/// The gate `nodeReady`. It fails only for a reason that the document can have caused. An API server that cannot be reached fails it if that
/// of the previous document can be, or if it answered until a change that can cut the node off, and never since: an outage hardly begins in
/// that very moment. A node that was not Ready before the change may still be not Ready.
fn node_ready(cluster: ClusterView<'_>, heartbeat: &mut Heartbeat) -> GateResult {
    match is_ready(cluster.client, heartbeat) {
        GateResult::Unknown(why) if cluster.previous.is_some_and(|client| client.node().is_ok()) => {
            GateResult::Failed(format!("{why}; the API server of the previous document can be reached"))
        }
        GateResult::Unknown(why) if cluster.can_cut_off && cluster.was_ready.is_some() && !cluster.has_answered => {
            GateResult::Failed(format!("{why}; it answered until the change"))
        }
        GateResult::Failed(why) if cluster.was_ready == Some(false) => {
            GateResult::Unknown(format!("{why}; it was not Ready before the change either"))
        }
        result => result,
    }
}

fn is_ready(client: Option<&Client>, heartbeat: &mut Heartbeat) -> GateResult {
    let Some(client) = client else { return GateResult::Unknown("the API server is not configured".to_owned()) };
    let (node, renewed) = match client.node().and_then(|node| Ok((node, client.lease_renewed_at()?))) {
        Ok(read) => read,
        Err(error) if error.is_outage() => return GateResult::Unknown(crate::log::error_line(&error)),
        Err(error) => return GateResult::Failed(crate::log::error_line(&error)),
    };
    let ready = node.condition("Ready");
    if !node.is_ready() {
        return GateResult::Failed(ready.map_or("the node has no condition `Ready`".to_owned(), |ready| {
            format!("the node is not Ready: {} {}", ready.reason, ready.message)
        }));
    }
    let condition = ready.and_then(|ready| ready.last_heartbeat_time.clone()).unwrap_or_default();
    let latest = format!("{condition} {}", renewed.unwrap_or_default());
    if heartbeat.0.get_or_insert_with(|| latest.clone()) == &latest {
        return GateResult::Failed("no heartbeat from the kubelet since the trial began".to_owned());
    }
    GateResult::Passed
}

#[cfg(test)]
mod tests {
    use kiln_node_config::spec::{File, Unit};
    use serde_json::json;

    use super::*;

    fn config(configuration: Value) -> NodeConfig {
        let mut config = NodeConfig::default();
        config.spec.kubelet.configuration = serde_json::from_value(configuration).expect("an object");
        config
    }

    #[test]
    fn health_url_follows_the_kubelet_configuration() {
        for (configuration, url) in [
            (json!({}), "http://127.0.0.1:10248/healthz"),
            (json!({"healthzPort": 7, "healthzBindAddress": "0.0.0.0"}), "http://127.0.0.1:7/healthz"),
            (json!({"healthzBindAddress": "::"}), "http://[::1]:10248/healthz"),
            (json!({"healthzBindAddress": "fe80::1"}), "http://[fe80::1]:10248/healthz"),
        ] {
            assert_eq!(healthz(&config(configuration)), url);
        }
    }

    #[test]
    fn only_changes_of_the_cluster_the_machine_and_its_files_can_cut_a_node_off() {
        let before = config(json!({"maxPods": 30}));
        let mut after = config(json!({"maxPods": 40}));
        after.metadata.generation = 2;
        after.spec.health.within_seconds = 60;
        after.spec.runtime.sandbox_image = "pause:1".to_owned();
        assert!(!can_cut_off(&before, &after));
        let changes: [fn(&mut NodeConfig); 6] = [
            |config| config.spec.cluster.endpoint = "https://other".to_owned(),
            |config| config.spec.network.plugin = "bridge".to_owned(),
            |config| config.spec.os.kernel_arguments = vec!["quiet".to_owned()],
            |config| config.spec.platform.report_ready = Some(true),
            |config| config.spec.files = vec![File::default()],
            |config| config.spec.units = vec![Unit::default()],
        ];
        for change in changes {
            let mut document = after.clone();
            change(&mut document);
            assert!(can_cut_off(&before, &document));
        }
    }

    #[test]
    fn api_server_that_is_away_since_the_change_fails_only_a_change_that_can_cut_the_node_off() {
        let view = |was_ready, has_answered, can_cut_off| {
            let cluster = ClusterView { was_ready, has_answered, can_cut_off, ..ClusterView::default() };
            node_ready(cluster, &mut Heartbeat::default())
        };
        assert!(matches!(view(Some(true), false, true), GateResult::Failed(_)));
        for (was_ready, has_answered, can_cut_off) in
            [(Some(true), false, false), (Some(true), true, true), (None, false, true)]
        {
            assert!(matches!(view(was_ready, has_answered, can_cut_off), GateResult::Unknown(_)));
        }
    }

    #[test]
    fn default_gates_are_kubelet_and_node() {
        let kinds: Vec<GateKind> = gates(&NodeConfig::default()).iter().map(|gate| gate.kind).collect();
        assert_eq!(kinds, [GateKind::KubeletHealthy, GateKind::NodeReady]);
    }
}
