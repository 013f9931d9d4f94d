//! `cargo xtask image`, `package`, `dist` and `boot-bench`. Other crates do the work, so that `xtask` itself compiles quickly.

use std::error::Error;
use std::path::Path;

use crate::workspace::cargo;

/// Runs a program of `packaging` with these arguments. Returns whether it succeeded.
pub fn run(root: &Path, program: &str, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    run_program(root, "packaging", program, arguments)
}

/// Runs a program of a package in the current directory, so that relative paths on the command line work.
pub fn run_program(root: &Path, package: &str, program: &str, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let mut command = cargo(&std::env::current_dir()?);
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(root.join("Cargo.toml"));
    command.args(["--package", package, "--bin", program, "--"]).args(arguments);
    Ok(command.status()?.success())
}
