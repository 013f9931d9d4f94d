//! `cargo xtask image`: runs the program of `oci` that does it, so that `xtask` itself stays small.

use std::error::Error;
use std::path::Path;

use crate::workspace::cargo;

/// Runs it with these arguments; `true` when it succeeded. It runs where the user is: paths on the command line are theirs.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let mut command = cargo(&std::env::current_dir()?);
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(root.join("Cargo.toml"));
    command.args(["--package", "oci", "--bin", "image", "--"]).args(arguments);
    Ok(command.status()?.success())
}
