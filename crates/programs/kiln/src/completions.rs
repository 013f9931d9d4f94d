//! `kiln completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Kiln;
use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kiln completions bash > /etc/bash_completion.d/kiln")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Kiln::command(), "kiln", &mut script);
    let mut stdout = std::io::stdout().lock();
    std::io::Write::write_all(&mut stdout, &script)
        .map_err(|error| Failure::failed(format_args!("standard output: {error}")))
}
