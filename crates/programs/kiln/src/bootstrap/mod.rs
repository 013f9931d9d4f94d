//! `kiln bootstrap`: resolves node configuration from sources, explains it and renders it.

mod check;
pub(crate) mod detect;
mod diff;
mod drift;
pub(crate) mod emit;
mod explain;
pub(crate) mod files;
mod hash;
mod render;
mod settings;
pub(crate) mod show;
mod sign;
pub(crate) mod sources;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use crate::answer::Output;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap check settings.yaml
  kiln bootstrap explain --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
      Shows every field with its value and the file and line that set it.
  kiln bootstrap render --settings settings.yaml --node-pool pool.yaml --node-class class.yaml --to node-config

Exit codes: 0 success, 1 failed or a check found errors, 2 usage error or invalid input, 5 drift found.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Bootstrap {
    /// Output format
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Render what a node reads at its first boot
    Render(Box<render::Render>),
    /// Show every field with its value, its source and the values it overrode
    Explain(Box<explain::Explain>),
    /// Compare two documents or two sets of inputs
    Diff(diff::Diff),
    /// Validate files; exits with 1 if a file has errors
    Check(check::Check),
    /// Show what changed since a node was created; exits with 5 if something did
    Drift(Box<drift::Drift>),
    /// Print the hash that Karpenter stores for an AKSNodeClass
    Hash(hash::Hash),
    /// Sign a NodeConfig, for a pool and a cluster and with an expiry if wanted
    Sign(sign::Sign),
    /// Create a settings file from values detected in the cluster and in Azure
    Settings(Box<settings::Settings>),
}

pub(crate) fn run(arguments: &Bootstrap, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let output = arguments.output;
    match &arguments.verb {
        Verb::Render(verb) => render::run(verb, output, now),
        Verb::Explain(verb) => explain::run(verb, output, now),
        Verb::Diff(verb) => diff::run(verb, output),
        Verb::Check(verb) => check::run(verb, output),
        Verb::Drift(verb) => drift::run(verb, output, now),
        Verb::Hash(verb) => hash::run(verb, output),
        Verb::Sign(verb) => sign::run(verb, output, now),
        Verb::Settings(verb) => settings::run(verb, output, now),
    }
}
