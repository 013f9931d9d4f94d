//! `kiln bootstrap explain`.

use clap::Args;
use jiff::Timestamp;
use kiln_aks_formats::nbv;
use kiln_bootstrap::{Explained, Field, Resolved, UnknownField};

use super::detect::Detect;
use super::show;
use super::sources::Sources;
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap explain --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
      Every field with its value, the file and line that decided it, and what lost against it.
  kiln bootstrap explain vnetSubnetId --settings settings.yaml --node-class class.yaml
      One field, with who may set it and what follows from it.
  kiln bootstrap explain KUBELET_FLAGS --settings settings.yaml --node-class class.yaml --output json
  kiln bootstrap explain --chosen --settings settings.yaml
      Only what somebody chose.
  kiln bootstrap explain --settings settings.yaml --kubeconfig admin.conf --pool general
      What the settings do not say is looked for in the cluster; pool and class as they are there.

Secrets are shown as ***.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explain {
    /// One field, by its name or by the environment name that it becomes
    #[arg(value_name = "FIELD")]
    field: Option<String>,
    /// Leave out what stands in the program and what is computed
    #[arg(long)]
    chosen: bool,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    detect: Detect,
}

pub(super) fn run(arguments: &Explain, form: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let wanted = arguments.field.as_deref().map(field).transpose()?;
    let resolved = arguments.detect.resolve(&arguments.sources, now)?;
    let mut lines = resolved.explain();
    if let Some(field) = wanted {
        lines.retain(|line| line.field == field.name);
        let Some(line) = lines.into_iter().next() else {
            return Err(Failure::failed(format_args!("`{}` has no line", field.name)));
        };
        return answer::either(form, &line, |line| one(line, field, &resolved));
    }
    if arguments.chosen {
        lines.retain(|line| !line.kind.starts_with("hardcoded") && line.kind != "computed");
    }
    answer::either(form, &lines, |lines| all(lines))
}

fn field(name: &str) -> Result<&'static Field, Failure> {
    let by_env = || nbv::Field::of_env(name).and_then(|variable| Field::named(variable.name()).ok());
    Field::named(name).ok().or_else(by_env).ok_or_else(|| {
        let unknown = Failure::input(UnknownField(name.to_owned()));
        match Field::nearest(name) {
            Some(_) => unknown,
            None => unknown.hint("`kiln bootstrap explain` without a name lists all"),
        }
    })
}

fn all(lines: &[Explained]) -> String {
    let rows = lines.iter().map(|line| {
        let lost = line.overrode.iter().map(|lost| format!("{} ({})", show::short(&lost.value), lost.place));
        let lost: Vec<String> = lost.collect();
        let place = if line.kind == "computed" { from_fields(&line.place) } else { line.place.clone() };
        [line.field.to_owned(), show::short(&line.value), line.kind.clone(), place, lost.join("; ")]
    });
    show::table(["FIELD", "VALUE", "KIND", "PLACE", "OVERRODE"], rows)
}

/// Sixteen names say less than the first three and how many more there are.
pub(super) fn from_fields(place: &str) -> String {
    let names: Vec<&str> = place.split(", ").collect();
    match &names[..] {
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        _ => place.to_owned(),
    }
}

fn one(line: &Explained, field: &Field, resolved: &Resolved) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{}: {}\n", line.field, show::whole(&line.value));
    let _ = writeln!(text, "  what       {}", field.doc);
    let _ = writeln!(text, "  from       {}, {}", line.kind, line.place);
    for lost in &line.overrode {
        let _ = writeln!(text, "  overrode   {} ({}, {})", show::whole(&lost.value), lost.kind, lost.place);
    }
    let allowed: Vec<String> = field.kinds.iter().map(ToString::to_string).collect();
    let allowed = if allowed.is_empty() { "nobody".to_owned() } else { allowed.join(", ") };
    let _ = writeln!(text, "  settable   by {allowed}");
    if !field.reads.is_empty() {
        let _ = writeln!(
            text,
            "  read from  {}",
            field.reads.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ")
        );
    }
    if field.is_input() {
        let carried = field.config.map_or_else(String::new, |path| format!(", by {path} of a NodeConfig"));
        let _ = writeln!(text, "  a change   {}{carried}", line.effect);
    }
    let follow: Vec<&str> = field.dependents().into_iter().collect();
    if !follow.is_empty() {
        let _ = writeln!(text, "  followed   by {}", follow.join(", "));
    }
    if line.value.is_null() {
        let why = resolved.variables().err().map(|error| error.to_string()).unwrap_or_default();
        let _ = writeln!(text, "  unknown    {why}");
    }
    text
}
