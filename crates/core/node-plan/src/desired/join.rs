//! How the kubelet joins the cluster: its kubeconfigs, by the kind of the join credential.

use kiln_node_config::spec::CredentialKind;
use serde_json::{Value, json};

use super::draft::Draft;
use crate::file::DesiredFile;
use crate::image::ExecPlugin;
use crate::join::Credential;
use crate::layout::{self, current};
use kiln_types::SecretBytes;

/// The token audience of AKS clusters. All of them share one.
const AKS_AUDIENCE: &str = "6dae42f8-4368-4678-94ff-3960e28e3630";

pub(super) fn render(draft: &mut Draft<'_>) {
    let mut certificate = layout::CLIENT_CERTIFICATE.to_owned();
    match (&draft.facts.credential, exec(draft)) {
        // A joined node needs no token, and a copy of it would only be a secret on the disk.
        (Some(credential), _) if draft.facts.joined && credential.has_token() => {}
        (Some(credential), _) => {
            draft.file(DesiredFile::secret(layout::CREDENTIAL, credential.bytes().clone()));
            match credential {
                Credential::Token(token) => {
                    let token = String::from_utf8_lossy(token.expose()).into_owned();
                    bootstrap(draft, &json!({"token": token}));
                }
                Credential::Kubeconfig(bytes) => {
                    let file = DesiredFile::secret(layout::BOOTSTRAP_KUBECONFIG, bytes.clone());
                    draft.file(file.restarts(layout::KUBELET_UNIT));
                }
                Credential::ClientCertificate(pem) => {
                    certificate = current(layout::GIVEN_CERTIFICATE);
                    let file = DesiredFile::secret(layout::GIVEN_CERTIFICATE, pem.clone());
                    draft.file(file.restarts(layout::KUBELET_UNIT));
                }
            }
        }
        (None, Some(user)) => bootstrap(draft, &user),
        (None, None) => require_credential(draft),
    }
    // The kubelet rewrites this file when it receives its first certificate.
    let user = json!({"client-certificate": certificate, "client-key": certificate});
    let text = kubeconfig(draft, &user);
    draft.file(DesiredFile::seed(layout::KUBECONFIG, text).restarts(layout::KUBELET_UNIT));
}

fn bootstrap(draft: &mut Draft<'_>, user: &Value) {
    let text = kubeconfig(draft, user);
    draft
        .file(DesiredFile::secret(layout::BOOTSTRAP_KUBECONFIG, SecretBytes::new(text)).restarts(layout::KUBELET_UNIT));
}

fn require_credential(draft: &mut Draft<'_>) {
    let from = &draft.spec.credential_from;
    if from.kind != CredentialKind::Unset && !draft.facts.joined {
        let name = if from.name.is_empty() { String::new() } else { format!(" `{}`", from.name) };
        draft.reject("spec.credentialFrom", format!("`{}`{name} provides no credential", from.kind.as_str()));
    }
}

/// The kubeconfig user with an exec plugin.
fn exec(draft: &Draft<'_>) -> Option<Value> {
    let from = &draft.spec.credential_from;
    let plugin =
        draft.facts.image.exec_plugins.get(from.kind.as_str()).cloned().or_else(|| default_plugin(from.kind))?;
    let endpoint = match from.kind {
        CredentialKind::ManagedIdentity if from.endpoint.is_empty() => AKS_AUDIENCE,
        _ => &from.endpoint,
    };
    let args: Vec<String> = plugin.args.iter().filter_map(|arg| filled(arg, &from.name, endpoint)).collect();
    Some(json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin.command,
        "args": args,
        "interactiveMode": "Never",
        "provideClusterInfo": false,
    }}))
}

/// An argument with its placeholders replaced; none if a placeholder has no value.
fn filled(arg: &str, name: &str, endpoint: &str) -> Option<String> {
    let empty = (arg.contains("{name}") && name.is_empty()) || (arg.contains("{endpoint}") && endpoint.is_empty());
    (!empty).then(|| arg.replace("{name}", name).replace("{endpoint}", endpoint))
}

/// The exec plugin if the image names none.
fn default_plugin(kind: CredentialKind) -> Option<ExecPlugin> {
    (kind == CredentialKind::ManagedIdentity).then(|| ExecPlugin {
        command: "/usr/bin/kubelogin".to_owned(),
        args: ["get-token", "--login=msi", "--server-id={endpoint}", "--client-id={name}"].map(str::to_owned).into(),
    })
}

fn kubeconfig(draft: &Draft<'_>, user: &Value) -> String {
    let (cluster, name) = (&draft.spec.cluster, "cluster");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": cluster.endpoint,
            "certificate-authority": current(layout::CLUSTER_CA),
        }}],
        "users": [{"name": "kubelet", "user": user}],
        "contexts": [{"name": "kubelet", "context": {"cluster": name, "user": "kubelet"}}],
        "current-context": "kubelet",
    });
    kiln_node_config::canonical::text(&config) + "\n"
}
