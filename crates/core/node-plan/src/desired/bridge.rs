//! The pod network of the plugin `bridge`: a bridge on the node, with addresses from the range that the cluster gave the node.
//!
//! **The range** comes from `spec.podCIDRs` of the Node, which exists only after the node has joined and differs on every node of a pool. So the
//! document cannot contain it, and neither can a file that is written before the kubelet starts. containerd has a setting for this: when the
//! kubelet reports the range of its Node, containerd renders [`TEMPLATE`] to [`RENDERED`], unless a network is configured already. kilnd needs
//! neither the API server nor another write for it. A rendered file would outlive the range: a clone would use its donor's, and a node that
//! was deleted and registered again its old one. Therefore systemd-tmpfiles removes it at every boot, and a plan that changes the template
//! deletes it.
//!
//! **Hairpin mode** lets a pod reach itself through a Service: the packet leaves through the port on which it arrived. The alternative, a
//! bridge in promiscuous mode, passes every frame to the node as well, which forwards packets to Services a second time: kubenet removed these
//! duplicates with ebtables rules (`EnsureNoDupePromiscuousBridge`). Without promiscuous mode there are no duplicates and no rules are
//! needed. The plugin rejects both modes together.

use std::fmt::Write as _;

use kiln_node_config::spec::Spec;

use super::draft::Draft;
use super::runtime::CNI_FOLDER;
use crate::file::DesiredFile;
use crate::layout::{KUBELET_UNIT, RUNTIME_UNIT};

/// In a generation: the template of the CNI configuration.
pub(super) const TEMPLATE: &str = "cni.template";

/// The name of the file that containerd renders, which cannot be configured.
const RENDERED: &str = "10-containerd-net.conflist";

/// Tells systemd-tmpfiles to remove the rendered file at boot.
const CLEANUP: &str = "/etc/tmpfiles.d/90-kiln-cni.conf";

/// Whether the node configures a bridge for its pods. `kubenet` is the name of the same network in the kubelet of old.
pub(super) fn is_used(spec: &Spec) -> bool {
    matches!(spec.network.plugin.as_str(), "bridge" | "kubenet")
}

pub(super) fn render(draft: &mut Draft<'_>) {
    let Some(text) = template(draft.spec) else { return };
    // The kubelet reports the range when it starts.
    draft.file(DesiredFile::plain(TEMPLATE, text).restarts(RUNTIME_UNIT).restarts(KUBELET_UNIT));
    draft.elsewhere(DesiredFile::plain(CLEANUP, format!("r! {}\n", rendered())));
}

/// The path of the CNI configuration that containerd renders.
pub(crate) fn rendered() -> String {
    format!("{CNI_FOLDER}/{RENDERED}")
}

/// The template, in the syntax of Go's `text/template`; none if the document uses another plugin.
pub(crate) fn template(spec: &Spec) -> Option<String> {
    if !is_used(spec) {
        return None;
    }
    let mut mtu = String::new();
    if spec.network.mtu != 0 {
        let _ = write!(mtu, "\n      \"mtu\": {},", spec.network.mtu);
    }
    Some(
        r#"{
  "cniVersion": "0.4.0",
  "name": "kiln",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cbr0",
      "isGateway": true,
      "ipMasq": false,
      "hairpinMode": true,MTU
      "ipam": {
        "type": "host-local",
        "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
        "routes": [{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
"#
        .replace("MTU", &mtu),
    )
}

#[cfg(test)]
mod tests {
    use kiln_node_config::spec::Network;
    use serde_json::Value;

    use super::*;

    fn spec(plugin: &str, mtu: u32) -> Spec {
        Spec { network: Network { plugin: plugin.to_owned(), mtu, ..Network::default() }, ..Spec::default() }
    }

    /// The template with one IPv4 range.
    fn rendered(mtu: u32) -> Value {
        let text = template(&spec("bridge", mtu)).expect("a bridge");
        let text = text.replace("{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}", "");
        let text = text.replace("{{range $i, $route := .Routes}}{{if $i}}, {{end}}", "").replace("{{end}}", "");
        let text = text.replace("{{$range}}", "10.244.1.0/24").replace("{{$route}}", "0.0.0.0/0");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn bridge_has_hairpin_mode_and_no_promiscuous_mode() {
        let bridge = &rendered(0)["plugins"][0];
        assert_eq!((&bridge["hairpinMode"], &bridge["promiscMode"]), (&Value::from(true), &Value::Null));
        assert_eq!(bridge["ipam"]["ranges"][0][0]["subnet"], "10.244.1.0/24");
    }

    #[test]
    fn mtu_is_that_of_the_document() {
        assert_eq!(rendered(1400)["plugins"][0]["mtu"], 1400);
        assert_eq!(rendered(0)["plugins"][0]["mtu"], Value::Null);
    }

    #[test]
    fn other_plugins_have_no_template() {
        assert_eq!(template(&spec("azure", 0)), None);
        assert_eq!(template(&spec("kubenet", 0)), template(&spec("bridge", 0)));
    }
}
