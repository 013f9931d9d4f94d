//! The documents of all NodeConfigs, parsed once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kiln_fleet_api::{Effect, NodeConfig};
use kiln_node_plan::effect_between;

use super::store::Snapshot;

/// A valid document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) digest: String,
    pub(super) config: kiln_node_config::NodeConfig,
}

/// The documents of all NodeConfigs. A NodeConfig never changes, so each is parsed once.
#[derive(Default)]
pub(super) struct Documents {
    by_name: BTreeMap<String, Parsed>,
    by_digest: HashMap<String, Arc<Document>>,
    /// By the digests of the document in force and the new one.
    effects: HashMap<(String, String), Effect>,
}

struct Parsed {
    /// `metadata.uid`: a NodeConfig that was deleted and created again is another one.
    uid: Option<String>,
    document: Result<Arc<Document>, String>,
}

impl Documents {
    /// Parses new NodeConfigs and forgets deleted ones.
    pub(super) fn update(&mut self, configs: &Snapshot<NodeConfig>) {
        let before = self.by_name.len();
        self.by_name.retain(|name, parsed| configs.get(name).is_some_and(|config| config.metadata.uid == parsed.uid));
        let mut is_changed = self.by_name.len() != before;
        for (name, config) in configs {
            if !self.by_name.contains_key(name) {
                let document = parse(&config.spec.document).map(Arc::new);
                self.by_name.insert(name.clone(), Parsed { uid: config.metadata.uid.clone(), document });
                is_changed = true;
            }
        }
        if is_changed {
            let documents = self.by_name.values().filter_map(|parsed| parsed.document.as_ref().ok());
            self.by_digest = documents.map(|document| (document.digest.clone(), document.clone())).collect();
            self.effects.clear();
        }
    }

    /// The document of a NodeConfig, or why it is invalid; `None` if it does not exist.
    pub(super) fn get(&self, name: &str) -> Option<Result<&Arc<Document>, &str>> {
        self.by_name.get(name).map(|parsed| parsed.document.as_ref().map_err(String::as_str))
    }

    /// The document with a digest.
    pub(super) fn by_digest(&self, digest: &str) -> Option<&Arc<Document>> {
        self.by_digest.get(digest)
    }

    /// All valid documents.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Document>> {
        self.by_digest.values()
    }

    /// The effect of a change between two documents, if both are known.
    pub(super) fn effect(&mut self, from: &str, to: &str) -> Option<Effect> {
        if from == to {
            return Some(Effect::None);
        }
        let key = (from.to_owned(), to.to_owned());
        if let Some(known) = self.effects.get(&key) {
            return Some(*known);
        }
        let effect = effect_between(&self.by_digest(from)?.config, &self.by_digest(to)?.config);
        self.effects.insert(key, effect);
        Some(effect)
    }
}

fn parse(text: &str) -> Result<Document, String> {
    let config = kiln_node_config::NodeConfig::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(Document { digest: config.hash(), config })
}

/// A valid document with these settings of the kubelet.
#[cfg(test)]
pub(super) fn valid_document(name: &str, kubelet: &serde_json::Value) -> String {
    let mut document = serde_json::json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name, "generation": 1},
        "spec": {
            "cluster": {
                "endpoint": "https://cluster.example",
                "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
            "kubelet": {"version": "1.33.7"},
        },
    });
    for (field, value) in kubelet.as_object().into_iter().flatten() {
        document["spec"]["kubelet"][field] = value.clone();
    }
    document.to_string()
}

#[cfg(test)]
mod tests {
    use kiln_fleet_api::NodeConfigSpec;
    use serde_json::json;

    use super::*;

    fn config(name: &str, uid: &str, log_size: &str) -> (String, Arc<NodeConfig>) {
        let document = valid_document(name, &json!({"configuration": {"containerLogMaxSize": log_size}}));
        let mut config = NodeConfig::new(name, NodeConfigSpec { document });
        config.metadata.uid = Some(uid.to_owned());
        (name.to_owned(), Arc::new(config))
    }

    #[test]
    fn documents_follow_the_node_configs() {
        let mut documents = Documents::default();
        let mut configs = Snapshot::from([config("a", "1", "5Mi"), config("b", "2", "6Mi")]);
        configs
            .insert("bad".to_owned(), Arc::new(NodeConfig::new("bad", NodeConfigSpec { document: "{}".to_owned() })));
        documents.update(&configs);
        let digest = |documents: &Documents, name: &str| documents.get(name).unwrap().unwrap().digest.clone();
        let (a, b) = (digest(&documents, "a"), digest(&documents, "b"));
        assert_ne!(a, b);
        assert!(documents.get("bad").unwrap().is_err() && documents.get("none").is_none());
        assert_eq!(documents.effect(&a, &b), Some(Effect::Restart));
        assert_eq!(documents.effect(&a, &a), Some(Effect::None));
        assert_eq!(documents.effect("other", &b), None);

        let (name, recreated) = config("a", "3", "7Mi");
        configs.insert(name, recreated);
        configs.remove("b");
        documents.update(&configs);
        assert_ne!(digest(&documents, "a"), a, "the NodeConfig was deleted and created again");
        assert!(documents.by_digest(&a).is_none() && documents.by_digest(&b).is_none());
    }
}
