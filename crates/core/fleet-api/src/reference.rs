//! The generated reference page of the kinds.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};

use crate::definitions::definitions;

const HEAD: &str = "# Fleet resources\n\nThis page is generated from the code. All kinds are in `node.kiln.dev/v1alpha1` and are cluster-scoped.\n";

/// Returns the page in Markdown: one table per kind, with every field.
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    for definition in definitions() {
        write_kind(&mut page, &definition);
    }
    page
}

fn write_kind(page: &mut String, definition: &CustomResourceDefinition) {
    let names = &definition.spec.names;
    let short = names.short_names.as_deref().unwrap_or_default().join("`, `");
    let _ = write!(page, "\n## {} (`{short}`)\n", names.kind);
    let version = definition.spec.versions.first();
    let Some(schema) = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref()) else { return };
    let property = |name: &str| schema.properties.as_ref().and_then(|properties| properties.get(name));
    for part in ["spec", "status"] {
        let Some(schema) = property(part) else { continue };
        if let Some(text) = schema.description.as_deref().or(schema.title.as_deref()) {
            let _ = write!(page, "\n{}\n", line(text));
        }
        let _ = write!(page, "\n| field | type | meaning |\n|---|---|---|\n");
        write_fields(page, part, schema);
        for rule in schema.x_kubernetes_validations.iter().flatten() {
            let _ = write!(page, "\nRule: {}\n", rule.message.as_deref().unwrap_or(&rule.rule));
        }
    }
}

fn write_fields(page: &mut String, path: &str, schema: &JSONSchemaProps) {
    for (name, field) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        let text = field.description.as_deref().or(field.title.as_deref()).unwrap_or_default();
        let _ = writeln!(page, "| `{path}` | {} | {} |", type_text(field), line(text));
        write_fields(page, &path, field);
        if let Some(items) = items(field) {
            write_fields(page, &format!("{path}[]"), items);
        }
    }
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrArray;
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(schema) => Some(schema),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    }
}

fn type_text(schema: &JSONSchemaProps) -> String {
    let values: Vec<String> =
        schema.enum_.iter().flatten().filter_map(|value| value.0.as_str().map(|value| format!("`{value}`"))).collect();
    if !values.is_empty() {
        return values.join(", ");
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "number or percentage".to_owned();
    }
    match (schema.type_.as_deref(), items(schema)) {
        (Some("array"), Some(items)) => format!("list of {}", type_text(items)),
        (Some(name), _) => name.to_owned(),
        (None, _) => "any".to_owned(),
    }
}

/// Text in one line, as a table needs it.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
