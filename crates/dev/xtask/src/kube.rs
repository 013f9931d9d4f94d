//! `cargo xtask kube`: runs the program of `control-plane` that does it, so that `xtask` itself stays small.

use std::error::Error;
use std::path::Path;

use test_deps::{Cache, Part};

use crate::setup::{self, Outcome, Stop};
use crate::workspace::cargo;

/// Runs it with these arguments; `true` when it succeeded. The programs of Kubernetes are made first when they are to be started.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    if arguments.first().is_some_and(|command| command == "up") {
        let cache = Cache::of_user()?;
        if cache.find(Part::Kube).is_err() {
            eprintln!("installing `{}` if need be; log: {}", Part::Kube, cache.log_file(Part::Kube).display());
        }
        if setup::install(&cache, Part::Kube, &Stop::default())? == Outcome::Installed {
            eprintln!("installed `{}`: {}", Part::Kube, cache.folder(Part::Kube).display());
        }
    }
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--locked", "--package", "control-plane", "--bin", "kube", "--"]).args(arguments);
    Ok(command.status()?.success())
}
