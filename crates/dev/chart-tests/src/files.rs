//! The chart's files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here).to_path_buf()
}

/// The chart's folder.
pub fn chart() -> PathBuf {
    root().join("charts/kiln")
}

/// A file of the chart.
///
/// # Panics
/// When it cannot be read: a test that cannot run fails.
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

/// Every value that the schema knows, by its path, with its own schema. An object whose keys are a user's is one value.
pub fn leaves(schema: &Value) -> Vec<(String, &Value)> {
    let mut leaves = Vec::new();
    collect("", schema, &mut leaves);
    leaves
}

fn collect<'a>(path: &str, schema: &'a Value, leaves: &mut Vec<(String, &'a Value)>) {
    let properties = schema["properties"].as_object().filter(|_| path != "resources");
    let Some(properties) = properties else {
        // Helm's own, which no chart looks at.
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
