//! The page `docs/reference/chart.md`, generated from the schema and the default values.

use std::fmt::Write as _;

use serde_json::Value;

use crate::leaves;

const HEAD: &str = "\
# Chart values

Generated from `charts/kiln/values.schema.json` and `charts/kiln/values.yaml`; rewrite it with `KILN_BLESS=1 cargo test -p chart-tests
--test chart`. Helm rejects unknown values and values of the wrong type before it creates anything. Installation: [kiln in the
cluster](../guides/in-cluster.md), [the operator](../guides/fleet.md).

`charts/kiln/files` also contains the Grafana dashboard of `operator.dashboard` (`dashboard.json`) and a health script for Argo CD
(`argocd-health.lua`, with its installation in its first lines).
";

/// Renders the page.
pub fn page(schema: &Value, values: &Value) -> String {
    let mut page = HEAD.to_owned();
    let mut section = String::new();
    let mut leaves = leaves(schema);
    // Values without a section come last, under one title.
    leaves.sort_by_key(|(path, _)| !path.contains('.'));
    for (path, property) in leaves {
        let top = path.split('.').next().unwrap_or_default();
        let title = if path.contains('.') { format!("`{top}`") } else { "Pod".to_owned() };
        if title != section {
            let about = if path.contains('.') { schema["properties"][top]["description"].as_str() } else { None };
            let about = about.map_or_else(String::new, |about| format!("{about}\n\n"));
            let _ =
                write!(page, "\n## {title}\n\n{about}| value | default | allowed | description |\n|---|---|---|---|\n");
            section = title;
        }
        let default = path.split('.').fold(values, |value, key| &value[key]);
        let about = property["description"].as_str().unwrap_or_default().replace('|', "\\|");
        let _ = writeln!(page, "| `{path}` | {} | {} | {about} |", format_value(default), grammar(property));
    }
    page
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

fn grammar(property: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(format_value).collect::<Vec<_>>().join(", ");
    }
    let name = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "array" => "list".to_owned(),
        "object" => "map".to_owned(),
        "boolean" => "`true`, `false`".to_owned(),
        "null" => "none".to_owned(),
        "integer" => match property["minimum"].as_i64() {
            Some(minimum) => format!("number, at least {minimum}"),
            None => "number".to_owned(),
        },
        other => other.to_owned(),
    };
    match &property["type"] {
        Value::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        kind => name(kind),
    }
}
