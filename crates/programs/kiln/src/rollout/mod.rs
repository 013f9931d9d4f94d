//! `kiln rollout`: bring a document to the nodes of a pool in waves, watch it, stop it, and go back.
//!
//! [`create`] and [`undo`] create objects, [`change`] sets fields of them, and [`view`] turns a Rollout into the answers to four questions: what is it waiting
//! for, how do I stop it, how does it go back, who owns this change. [`status`] prints the answers, once or until the rollout ends.

mod change;
mod create;
mod examples;
mod history;
mod status;
#[cfg(test)]
mod tests;
mod text;
mod undo;
mod view;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use kiln_prototype::span::Span;

use crate::failure::Failure;
use crate::fleet::{self, Options, Session};

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = examples::ROLLOUT)]
pub(crate) struct RolloutCommand {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring a NodeConfig to the nodes of pools, in waves
    #[command(after_help = examples::CREATE)]
    Create(Create),
    /// Show waves, nodes, and what a rollout waits for
    #[command(after_help = examples::STATUS)]
    Status(Status),
    /// List the rollouts that have not ended
    #[command(after_help = examples::LIST)]
    List,
    /// Finish the nodes in flight and start no others
    #[command(after_help = examples::PAUSE)]
    Pause(Named),
    /// Continue a paused rollout
    #[command(after_help = examples::RESUME)]
    Resume(Named),
    /// Allow the next wave to start
    #[command(after_help = examples::APPROVE)]
    Approve(Approve),
    /// End a rollout: finish the nodes in flight, and keep what is updated
    #[command(after_help = examples::ABORT)]
    Abort(Named),
    /// Return the pools of a rollout to the target that they had before
    #[command(after_help = examples::UNDO)]
    Undo(Undo),
    /// List all rollouts, newest first
    #[command(after_help = examples::HISTORY)]
    History(History),
}

#[derive(Debug, Args)]
struct Create {
    /// NodeConfig in YAML or JSON; `-` reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required_unless_present_any = ["node_config", "image_version"])]
    file: Option<PathBuf>,
    /// NodeConfig object that exists in the cluster
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    node_config: Option<String>,
    /// ImageVersion object; the nodes are replaced by machines of that version
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "node_config"])]
    image_version: Option<String>,
    /// Pool whose nodes get the document; repeat it for several pools
    #[arg(long = "pool", value_name = "NAME", required = true)]
    pools: Vec<String>,
    /// Name of the rollout [default: the name of the NodeConfig or of the ImageVersion]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// RolloutPolicy with waves, budgets, windows and gates [default: that of the first pool that has one]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// What happens when too many nodes fail
    #[arg(long, value_enum, default_value_t)]
    on_failure: OnFailure,
    /// Whether nodes may be drained and rebooted
    #[arg(long, value_enum, default_value_t)]
    replacement: Replacement,
    /// Start nothing until `kiln rollout resume`
    #[arg(long)]
    paused: bool,
    /// Let the server check the objects, and show the effects, without creating anything
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum OnFailure {
    /// Start no further node
    Halt,
    /// Return the updated nodes to the previous target, newest first
    #[default]
    RollBack,
}

impl From<OnFailure> for kiln_fleet_api::OnFailure {
    fn from(value: OnFailure) -> Self {
        match value {
            OnFailure::Halt => Self::Halt,
            OnFailure::RollBack => Self::RollBack,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Replacement {
    /// Only changes that need no drain
    Never,
    /// Drain and reboot where the change needs it
    #[default]
    WhenNeeded,
}

impl From<Replacement> for kiln_fleet_api::Replacement {
    fn from(value: Replacement) -> Self {
        match value {
            Replacement::Never => Self::Never,
            Replacement::WhenNeeded => Self::WhenNeeded,
        }
    }
}

#[derive(Debug, Args)]
struct Status {
    /// Name of the rollout [default: all that have not ended, else the newest]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Follow the rollout until it ends; exit code 0 if it completes, 1 otherwise
    #[arg(short, long)]
    watch: bool,
}

#[derive(Debug, Args)]
struct Named {
    /// Name of the rollout
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
struct Approve {
    /// Name of the rollout
    #[arg(value_name = "NAME")]
    name: String,
    /// Highest wave that may start [default: the next one]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    wave: Option<u32>,
    /// How long the approval is valid, such as `2h`; a wave that starts later needs a new one
    #[arg(long = "for", value_name = "TIME")]
    valid_for: Option<Span>,
}

#[derive(Debug, Args)]
struct Undo {
    /// Name of the rollout
    #[arg(value_name = "NAME")]
    name: String,
    /// RolloutPolicy for the way back [default: that of the rollout]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Show what would be created
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct History {
    /// Only rollouts of this pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
}

pub(crate) fn run(command: &RolloutCommand, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    // A bad document is an error without a cluster, too.
    let document = match &command.verb {
        Verb::Create(Create { file: Some(file), .. }) => Some(fleet::document::load(file)?),
        _ => None,
    };
    fleet::run(&command.options, now, async |session: Session| match &command.verb {
        Verb::Create(verb) => create::run(&session, verb, document.as_ref()).await,
        Verb::Status(verb) => status::run(&session, verb).await,
        Verb::List => history::list(&session).await,
        Verb::Pause(verb) => change::pause(&session, &verb.name).await,
        Verb::Resume(verb) => change::resume(&session, &verb.name).await,
        Verb::Approve(verb) => change::approve(&session, verb).await,
        Verb::Abort(verb) => change::abort(&session, &verb.name).await,
        Verb::Undo(verb) => undo::run(&session, verb).await,
        Verb::History(verb) => history::history(&session, verb.pool.as_deref()).await,
    })
}
