//! `kiln bootstrap`: what a node starts with, and where each value of it comes from.

mod check;
pub(crate) mod detect;
mod diff;
mod drift;
pub(crate) mod emit;
mod explain;
mod files;
mod hash;
mod render;
mod settings;
mod show;
pub(crate) mod sources;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use crate::answer::Output;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap check settings.yaml
  kiln bootstrap explain --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
      Every field, its value, and the file and line that decided it.
  kiln bootstrap render --settings settings.yaml --node-pool pool.yaml --node-class class.yaml --to node-config

Exit codes: 0 done, 1 what was asked does not hold, 2 usage or bad input, 5 drift found.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Bootstrap {
    /// Form of the result
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Turn inputs into what a node reads at its first boot
    Render(Box<render::Render>),
    /// Every field: its value, where it comes from, and what it overrode
    Explain(Box<explain::Explain>),
    /// What differs between two documents or two sets of inputs
    Diff(diff::Diff),
    /// Look at a file by itself; exit code 1 when something in it cannot be
    Check(check::Check),
    /// What moved since a node was made; exit code 5 when something did
    Drift(Box<drift::Drift>),
    /// The hash that Karpenter stores for a class of nodes
    Hash(hash::Hash),
    /// A settings file of what the cluster and the cloud say
    Settings(Box<settings::Settings>),
}

pub(crate) fn run(arguments: &Bootstrap, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let form = arguments.output;
    match &arguments.verb {
        Verb::Render(verb) => render::run(verb, form, now),
        Verb::Explain(verb) => explain::run(verb, form, now),
        Verb::Diff(verb) => diff::run(verb, form),
        Verb::Check(verb) => check::run(verb, form),
        Verb::Drift(verb) => drift::run(verb, form, now),
        Verb::Hash(verb) => hash::run(verb, form),
        Verb::Settings(verb) => settings::run(verb, form, now),
    }
}
