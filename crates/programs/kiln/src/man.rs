//! `kiln man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::Kiln;
use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kiln man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Existing folder; gets one page for kiln and one for each command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Man) -> Result<(), Failure> {
    let folder = &arguments.folder;
    if !folder.is_dir() {
        let hint = format!("create it with `mkdir -p {}`", folder.display());
        return Err(Failure::file(folder, "no such folder").hint(hint));
    }
    clap_mangen::generate_to(Kiln::command(), folder).map_err(|error| Failure::file(folder, error))
}
