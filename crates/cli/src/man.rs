//! `kiln man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::Kiln;
use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kiln man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Folder for the pages: one for kiln and one for each command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Man) -> Result<(), Failure> {
    clap_mangen::generate_to(Kiln::command(), &arguments.folder)
        .map_err(|error| Failure::file(&arguments.folder, error))
}
