//! `kiln node`: checks of nodes and images that need no cluster.
//!
//! `kiln_node_plan::check_image` decides; [`folder`] reads the image.

mod folder;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_node_plan::check_image::{Purpose, check};

use crate::answer;
use crate::failure::Failure;
use folder::Folder;

const EXAMPLES: &str = "Examples:
  kiln node check-image ./root
      What is missing on the image in this folder, or in the way of a node; exit code 1 if there is a blocker.
  kiln node check-image /mnt/image --output json
      The same for programs.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct NodeCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Name what is missing on an image or in the way; exit code 1 if machines created from it would not become nodes
    #[command(after_help = EXAMPLES)]
    CheckImage {
        /// Folder with the root file system of the image
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        output: answer::Output,
    },
}

pub(crate) fn run(command: &NodeCommand) -> Result<(), Failure> {
    let Verb::CheckImage { folder, output } = &command.verb;
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
