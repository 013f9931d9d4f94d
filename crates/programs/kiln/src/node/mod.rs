//! `kiln node`: the nodes of the fleet, and checks of images that need no cluster.
//!
//! `kiln_node_plan::check_image` decides about an image; [`folder`] reads it. [`states`], [`diff`] and [`rollback`] work with the NodeStates of a cluster, [`push`]
//! with user data where there are none.

mod diff;
mod folder;
mod push;
mod rollback;
mod states;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use kiln_node_plan::check_image::{Purpose, check};

use crate::answer;
use crate::failure::Failure;
use crate::fleet::{self, Options, Session};
use folder::Folder;

const EXAMPLES: &str = "Examples:
  kiln node check-image ./root
      What is missing on the image in this folder, or in the way of a node; exit code 1 if there is a blocker.
  kiln node status --pool web
      Phase and document of each node of a pool.
  kiln node diff --node node-1 -f web.yaml
      What a document would change on a node, and what that costs.";

const CHECK_IMAGE: &str = "Examples:
  kiln node check-image ./root
      What is missing on the image in this folder, or in the way of a node; exit code 1 if there is a blocker.
  kiln node check-image /mnt/image --output json
      The same for programs.";

const STATUS: &str = "Examples:
  kiln node status
  kiln node status --pool web --output json";

const DIFF: &str = "Examples:
  kiln node diff --node node-1 -f web.yaml
  kiln node diff --node node-1 -f web.yaml --output json";

const ROLLBACK: &str = "Example:
  kiln node rollback --node node-1
      Also repeats the last complete target on a node that reverted it, for example after a repair.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct NodeCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Name what is missing on an image or in the way; exit code 1 if machines created from it would not become nodes
    #[command(after_help = CHECK_IMAGE)]
    CheckImage {
        /// Folder with the root file system of the image
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        output: answer::Output,
    },
    /// Show phase, document and message of the nodes
    #[command(after_help = STATUS)]
    Status {
        /// Only the nodes of this pool
        #[arg(long, value_name = "NAME")]
        pool: Option<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Show what a document would change on a node, with the effect of each field
    #[command(after_help = DIFF)]
    Diff {
        /// Name of the node
        #[arg(long, value_name = "NAME")]
        node: String,
        /// NodeConfig in YAML or JSON; `-` reads standard input
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Deliver a document by user data, in waves, to nodes without the operator
    #[command(after_help = push::EXAMPLES)]
    Push(Box<push::Push>),
    /// Assign the last complete target of its pool to a node again, while no rollout of the pool is open
    #[command(after_help = ROLLBACK)]
    Rollback {
        /// Name of the node
        #[arg(long, value_name = "NAME")]
        node: String,
        #[command(flatten)]
        options: Options,
    },
}

pub(crate) fn run(command: &NodeCommand, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    match &command.verb {
        Verb::CheckImage { folder, output } => check_image(folder, *output),
        Verb::Status { pool, options } => {
            fleet::run(options, now, async |session: Session| states::run(&session, pool.as_deref()).await)
        }
        Verb::Diff { node, file, options } => {
            let document = fleet::document::load(file)?;
            fleet::run(options, now, async |session: Session| diff::run(&session, node, &document).await)
        }
        Verb::Push(command) => push::run(command, now),
        Verb::Rollback { node, options } => {
            fleet::run(options, now, async |session: Session| rollback::run(&session, node).await)
        }
    }
}

fn check_image(folder: &std::path::Path, output: answer::Output) -> Result<(), Failure> {
    let tree = Folder::open(folder).map_err(|error| Failure::file(folder, error))?;
    let report = check(&tree, Purpose::Image);
    answer::print(&match output {
        answer::Output::Text => report.to_text(),
        answer::Output::Json => report.to_json(),
    })?;
    match report.blockers().count() {
        0 => Ok(()),
        count => Err(Failure::failed(format_args!("blockers in the image: {count}"))),
    }
}
