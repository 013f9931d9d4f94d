//! The page that lists every field.

use std::fmt::Write as _;

use crate::field::Field;
use crate::kind::Kind;

/// The page, in Markdown.
pub fn page() -> String {
    let mut out = String::from(
        "# Bootstrap fields\n\nEvery field that a source may set, and every Node Bootstrapping Variable. This page is generated.\n\n",
    );
    out.push_str("Of several sources the strongest wins; weakest first: hardcoded, detected, environment, settings, node pool,\n");
    out.push_str(
        "node class. Explicit beats detected. A source that may not set a field is an error. Effects are those of\n",
    );
    out.push_str("[NodeConfig](node-config.md): with `replace` only a new node follows a change, with others a new NodeConfig will do.\n\n");
    out.push_str("Pools and classes set fields that their objects have no place for by annotation: `bootstrap.kiln.dev/DisableSSH: \"true\"`.\n");
    for (title, inputs) in [("Inputs", true), ("Variables", false)] {
        let _ = write!(
            out,
            "\n## {title}\n\n| field | form | kind | allowed sources | default | environment | effect | meaning |\n|---|---|---|---|---|---|---|---|\n"
        );
        for field in Field::all().iter().filter(|field| field.variable.is_none() == inputs) {
            line(field, &mut out);
        }
    }
    out
}

fn line(field: &Field, out: &mut String) {
    let kind = match &field.default {
        Some((why, _)) => Kind::Hardcoded(*why).to_string(),
        None => Kind::Computed.to_string(),
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
    let secret = if field.secret { " Never shown." } else { "" };
    let meaning = if field.variable.is_some() {
        format!("code `{}`{secret}", field.variable.map_or("", kiln_aks_formats::nbv::Field::code))
    } else {
        format!("{}{secret}", field.doc)
    };
    let _ = writeln!(
        out,
        "| `{}` | {} | {kind} | {sources} | {default} | {environment} | {} | {meaning} |",
        field.name,
        field.form.as_str(),
        field.effect
    );
}
