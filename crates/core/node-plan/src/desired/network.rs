//! The network of the node's pods, as far as a node can set it up without an agent.

use serde_json::{Value, json};

use super::Setting;
use super::draft::Draft;
use super::runtime::CNI_FOLDER;
use crate::artifact::Artifact;
use crate::layout::RUNTIME_UNIT;

const BRIDGE: &str = "10-kiln.conflist";

pub(super) fn render(draft: &mut Draft<'_>) {
    metadata(draft);
    let network = &draft.spec.network;
    let list = match network.plugin.as_str() {
        // An agent in the cluster writes the configuration.
        "" | "none" => None,
        "kubenet" | "bridge" => bridge(draft),
        "azure" => azure(draft),
        other => {
            draft.unfit("spec.network.plugin", format!("`{other}` is none of none, bridge, kubenet, azure"));
            None
        }
    };
    if let Some(list) = list {
        let text = kiln_node_config::canonical::text(&list) + "\n";
        draft.elsewhere(Artifact::plain(format!("{CNI_FOLDER}/{BRIDGE}"), text).restarts(RUNTIME_UNIT));
    }
    if network.mtu != 0 {
        let text = format!("[Match]\nType=ether\nKind=!*\n\n[Link]\nMTUBytes={}\n", network.mtu);
        draft.elsewhere(Artifact::plain("/etc/systemd/network/05-kiln.link", text));
        let path = format!("/sys/class/net/{}/mtu", draft.facts.image.interface);
        draft.desired.kernel.push(Setting { path, value: network.mtu.to_string(), optional: true });
    }
}

/// Rules of the node's routing keep pods away: they hold for packets that the node routes.
fn metadata(draft: &mut Draft<'_>) {
    let network = &draft.spec.network;
    let block = network.block_metadata == Some(true);
    draft.unfit_when(
        block && network.plugin == "azure" && network.mode == "bridge",
        "spec.network.blockMetadata",
        "in the mode `bridge` packets of pods leave over the node's own link and are not routed by it",
    );
    draft.desired.block_metadata = block;
}

/// A bridge of the node's own, with addresses of the range that the kubelet is given.
fn bridge(draft: &mut Draft<'_>) -> Option<Value> {
    let range = draft.spec.kubelet.configuration.get("podCIDR").and_then(Value::as_str).map(str::to_owned);
    let Some(range) = range else {
        draft.unfit("spec.kubelet.configuration[podCIDR]", "a bridge needs the range of its pods' addresses");
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
    // With calico the policy engine sees every packet; a bridge that shows packets twice would confuse it.
    if network.policy == "calico" {
        bridge["promiscMode"] = json!(false);
    }
    let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    Some(json!({"cniVersion": "0.4.0", "name": "kiln", "plugins": [bridge, ports]}))
}

/// Azure's own plugin, which gets its addresses from the platform.
fn azure(draft: &mut Draft<'_>) -> Option<Value> {
    let mode = match draft.spec.network.mode.as_str() {
        "" => "transparent",
        mode @ ("transparent" | "bridge") => mode,
        other => {
            let reason =
                format!("`{other}` is set up by an agent in the cluster: the node's own plugin is then `none`");
            draft.unfit("spec.network.mode", reason);
            return None;
        }
    };
    let vnet = json!({"type": "azure-vnet", "mode": mode, "ipsToRouteViaHost": ["169.254.20.10"], "ipam": {"type": "azure-vnet-ipam"}});
    let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true});
    Some(json!({"cniVersion": "0.3.0", "name": "azure", "plugins": [vnet, ports]}))
}
