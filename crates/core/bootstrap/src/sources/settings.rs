//! Global settings: a plain file of fields, or Karpenter's `ConfigMap`.

use serde_json::Value;

use super::{SourceError, all_well};
use crate::document::Document;
use crate::kind::Kind;
use crate::layer::Layer;

/// Karpenter's names that differ from ours.
const KARPENTER: [(&str, &str); 4] = [
    ("clusterID", "clusterId"),
    ("kubeletClientTLSBootstrapToken", "bootstrapToken"),
    ("tags", "additionalTags"),
    ("networkPluginMode", "networkPluginMode"),
];

/// Karpenter's settings that no node sees.
const NOT_OF_NODES: [&str; 1] = ["vmMemoryOverheadPercent"];

/// The layer of a settings file.
pub fn settings(document: &Document) -> Result<Layer, SourceError> {
    let mut layer = Layer::new(Kind::Settings);
    let mut mistakes = Vec::new();
    let value = document.value();
    if value.get("kind").and_then(Value::as_str) == Some("ConfigMap") {
        for (key, value) in value.get("data").and_then(Value::as_object).into_iter().flatten() {
            mistakes.extend(config_map_entry(document, key, value, &mut layer).err());
        }
    } else {
        let Some(fields) = value.as_object() else {
            let reason = if value.is_null() {
                "it is empty: settings are names with values"
            } else {
                "settings are names with values"
            };
            return Err(document.wrong("", reason).into());
        };
        for (name, value) in fields {
            let set = layer.set(name, value.clone(), document.place(name));
            mistakes.extend(set.err().map(SourceError::from));
        }
    }
    all_well(mistakes)?;
    Ok(layer)
}

fn config_map_entry(document: &Document, key: &str, value: &Value, layer: &mut Layer) -> Result<(), SourceError> {
    let path = format!("data.{key}");
    let short = key.strip_prefix("azure.").unwrap_or(key);
    if NOT_OF_NODES.contains(&short) {
        return Ok(());
    }
    let name = KARPENTER.iter().find(|(theirs, _)| *theirs == short).map_or(short, |(_, ours)| ours);
    let Some(text) = value.as_str() else {
        return Err(document.wrong(&path, "the data of a ConfigMap are texts").into());
    };
    let place = document.place(&path);
    // Karpenter writes maps and lists as JSON.
    match serde_json::from_str::<Value>(text) {
        Ok(json @ (Value::Object(_) | Value::Array(_))) => layer.set(name, json, place)?,
        _ => layer.set_text(name, text, place)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_sets_fields_by_name_and_line() {
        let document = Document::read("s.yaml", "tenantId: t\nkubernetesVersion: 1.33.7\nDisableSSHx: true\n").unwrap();
        let error = settings(&document).unwrap_err().to_string();
        assert_eq!(error, "s.yaml:3:14: at `DisableSSHx`: there is no field `DisableSSHx`; `DisableSSH` may be meant");
        let document =
            Document::read("s.yaml", "tenantId: no\nLoadBalancerSKU: Basic\nadditionalTags: {a: b}\n").unwrap();
        let layer = settings(&document).unwrap();
        let find = |name: &str| layer.assignments.iter().find(|a| a.field == name).unwrap();
        assert_eq!(find("tenantId").value, "no");
        assert_eq!(find("LoadBalancerSKU").place.to_string(), "s.yaml:2 LoadBalancerSKU");
    }

    #[test]
    fn what_holds_no_names_is_refused_as_a_whole() {
        let error = |text: &str| settings(&Document::read("s.yaml", text).unwrap()).unwrap_err().to_string();
        assert_eq!(error(""), "s.yaml:1:1: it is empty: settings are names with values");
        assert_eq!(error("[1]\n"), "s.yaml:1:1: settings are names with values");
    }

    #[test]
    fn digits_without_quotes_are_no_text_and_would_lose_their_zeros() {
        let document = Document::read("s.yaml", "clusterId: 04659330\n").unwrap();
        let error = settings(&document).unwrap_err().to_string();
        assert_eq!(error, "s.yaml:1:12: at `clusterId`: `clusterId` is a text; a number needs quotes to be one");
    }

    #[test]
    fn karpenters_config_map_is_read() {
        let text = "kind: ConfigMap\ndata:\n  azure.clusterID: '46593302'\n  azure.tags: '{\"a\": \"b\"}'\n  azure.nodeIdentities: '[\"x\"]'\n  \
                    azure.vmMemoryOverheadPercent: '0.075'\n  azure.clusterName: c\n";
        let layer = settings(&Document::read("s.yaml", text).unwrap()).unwrap();
        let names: Vec<_> = layer.assignments.iter().map(|assignment| assignment.field).collect();
        assert_eq!(names, ["clusterId", "clusterName", "nodeIdentities", "additionalTags"]);
        assert_eq!(layer.assignments[3].value, serde_json::json!({"a": "b"}));
        assert_eq!(layer.assignments[0].place.to_string(), "s.yaml:3 data.azure.clusterID");
    }
}
