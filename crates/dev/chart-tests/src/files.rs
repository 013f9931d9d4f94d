//! The files of the chart.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(3).unwrap_or(manifest).to_path_buf()
}

/// The folder of the chart.
pub fn chart() -> PathBuf {
    root().join("charts/kiln")
}

/// The content of a file of the chart.
///
/// # Panics
/// If it cannot be read: a test that cannot run fails.
#[track_caller]
pub fn text(name: &str) -> String {
    let path = chart().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The default values.
#[track_caller]
pub fn values() -> Value {
    serde_saphyr::from_str(&text("values.yaml")).unwrap_or_else(|error| panic!("values.yaml: {error}"))
}

/// The schema of the values.
#[track_caller]
pub fn schema() -> Value {
    serde_json::from_str(&text("values.schema.json")).unwrap_or_else(|error| panic!("values.schema.json: {error}"))
}

/// All values of the schema, by path, with their schema. A map with user-defined keys is one value.
pub fn leaves(schema: &Value) -> Vec<(String, &Value)> {
    let mut leaves = Vec::new();
    collect("", schema, &mut leaves);
    leaves
}

fn collect<'a>(path: &str, schema: &'a Value, leaves: &mut Vec<(String, &'a Value)>) {
    let properties = schema["properties"].as_object().filter(|_| !path.ends_with("resources"));
    let Some(properties) = properties else {
        // Reserved by Helm; the chart does not use it.
        if path != "global" {
            leaves.push((path.to_owned(), schema));
        }
        return;
    };
    for (name, property) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(&path, property, leaves);
    }
}
