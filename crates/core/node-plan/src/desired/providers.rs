//! Programs that answer for registries.

use serde_json::{Value, json};

use super::draft::Draft;
use crate::artifact::Artifact;
use crate::layout;

/// In a generation: who answers for which registry.
pub(super) const FILE: &str = "credential-providers.json";

/// What the exchange is called where the document does not say.
const EXCHANGE: &str = "credentialprovider.kubelet.k8s.io/v1";

/// How long an answer holds where the document does not say: well below the three hours that Azure's registry gives.
const CACHE: &str = "10m";

pub(super) fn render(draft: &mut Draft<'_>) {
    let providers = &draft.spec.kubelet.credential_providers;
    if providers.is_empty() {
        return;
    }
    let mut list = Vec::new();
    for provider in providers {
        let or = |text: &String, usual: &str| if text.is_empty() { usual.to_owned() } else { text.clone() };
        if provider.match_images.is_empty() {
            let path = format!("spec.kubelet.credentialProviders[{}].matchImages", provider.name);
            draft.unfit(path, "a kubelet does not start with a provider that answers for no image");
        }
        let mut entry = json!({
            "name": provider.name,
            "matchImages": provider.match_images,
            "defaultCacheDuration": or(&provider.cache_duration, CACHE),
            "apiVersion": or(&provider.api_version, EXCHANGE),
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
    draft.file(Artifact::plain(FILE, text).restarts(layout::KUBELET_UNIT));
}
