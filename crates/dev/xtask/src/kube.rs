//! `cargo xtask kube`. The crate `control-plane` does the work, so that `xtask` itself compiles quickly.

use std::error::Error;
use std::path::Path;

use test_deps::{Cache, TestDep};

use crate::setup::{self, Outcome, Stop};
use crate::workspace::cargo;

/// Runs the program `kube` with these arguments, after installing Kubernetes for `up`. Returns whether it succeeded.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    if arguments.first().is_some_and(|command| command == "up") {
        let cache = Cache::of_user()?;
        for dependency in [TestDep::Etcd, TestDep::Kube] {
            if cache.find(dependency).is_err() {
                eprintln!("installing `{dependency}` if needed; log: {}", cache.log_file(dependency).display());
            }
            if setup::install(&cache, dependency, &Stop::default())? == Outcome::Installed {
                eprintln!("installed `{dependency}` in {}", cache.folder(dependency).display());
            }
        }
    }
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--locked", "--package", "control-plane", "--bin", "kube", "--"]).args(arguments);
    Ok(command.status()?.success())
}
