//! `kiln completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Kiln;
use crate::answer;
use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kiln completions bash > /etc/bash_completion.d/kiln")]
pub(crate) struct Completions {
    /// Shell to generate the script for
    shell: Shell,
}

pub(crate) fn run(arguments: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Kiln::command(), "kiln", &mut script);
    answer::print(&String::from_utf8_lossy(&script))
}
