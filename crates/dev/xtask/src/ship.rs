//! `cargo xtask image`, `package`, `boot-bench`: run the programs that do it, so that `xtask` itself stays small.

use std::error::Error;
use std::path::Path;

use crate::workspace::cargo;

/// Runs a program of `packaging` with these arguments; `true` when it succeeded.
pub fn run(root: &Path, program: &str, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    run_of(root, "packaging", program, arguments)
}

/// Runs a program of a package. It runs where the user is: paths on the command line are theirs.
pub fn run_of(root: &Path, package: &str, program: &str, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let mut command = cargo(&std::env::current_dir()?);
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(root.join("Cargo.toml"));
    command.args(["--package", package, "--bin", program, "--"]).args(arguments);
    Ok(command.status()?.success())
}
