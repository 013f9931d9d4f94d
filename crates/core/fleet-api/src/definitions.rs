//! The definitions of all kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt as _;
use serde_json::{Map, Value};

use crate::{Freeze, ImageVersion, NodeConfig, NodeState, Pool, Prototype, Rollout, RolloutPolicy, yaml_text};

/// Returns the definitions of all kinds, in alphabetical order.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let derived = [
        Freeze::crd(),
        ImageVersion::crd(),
        NodeConfig::crd(),
        NodeState::crd(),
        Pool::crd(),
        Prototype::crd(),
        RolloutPolicy::crd(),
        Rollout::crd(),
    ];
    derived.iter().map(adjusted).collect()
}

/// Returns the definitions as they are in the chart: YAML with one object per document.
pub fn yaml() -> String {
    let texts: Vec<String> = definitions().iter().map(|definition| yaml_text::write(&json(definition))).collect();
    format!("---\n{}", texts.join("---\n"))
}

/// Returns the definition as the API server and `kubectl explain` expect it.
fn adjusted(derived: &CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = json(derived);
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        // The derived description names a type of this crate.
        schema["description"] = schema["properties"]["spec"]["description"].clone();
        adjust(schema);
    }
    serde_json::from_value(value).expect("an adjusted definition is a definition")
}

/// Adjusts a schema and all schemas below it.
fn adjust(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    // The API server has no unsigned formats: it ignores them, with a warning for each.
    if let Some(Value::String(format)) = fields.get_mut("format")
        && format.starts_with("uint")
    {
        "int64".clone_into(format);
    }
    // Line breaks of the source code are not part of the text.
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace("\n\n", "\0").replace('\n', " ").replace('\0', "\n\n");
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(key) {
            adjust(below);
        }
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(adjust);
}

fn json(definition: &CustomResourceDefinition) -> Value {
    serde_json::to_value(definition).expect("definitions serialize to JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All schemas below this one, and itself.
    fn schemas(schema: &Value) -> Vec<&Value> {
        let below = ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key));
        let properties = schema["properties"].as_object().into_iter().flat_map(Map::values);
        let mut all = vec![schema];
        all.extend(below.chain(properties).flat_map(schemas));
        all
    }

    #[test]
    fn schemas_have_only_formats_that_the_api_server_knows() {
        let mut seen = 0;
        for definition in definitions() {
            let value = json(&definition);
            let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            for schema in schemas(schema) {
                let format = schema["format"].as_str();
                assert!(matches!(format, None | Some("int64" | "date-time")), "{schema}");
                assert!(
                    !schema["description"].as_str().is_some_and(|text| text.contains("Auto-generated")),
                    "{schema}"
                );
                seen += usize::from(format.is_some());
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
