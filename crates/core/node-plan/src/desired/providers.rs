//! Credential providers: programs from which the kubelet gets credentials for registries.

use serde_json::{Value, json};

use super::draft::Draft;
use crate::file::DesiredFile;
use crate::layout;

/// In a generation: the credential provider configuration.
pub(super) const FILE: &str = "credential-providers.json";

/// The default API version of the exchange with a provider.
const API_VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";

/// The default cache duration, well below the three hours for which credentials of Azure's registry are valid.
const CACHE: &str = "10m";

pub(super) fn render(draft: &mut Draft<'_>) {
    let providers = &draft.spec.kubelet.credential_providers;
    if providers.is_empty() {
        return;
    }
    let mut list = Vec::new();
    for provider in providers {
        let or = |text: &String, default: &str| if text.is_empty() { default.to_owned() } else { text.clone() };
        if provider.match_images.is_empty() {
            let path = format!("spec.kubelet.credentialProviders[{}].matchImages", provider.name);
            draft.reject(path, "must not be empty, or the kubelet does not start");
        }
        let mut entry = json!({
            "name": provider.name,
            "matchImages": provider.match_images,
            "defaultCacheDuration": or(&provider.cache_duration, CACHE),
            "apiVersion": or(&provider.api_version, API_VERSION),
        });
        if !provider.args.is_empty() {
            entry["args"] = json!(provider.args);
        }
        if !provider.env.is_empty() {
            let env = provider.env.iter().map(|(name, value)| json!({"name": name, "value": value}));
            entry["env"] = env.collect::<Vec<Value>>().into();
        }
        list.push(entry);
    }
    let config =
        json!({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": list});
    let text = kiln_node_config::canonical::text(&config) + "\n";
    draft.file(DesiredFile::plain(FILE, text).restarts(layout::KUBELET_UNIT));
}
