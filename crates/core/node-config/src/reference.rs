//! Generates the reference page of all fields.

use std::fmt::Write as _;

use crate::describe::{FieldType, Shape};
use crate::effect::Effect;
use crate::node_config::Metadata;
use crate::spec::Spec;
use crate::v1alpha1::{API_VERSION, KIND};

/// A field with its full path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Elements of a list are written as `[]`.
    pub path: String,
    pub field_type: String,
    pub effect: Effect,
    pub doc: String,
}

/// Returns all fields of the newest version.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    collect("metadata", &Metadata::shape(), &mut rows);
    collect("spec", &Spec::shape(), &mut rows);
    rows
}

fn collect(path: &str, shape: &Shape, rows: &mut Vec<Row>) {
    for field in &shape.fields {
        let path = format!("{path}.{}", field.name);
        if let Some(effect) = field.effect {
            rows.push(Row { path: path.clone(), field_type: type_name(&field.kind), effect, doc: field.doc.clone() });
        }
        match &field.kind {
            FieldType::Object(shape) => collect(&path, &shape(), rows),
            FieldType::List(inner) => {
                if let FieldType::Object(shape) = inner.as_ref() {
                    collect(&format!("{path}[]"), &shape(), rows);
                }
            }
            _ => {}
        }
    }
}

fn type_name(kind: &FieldType) -> String {
    match kind {
        FieldType::Text => "string".to_owned(),
        FieldType::Boolean => "boolean".to_owned(),
        FieldType::Integer => "integer".to_owned(),
        FieldType::Choice(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        FieldType::Any => "any JSON".to_owned(),
        FieldType::List(inner) => format!("list of {}", type_name(inner)),
        FieldType::Map(inner) => format!("map of {}", type_name(inner)),
        FieldType::Object(_) => "object".to_owned(),
    }
}

/// Returns the page in Markdown.
pub fn page() -> String {
    let mut out =
        format!("# {KIND}\n\n`{API_VERSION}`: describes the desired state of a node. This page is generated.\n\n");
    out.push_str("A NodeConfig names where secrets are and never contains them; a document with a value that looks like a secret is rejected.\n");
    out.push_str(
        "Unknown fields are preserved and reported. The document with the higher `metadata.generation` wins.\n\n",
    );
    out.push_str("## Effects\n\n| effect | applying a change |\n|---|---|\n");
    for effect in Effect::ALL {
        let _ = writeln!(out, "| {effect} | {} |", description(effect));
    }
    out.push_str("\n## Fields\n\n| field | type | effect | description |\n|---|---|---|---|\n");
    for row in rows() {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", row.path, row.field_type, row.effect, row.doc);
    }
    out
}

fn description(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "has no side effect",
        Effect::Reload => "reloads a service",
        Effect::Restart => "restarts a service; pods keep running",
        Effect::Cluster => "requests the cluster to change the Node object",
        Effect::Drain => "drains the node first",
        Effect::Reboot => "drains and reboots the node",
        Effect::Replace => "requires a new node",
    }
}
