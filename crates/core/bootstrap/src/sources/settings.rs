//! Global settings as a source: a plain file of fields, or Karpenter's `ConfigMap`.

use serde_json::Value;

use super::{SourceError, combine};
use crate::document::Document;
use crate::provenance::SourceKind;
use crate::source::Source;

/// Karpenter settings whose name differs from the field.
const KARPENTER: [(&str, &str); 4] = [
    ("clusterID", "clusterId"),
    ("kubeletClientTLSBootstrapToken", "bootstrapToken"),
    ("tags", "additionalTags"),
    ("networkPluginMode", "networkPluginMode"),
];

/// Karpenter settings that do not affect nodes.
const IGNORED: [&str; 1] = ["vmMemoryOverheadPercent"];

/// Returns the source of a settings file.
pub fn settings(document: &Document) -> Result<Source, SourceError> {
    let mut source = Source::new(SourceKind::Settings);
    let mut errors = Vec::new();
    let value = document.value();
    if value.get("kind").and_then(Value::as_str) == Some("ConfigMap") {
        for (key, value) in value.get("data").and_then(Value::as_object).into_iter().flatten() {
            errors.extend(config_map_entry(document, key, value, &mut source).err());
        }
    } else {
        let Some(fields) = value.as_object() else {
            let reason = if value.is_null() {
                "the file is empty; expected a map of settings"
            } else {
                "expected a map of settings"
            };
            return Err(document.error_at("", reason).into());
        };
        for (name, value) in fields {
            let set = source.set(name, value.clone(), document.position(name));
            errors.extend(set.err().map(SourceError::from));
        }
    }
    combine(errors)?;
    Ok(source)
}

fn config_map_entry(document: &Document, key: &str, value: &Value, source: &mut Source) -> Result<(), SourceError> {
    let path = format!("data.{key}");
    let short = key.strip_prefix("azure.").unwrap_or(key);
    if IGNORED.contains(&short) {
        return Ok(());
    }
    let name = KARPENTER.iter().find(|(karpenter, _)| *karpenter == short).map_or(short, |(_, field)| field);
    let Some(text) = value.as_str() else {
        return Err(document.error_at(&path, "ConfigMap data must be strings").into());
    };
    let position = document.position(&path);
    // Karpenter writes maps and lists as JSON.
    match serde_json::from_str::<Value>(text) {
        Ok(json @ (Value::Object(_) | Value::Array(_))) => source.set(name, json, position)?,
        _ => source.set_text(name, text, position)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_file_sets_fields_by_name() {
        let document = Document::read("s.yaml", "tenantId: t\nkubernetesVersion: 1.33.7\nDisableSSHx: true\n").unwrap();
        let error = settings(&document).unwrap_err().to_string();
        assert_eq!(error, "s.yaml:3:14: at `DisableSSHx`: unknown field `DisableSSHx`; did you mean `DisableSSH`?");
        let document =
            Document::read("s.yaml", "tenantId: no\nLoadBalancerSKU: Basic\nadditionalTags: {a: b}\n").unwrap();
        let source = settings(&document).unwrap();
        let find = |name: &str| source.assignments.iter().find(|a| a.field == name).unwrap();
        assert_eq!(find("tenantId").value, "no");
        assert_eq!(find("LoadBalancerSKU").position.to_string(), "s.yaml:2 LoadBalancerSKU");
    }

    #[test]
    fn file_without_a_map_is_rejected() {
        let error = |text: &str| settings(&Document::read("s.yaml", text).unwrap()).unwrap_err().to_string();
        assert_eq!(error(""), "s.yaml:1:1: the file is empty; expected a map of settings");
        assert_eq!(error("[1]\n"), "s.yaml:1:1: expected a map of settings");
    }

    #[test]
    fn unquoted_digits_are_rejected_because_leading_zeros_would_be_lost() {
        let document = Document::read("s.yaml", "clusterId: 04659330\n").unwrap();
        let error = settings(&document).unwrap_err().to_string();
        assert_eq!(error, "s.yaml:1:12: at `clusterId`: `clusterId` must be a string; put quotes around numbers");
    }

    #[test]
    fn karpenter_config_map_is_accepted() {
        let text = "kind: ConfigMap\ndata:\n  azure.clusterID: '46593302'\n  azure.tags: '{\"a\": \"b\"}'\n  azure.nodeIdentities: '[\"x\"]'\n  \
                    azure.vmMemoryOverheadPercent: '0.075'\n  azure.clusterName: c\n";
        let source = settings(&Document::read("s.yaml", text).unwrap()).unwrap();
        let names: Vec<_> = source.assignments.iter().map(|assignment| assignment.field).collect();
        assert_eq!(names, ["clusterId", "clusterName", "nodeIdentities", "additionalTags"]);
        assert_eq!(source.assignments[3].value, serde_json::json!({"a": "b"}));
        assert_eq!(source.assignments[0].position.to_string(), "s.yaml:3 data.azure.clusterID");
    }
}
