//! `kiln bootstrap settings`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_aks_formats::Secret;
use kiln_bootstrap::{Field, Kind, resolve};
use kiln_engine::detect::Detected;
use serde_json::{Value, json};

use super::detect::Detect;
use super::emit;
use super::sources::Sources;
use crate::answer::Output;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap settings --from-cluster --kubeconfig ~/.kube/config -o settings.yaml
      What the cluster says of itself, each value with the call that gave it.
  kiln bootstrap settings --from-cluster --azure --set subscriptionId=GUID --set resourceGroup=NAME
      And what Azure says of its network and identities.

The token that nodes join with is not looked for: set bootstrapToken, or $KUBELET_BOOTSTRAP_TOKEN.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Settings {
    /// Ask the cluster, and write what it says as a settings file
    #[arg(long, required = true)]
    from_cluster: bool,
    #[command(flatten)]
    detect: Detect,
    /// What is known already: where in Azure to look
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Settings, form: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let known = Sources { set: arguments.set.clone(), ..Sources::default() };
    let (found, _) = arguments.detect.look(&resolve(&known.layers()?), arguments.from_cluster, now())?;
    let text = match form {
        Output::Text => file(&found),
        Output::Json => {
            let facts = found.facts.iter();
            let facts = facts
                .map(|fact| json!({"field": fact.field, "value": value(fact.field, &fact.text), "call": fact.call}));
            let misses = found.misses.iter().map(|miss| json!({"field": miss.field, "why": miss.reason}));
            let answer = json!({"found": facts.collect::<Vec<_>>(), "notFound": misses.collect::<Vec<_>>()});
            format!("{}\n", serde_json::to_string_pretty(&answer).map_err(Failure::failed)?)
        }
    };
    emit::emit(&Secret::new(text), arguments.out.as_deref())?;
    if found.facts.is_empty() {
        return Err(Failure::failed("nothing was found"));
    }
    Ok(())
}

fn value(field: &str, text: &str) -> Value {
    Field::named(field).ok().and_then(|field| field.form.read(text)).unwrap_or_else(|| text.into())
}

/// A settings file: each value under the call that gave it, and what was not found as a remark.
fn file(found: &Detected) -> String {
    let mut out = String::new();
    let mut facts: Vec<_> = found.facts.iter().collect();
    facts.sort_by_key(|fact| Field::all().iter().position(|field| field.name == fact.field));
    for fact in facts {
        let settable = Field::named(fact.field).is_ok_and(|field| field.kinds.contains(&Kind::Settings));
        let remark = if settable { "" } else { "# " };
        let _ = writeln!(
            out,
            "# {}\n{remark}{}: {}",
            fact.call.replace('\n', " "),
            fact.field,
            value(fact.field, &fact.text)
        );
    }
    for miss in &found.misses {
        let _ = writeln!(out, "# {}", miss.to_string().replace('\n', " "));
    }
    out
}
