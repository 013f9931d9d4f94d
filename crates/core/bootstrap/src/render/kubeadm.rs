//! `kubeadm join` as a cloud-config, for any image with kubeadm.

use kiln_aks_formats::nbv::labels;
use kiln_aks_formats::{Secret, from_base64, karpenter, to_base64};
use serde_json::{Value, json};

use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;
use crate::resolve::Resolved;

const NEEDED: [&str; 4] = ["clusterEndpoint", "kubernetesVersion", "caBundle", "bootstrapToken"];

/// Files that `kubeadm join` reads. They contain the token and are removed afterwards.
const JOIN: &str = "/run/kiln/kubeadm-join.json";
const DISCOVERY: &str = "/run/kiln/discovery.conf";

/// Renders the cloud-config. The cluster is verified with the contained certificates, never by trust on first use.
pub fn kubeadm_cloud_config(inputs: &Resolved) -> Result<Secret, RenderError> {
    let missing = inputs.missing(&NEEDED);
    if !missing.is_empty() {
        return Err(DeriveError::Missing(missing).into());
    }
    let file = |path: &str, content: &Value| json!({"path": path, "permissions": "0600", "encoding": "b64", "content": to_base64(content.to_string())});
    let config = json!({
        "write_files": [file(DISCOVERY, &discovery(inputs)?), file(JOIN, &join_configuration(inputs)?)],
        "runcmd": [["kubeadm", "join", "--config", JOIN], ["rm", "-f", JOIN, DISCOVERY]],
    });
    Ok(Secret::new(format!("#cloud-config\n{config}\n")))
}

fn discovery(inputs: &Resolved) -> Result<Value, RenderError> {
    let ca = inputs.text("caBundle").trim();
    from_base64(ca).map_err(|_| RenderError::Certificate { field: "caBundle" })?;
    let endpoint = inputs.text("clusterEndpoint");
    let server = if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") };
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": {"server": server, "certificate-authority-data": ca}}],
    }))
}

/// Returns kubeadm's `JoinConfiguration`. Kubernetes 1.31 introduced v1beta4, in which arguments are a list.
fn join_configuration(inputs: &Resolved) -> Result<Value, RenderError> {
    let version = inputs.version()?;
    let mut arguments = inputs.kubelet_settings().flags();
    let node_labels = labels::kubelet_labels(&inputs.node_labels()?);
    if !node_labels.is_empty() {
        arguments.insert("--node-labels".to_owned(), node_labels);
    }
    let arguments = arguments.iter().map(|(flag, value)| (flag.trim_start_matches('-'), value));
    let newest = version.at_least(31);
    let arguments: Value = if newest {
        arguments.map(|(name, value)| json!({"name": name, "value": value})).collect()
    } else {
        arguments
            .map(|(name, value)| (name.to_owned(), Value::from(value.as_str())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let texts = [inputs.list("taints"), inputs.list("startupTaints")].concat();
    let taints = texts.iter().map(|text| {
        let expected = "`key=value:Effect` or `key:Effect`";
        let invalid = || DeriveError::Choice { field: "taints", value: text.clone(), expected };
        text.parse::<karpenter::Taint>().map_err(|_| invalid())
    });
    let taints: Vec<karpenter::Taint> = taints.collect::<Result<_, _>>()?;
    Ok(json!({
        "apiVersion": if newest { "kubeadm.k8s.io/v1beta4" } else { "kubeadm.k8s.io/v1beta3" },
        "kind": "JoinConfiguration",
        "discovery": {"file": {"kubeConfigPath": DISCOVERY}, "tlsBootstrapToken": inputs.text("bootstrapToken")},
        "nodeRegistration": {"kubeletExtraArgs": arguments, "taints": taints},
    }))
}
