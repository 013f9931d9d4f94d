//! The kubelet's configuration file.

use kiln_types::json::merge_patch;
use serde_json::{Map, Value, json};

use super::draft::Draft;
use crate::file::DesiredFile;
use crate::json::at;
use crate::layout::{self, current};

const VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

const RUNTIME_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

pub(super) fn render(draft: &mut Draft<'_>) {
    let kubelet = &draft.spec.kubelet;
    if let Some(path) = draft.facts.image.kubelet(&kubelet.version) {
        draft.file(DesiredFile::link("kubelet", path).restarts(layout::KUBELET_UNIT));
    } else {
        let available: Vec<&str> = draft.facts.image.kubelets.keys().map(String::as_str).collect();
        draft.reject(
            "spec.kubelet.version",
            format!("the image has no kubelet {}; it has {}", kubelet.version, available.join(", ")),
        );
    }
    draft.file(
        DesiredFile::plain(layout::CLUSTER_CA, ended(&draft.spec.cluster.certificate_authority))
            .restarts(layout::KUBELET_UNIT),
    );
    let configuration = configuration(draft);
    check(&configuration, draft);
    let text = kiln_node_config::canonical::text(&configuration) + "\n";
    draft.file(DesiredFile::plain(layout::KUBELET_CONFIG, text).restarts(layout::KUBELET_UNIT));
}

/// The text with exactly one newline at its end.
pub(super) fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// kiln's defaults, overridden by the document.
fn configuration(draft: &Draft<'_>) -> Value {
    let spec = draft.spec;
    let mut own = json!({
        "apiVersion": VERSION,
        "kind": KIND,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": current(layout::CLUSTER_CA)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": if spec.runtime.systemd_cgroup.unwrap_or(true) { "systemd" } else { "cgroupfs" },
        "containerRuntimeEndpoint": RUNTIME_ENDPOINT,
        "rotateCertificates": true,
    });
    let map = own.as_object_mut().expect("an object");
    let dns = &spec.cluster.dns;
    if !dns.service_ips.is_empty() {
        map.insert("clusterDNS".to_owned(), json!(dns.service_ips));
    }
    if !dns.domain.is_empty() {
        map.insert("clusterDomain".to_owned(), json!(dns.domain));
    }
    if !draft.facts.image.resolv_conf.is_empty() {
        map.insert("resolvConf".to_owned(), json!(draft.facts.image.resolv_conf));
    }
    if spec.os.swap.size_mib > 0 {
        map.insert("failSwapOn".to_owned(), json!(false));
    }
    let asked: Map<String, Value> = spec.kubelet.configuration.clone().into_iter().collect();
    merge_patch(&mut own, &Value::Object(asked));
    own
}

/// Rejects configurations with which the kubelet would not start.
fn check(configuration: &Value, draft: &mut Draft<'_>) {
    let text = |path: &[&str]| at(configuration, path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let field = |name: &str| format!("spec.kubelet.configuration[{name}]");
    let known = text(&["kind"]) == KIND && text(&["apiVersion"]) == VERSION;
    draft.reject_if(!known, "spec.kubelet.configuration", format!("only `{KIND}` of `{VERSION}` is supported"));
    let swap = draft.spec.os.swap.size_mib > 0 && configuration["failSwapOn"] != json!(false);
    draft.reject_if(swap, field("failSwapOn"), "must be false if `spec.os.swap` is set, or the kubelet does not start");
    let reserved = ["kubeReserved", "systemReserved"].iter().any(|part| !text(&[part, "cpu"]).is_empty())
        || !text(&["reservedSystemCPUs"]).is_empty();
    draft.reject_if(
        text(&["cpuManagerPolicy"]) == "static" && !reserved,
        field("cpuManagerPolicy"),
        "`static` needs reserved CPUs: set kubeReserved.cpu, systemReserved.cpu or reservedSystemCPUs",
    );
    let (highest, cpus) = (highest(&text(&["reservedSystemCPUs"])), draft.facts.cpus);
    draft.reject_if(
        cpus > 0 && highest.is_some_and(|highest| highest >= cpus),
        field("reservedSystemCPUs"),
        format!("the machine has {cpus} CPUs, numbered from 0"),
    );
}

/// The highest number of a list like `0-2,5`.
fn highest(list: &str) -> Option<u32> {
    list.split([',', '-']).filter_map(|number| number.trim().parse().ok()).max()
}
