//! `kiln bootstrap explain`.

use clap::Args;
use jiff::Timestamp;
use kiln_aks_formats::nbv;
use kiln_bootstrap::{Explanation, Field, Resolved, UnknownField};

use super::detect::Detect;
use super::show;
use super::sources::Sources;
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap explain --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
      Shows every field with its value, the file and line that set it, and the values it overrode.
  kiln bootstrap explain vnetSubnetId --settings settings.yaml --node-class class.yaml
      Shows one field with its allowed sources and the fields computed from it.
  kiln bootstrap explain KUBELET_FLAGS --settings settings.yaml --node-class class.yaml --output json
  kiln bootstrap explain --chosen --settings settings.yaml
      Shows only explicitly set fields.
  kiln bootstrap explain --settings settings.yaml --kubeconfig admin.conf --pool general
      Reads the NodePool and its class from the cluster, and detects values that the settings do not contain.

Secrets are shown as ***. Exit codes: 0 success, 1 failed, 2 usage error or invalid input.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explain {
    /// Field name, or the environment variable that the field is rendered to
    #[arg(value_name = "FIELD")]
    field: Option<String>,
    /// Show only explicitly set fields, without hardcoded and computed ones
    #[arg(long)]
    chosen: bool,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    detect: Detect,
}

pub(super) fn run(arguments: &Explain, output: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let wanted = arguments.field.as_deref().map(field).transpose()?;
    let resolved = arguments.detect.resolve(&arguments.sources, now)?;
    let mut lines = resolved.explain();
    if let Some(field) = wanted {
        lines.retain(|line| line.field == field.name);
        let Some(line) = lines.into_iter().next() else {
            return Err(Failure::failed(format_args!("`{}` has no value", field.name)));
        };
        return answer::either(output, &line, |line| one(line, field, &resolved));
    }
    if arguments.chosen {
        lines.retain(|line| !line.kind.starts_with("hardcoded") && line.kind != "computed");
    }
    answer::either(output, &lines, |lines| all(lines))
}

fn field(name: &str) -> Result<&'static Field, Failure> {
    let by_env = || nbv::Field::from_env(name).and_then(|variable| Field::named(variable.name()).ok());
    Field::named(name).ok().or_else(by_env).ok_or_else(|| {
        let unknown = Failure::input(UnknownField(name.to_owned()));
        match Field::nearest(name) {
            Some(_) => unknown,
            None => unknown.hint("run `kiln bootstrap explain` without a field to list all fields"),
        }
    })
}

fn all(lines: &[Explanation]) -> String {
    let rows = lines.iter().map(|line| {
        let overrode = line.overrode.iter().map(|one| format!("{} ({})", show::short(&one.value), one.position));
        let overrode: Vec<String> = overrode.collect();
        let position = if line.kind == "computed" { shorten_fields(&line.position) } else { line.position.clone() };
        [line.field.to_owned(), show::short(&line.value), line.kind.clone(), position, overrode.join("; ")]
    });
    show::table(["FIELD", "VALUE", "SOURCE", "POSITION", "OVERRODE"], rows)
}

/// Shortens a list of fields to the first three, because some variables are computed from sixteen.
pub(super) fn shorten_fields(position: &str) -> String {
    let names: Vec<&str> = position.split(", ").collect();
    match &names[..] {
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        _ => position.to_owned(),
    }
}

fn one(line: &Explanation, field: &Field, resolved: &Resolved) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{}: {}\n", line.field, show::full(&line.value));
    let _ = writeln!(text, "  description      {}", field.doc);
    let _ = writeln!(text, "  source           {}, {}", line.kind, line.position);
    for one in &line.overrode {
        let _ = writeln!(text, "  overrode         {} ({}, {})", show::full(&one.value), one.kind, one.position);
    }
    let allowed: Vec<String> = field.kinds.iter().map(ToString::to_string).collect();
    let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    let _ = writeln!(text, "  allowed sources  {allowed}");
    if !field.reads.is_empty() {
        let _ = writeln!(
            text,
            "  environment      {}",
            field.reads.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ")
        );
    }
    if field.is_input() {
        let config = field.config.map_or_else(String::new, |path| format!(" (NodeConfig {path})"));
        let _ = writeln!(text, "  effect           {}{config}", line.effect);
    }
    let dependents: Vec<&str> = field.dependents().into_iter().collect();
    if !dependents.is_empty() {
        let _ = writeln!(text, "  dependents       {}", dependents.join(", "));
    }
    if line.value.is_null() {
        let reason = resolved.variables().err().map(|error| error.to_string()).unwrap_or_default();
        let _ = writeln!(text, "  not computed     {reason}");
    }
    text
}
