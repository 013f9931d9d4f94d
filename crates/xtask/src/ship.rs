//! `cargo xtask image` and `cargo xtask package`: run the programs of `ship` that do it, so that `xtask` itself stays small.

use std::error::Error;
use std::path::Path;

use crate::workspace::cargo;

/// Runs one of them with these arguments; `true` when it succeeded. It runs where the user is: paths on the command line are theirs.
pub fn run(root: &Path, program: &str, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let mut command = cargo(&std::env::current_dir()?);
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(root.join("Cargo.toml"));
    command.args(["--package", "ship", "--bin", program, "--"]).args(arguments);
    Ok(command.status()?.success())
}
