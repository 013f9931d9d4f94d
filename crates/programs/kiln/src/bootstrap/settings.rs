//! `kiln bootstrap settings`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_aks_formats::Secret;
use kiln_bootstrap::{Field, SourceKind, resolve};
use kiln_engine::detect::Detected;
use serde_json::{Value, json};

use super::detect::Detect;
use super::emit;
use super::sources::Sources;
use crate::answer::Output;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap settings --from-cluster --kubeconfig ~/.kube/config --out settings.yaml
      Writes the detected values, each with the API call that returned it.
  kiln bootstrap settings --from-cluster --azure --set subscriptionId=GUID --set resourceGroup=NAME
      Also detects network and identities in Azure.

The bootstrap token is not detected; set `bootstrapToken` or $KUBELET_BOOTSTRAP_TOKEN.
Exit codes: 0 success, 1 failed or nothing detected, 2 usage error or invalid input.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Settings {
    /// Detect the settings from the cluster
    #[arg(long, required = true)]
    from_cluster: bool,
    #[command(flatten)]
    detect: Detect,
    /// Set a field that detection needs, such as `subscriptionId` or `resourceGroup`
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Settings, output: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let known = Sources { set: arguments.set.clone(), ..Sources::default() };
    let (found, _) = arguments.detect.detect(&resolve(&known.read()?), arguments.from_cluster, now())?;
    let text = match output {
        Output::Text => file(&found),
        Output::Json => {
            let facts = found.facts.iter();
            let facts = facts
                .map(|fact| json!({"field": fact.field, "value": value(fact.field, &fact.text), "call": fact.call}));
            let misses = found.misses.iter().map(|miss| json!({"field": miss.field, "reason": miss.reason}));
            let answer = json!({"found": facts.collect::<Vec<_>>(), "notFound": misses.collect::<Vec<_>>()});
            format!("{}\n", serde_json::to_string_pretty(&answer).map_err(Failure::failed)?)
        }
    };
    emit::emit(&Secret::new(text), arguments.out.as_deref())?;
    if found.facts.is_empty() {
        return Err(Failure::failed("no settings were detected"));
    }
    Ok(())
}

fn value(field: &str, text: &str) -> Value {
    Field::named(field).ok().and_then(|field| field.value_type.parse(text)).unwrap_or_else(|| text.into())
}

/// Renders a settings file with the API call of each value, and values that were not found, as comments.
fn file(found: &Detected) -> String {
    let mut out = String::new();
    let mut facts: Vec<_> = found.facts.iter().collect();
    facts.sort_by_key(|fact| Field::all().iter().position(|field| field.name == fact.field));
    for fact in facts {
        let settable = Field::named(fact.field).is_ok_and(|field| field.kinds.contains(&SourceKind::Settings));
        let comment = if settable { "" } else { "# " };
        let _ = writeln!(
            out,
            "# {}\n{comment}{}: {}",
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
