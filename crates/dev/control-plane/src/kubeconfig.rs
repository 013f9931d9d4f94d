//! Kubeconfig files, written as JSON, which is valid YAML.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::Credential;

/// A self-contained kubeconfig.
pub(crate) fn render(server: &str, authority: &str, user: &str, credential: &Credential) -> String {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "kiln",
            "cluster": { "server": server, "certificate-authority-data": STANDARD.encode(authority) },
        }],
        "users": [{
            "name": user,
            "user": {
                "client-certificate-data": STANDARD.encode(&credential.certificate),
                "client-key-data": STANDARD.encode(&credential.key),
            },
        }],
        "contexts": [{ "name": "kiln", "context": { "cluster": "kiln", "user": user } }],
        "current-context": "kiln",
    });
    format!("{document:#}\n")
}
