//! The pod network, as far as a node can configure it without an agent in the cluster.

use serde_json::{Value, json};

use super::Setting;
use super::draft::Draft;
use super::runtime::CNI_FOLDER;
use crate::file::DesiredFile;
use crate::layout::RUNTIME_UNIT;

const BRIDGE: &str = "10-kiln.conflist";

pub(super) fn render(draft: &mut Draft<'_>) {
    metadata(draft);
    let network = &draft.spec.network;
    let list = match network.plugin.as_str() {
        // An agent in the cluster writes the CNI configuration.
        "" | "none" => None,
        "kubenet" | "bridge" => bridge(draft),
        "azure" => azure(draft),
        other => {
            draft.reject(
                "spec.network.plugin",
                format!("unknown plugin `{other}`; expected `none`, `bridge`, `kubenet` or `azure`"),
            );
            None
        }
    };
    if let Some(list) = list {
        let text = kiln_node_config::canonical::text(&list) + "\n";
        draft.elsewhere(DesiredFile::plain(format!("{CNI_FOLDER}/{BRIDGE}"), text).restarts(RUNTIME_UNIT));
    }
    if network.mtu != 0 {
        let text = format!("[Match]\nType=ether\nKind=!*\n\n[Link]\nMTUBytes={}\n", network.mtu);
        draft.elsewhere(DesiredFile::plain("/etc/systemd/network/05-kiln.link", text));
        let path = format!("/sys/class/net/{}/mtu", draft.facts.image.interface);
        draft.desired.kernel.push(Setting { path, value: network.mtu.to_string(), optional: true });
    }
}

/// Blocks the metadata service with routing rules, which only apply to packets that the node forwards.
fn metadata(draft: &mut Draft<'_>) {
    let network = &draft.spec.network;
    let block = network.block_metadata == Some(true);
    draft.reject_if(
        block && network.plugin == "azure" && network.mode == "bridge",
        "spec.network.blockMetadata",
        "not possible in mode `bridge`: packets of pods leave through the node's interface without being routed",
    );
    draft.desired.block_metadata = block;
}

/// A bridge on the node, with addresses from the kubelet's pod CIDR.
fn bridge(draft: &mut Draft<'_>) -> Option<Value> {
    let range = draft.spec.kubelet.configuration.get("podCIDR").and_then(Value::as_str).map(str::to_owned);
    let Some(range) = range else {
        draft.reject("spec.kubelet.configuration[podCIDR]", "required by the plugin `bridge`");
        return None;
    };
    let network = &draft.spec.network;
    let mut bridge = json!({
        "type": "bridge", "bridge": "cbr0", "isGateway": true, "ipMasq": false, "hairpinMode": true, "promiscMode": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": range}]], "routes": [{"dst": "0.0.0.0/0"}]},
    });
    if network.mtu != 0 {
        bridge["mtu"] = json!(network.mtu);
    }
    // Calico must not see packets twice.
    if network.policy == "calico" {
        bridge["promiscMode"] = json!(false);
    }
    let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    Some(json!({"cniVersion": "0.4.0", "name": "kiln", "plugins": [bridge, ports]}))
}

/// Azure's CNI plugin, which gets its addresses from the platform.
fn azure(draft: &mut Draft<'_>) -> Option<Value> {
    let mode = match draft.spec.network.mode.as_str() {
        "" => "transparent",
        mode @ ("transparent" | "bridge") => mode,
        other => {
            let reason =
                format!("`{other}` is configured by an agent in the cluster; set `spec.network.plugin` to `none`");
            draft.reject("spec.network.mode", reason);
            return None;
        }
    };
    let vnet = json!({"type": "azure-vnet", "mode": mode, "ipsToRouteViaHost": ["169.254.20.10"], "ipam": {"type": "azure-vnet-ipam"}});
    let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true});
    Some(json!({"cniVersion": "0.3.0", "name": "azure", "plugins": [vnet, ports]}))
}
