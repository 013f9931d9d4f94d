//! The page that lists every field.

use std::fmt::Write as _;

use crate::describe::{Kind, Shape};
use crate::effect::Effect;
use crate::hub::Metadata;
use crate::spec::Spec;
use crate::v1alpha1::{API_VERSION, KIND};

/// A field with its whole path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The path; `[]` for the elements of a list, `[*]` for names that are free.
    pub path: String,
    /// The form.
    pub form: String,
    /// What a change costs.
    pub effect: Effect,
    /// What it means.
    pub doc: String,
}

/// Every field of the newest version.
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
            rows.push(Row { path: path.clone(), form: form(&field.kind), effect, doc: field.doc.clone() });
        }
        match &field.kind {
            Kind::Object(shape) => collect(&path, &shape(), rows),
            Kind::List(inner) => {
                if let Kind::Object(shape) = inner.as_ref() {
                    collect(&format!("{path}[]"), &shape(), rows);
                }
            }
            _ => {}
        }
    }
}

fn form(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Integer => "whole number".to_owned(),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Any => "any JSON".to_owned(),
        Kind::List(inner) => format!("list of {}", form(inner)),
        Kind::Map(inner) => format!("names to {}", form(inner)),
        Kind::Object(_) => "object".to_owned(),
    }
}

/// The page, in Markdown.
pub fn page() -> String {
    let mut out =
        format!("# {KIND}\n\n`{API_VERSION}`: the document that tells a node what to be. This page is generated.\n\n");
    out.push_str("It says where a secret is and never holds one: a document with something that looks like a secret is refused.\n");
    out.push_str(
        "Fields that a node's version does not know are kept and reported. Of two documents the one with the higher\n",
    );
    out.push_str("`metadata.generation` wins.\n\n## Effects\n\n| effect | a change means |\n|---|---|\n");
    for effect in Effect::ALL {
        let _ = writeln!(out, "| {effect} | {} |", meaning(effect));
    }
    out.push_str("\n## Fields\n\n| field | form | effect | meaning |\n|---|---|---|---|\n");
    for row in rows() {
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", row.path, row.form, row.effect, row.doc);
    }
    out
}

fn meaning(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "nothing: it is read when it is needed",
        Effect::Reload => "a service reads its files again",
        Effect::Restart => "a service restarts; pods stay",
        Effect::Cluster => "the cluster is asked to change the node's object",
        Effect::Drain => "pods leave first",
        Effect::Reboot => "the machine restarts, after pods left",
        Effect::Replace => "only a new node can have it",
    }
}
