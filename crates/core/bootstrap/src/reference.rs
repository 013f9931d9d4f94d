//! Generates the reference page of all fields.

use std::fmt::Write as _;

use crate::field::Field;
use crate::provenance::SourceKind;

/// Returns the page in Markdown.
pub fn page() -> String {
    let mut out = String::from(
        "# Bootstrap fields\n\nAll fields that a source can set, and all Node Bootstrapping Variables. This page is generated.\n\n",
    );
    out.push_str("Precedence, lowest first: hardcoded, detected, environment, settings, node pool, node class. A source that sets a field it is not\n");
    out.push_str("allowed to set is an error. Effects have the same meaning as in [NodeConfig](node-config.md): `replace` requires a new node, all\n");
    out.push_str("others are applied by a new NodeConfig.\n\n");
    out.push_str("NodePools and AKSNodeClasses set fields that their schema does not have by annotation: `bootstrap.kiln.dev/DisableSSH: \"true\"`.\n");
    for (title, inputs) in [("Inputs", true), ("Variables", false)] {
        let _ = write!(
            out,
            "\n## {title}\n\n| field | type | kind | allowed sources | default | environment | effect | description |\n|---|---|---|---|---|---|---|---|\n"
        );
        for field in Field::all().iter().filter(|field| field.variable.is_none() == inputs) {
            row(field, &mut out);
        }
    }
    out
}

fn row(field: &Field, out: &mut String) {
    let kind = match &field.default {
        Some((reason, _)) => SourceKind::Hardcoded(*reason).to_string(),
        None => SourceKind::Computed.to_string(),
    };
    let sources = match (field.kinds, field.from) {
        ([], []) => "none".to_owned(),
        ([], from) => format!("computed from {}", from.join(", ")),
        (kinds, _) => kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let default = match &field.default {
        Some((_, value)) if value.as_str() == Some("") => String::new(),
        Some((_, value)) => format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        None => String::new(),
    };
    let environment = match field.variable {
        Some(variable) => variable.env().map_or_else(String::new, |env| format!("sets `{env}`")),
        None => field.reads.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    let secret = if field.secret { " Secret; never displayed." } else { "" };
    let description = if field.variable.is_some() {
        format!("code `{}`{secret}", field.variable.map_or("", kiln_aks_formats::nbv::Field::code))
    } else {
        format!("{}{secret}", field.doc)
    };
    let _ = writeln!(
        out,
        "| `{}` | {} | {kind} | {sources} | {default} | {environment} | {} | {description} |",
        field.name,
        field.value_type.as_str(),
        field.effect
    );
}
