//! The pod network, as far as a node can configure it without an agent in the cluster.

use serde_json::{Value, json};

use super::draft::Draft;
use super::runtime::CNI_FOLDER;
use super::{bridge, mtu};
use crate::cloud_service::CloudService;
use crate::file::DesiredFile;
use crate::layout::RUNTIME_UNIT;

const AZURE: &str = "10-kiln.conflist";

pub(super) fn render(draft: &mut Draft<'_>) {
    block(draft);
    mtu::render(draft);
    let list = match draft.spec.network.plugin.as_str() {
        // An agent in the cluster writes the CNI configuration.
        "" | "none" => None,
        "kubenet" | "bridge" => {
            bridge::render(draft);
            None
        }
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
        draft.elsewhere(DesiredFile::plain(format!("{CNI_FOLDER}/{AZURE}"), text).restarts(RUNTIME_UNIT));
    }
}

/// Blocks services of the cloud with routing rules, which only apply to packets that the node forwards.
fn block(draft: &mut Draft<'_>) {
    let network = &draft.spec.network;
    let is_routed = !(network.plugin == "azure" && network.mode == "bridge");
    for (service, field, wanted) in [
        (CloudService::MetadataService, "blockMetadata", network.block_metadata),
        (CloudService::WireServer, "blockWireServer", network.block_wire_server),
    ] {
        if wanted != Some(true) {
            continue;
        }
        draft.reject_if(
            !is_routed,
            format!("spec.network.{field}"),
            "not possible in mode `bridge`: packets of pods leave through the node's interface without being routed",
        );
        draft.desired.blocked.insert(service);
    }
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
