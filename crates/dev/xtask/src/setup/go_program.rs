//! One program of a Go module, compiled as its `go.sum` says: a module with another sum is refused by Go itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::go::{self, sealed};
use super::{Failed, Stop, quietly, run};

/// Which program.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoProgram {
    /// The files of the module: name and content.
    pub(super) module: &'static [(&'static str, &'static str)],
    pub(super) package: &'static str,
    /// Variables that the linker sets: package, name and value.
    pub(super) variables: &'static [(&'static str, &'static str, &'static str)],
}

/// Compiles it to `output`.
pub(super) fn make(program: &GoProgram, go: &Path, output: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let bin = output.parent().unwrap_or(output);
    let build = bin.with_file_name("build");
    for path in [bin, &build] {
        fs::create_dir_all(path).map_err(|source| Failed::file(path, source))?;
    }
    for (name, content) in program.module {
        let path = build.join(name);
        fs::write(&path, content).map_err(|source| Failed::file(&path, source))?;
    }
    let turn = go::turn(bin.parent().unwrap_or(bin), stop)?;
    run(quietly(&compile(program, go, &build, output)), log, stop)?;
    drop(turn);
    fs::remove_dir_all(&build).map_err(|source| Failed::file(&build, source))
}

fn compile(program: &GoProgram, go: &Path, module: &Path, output: &Path) -> Command {
    let mut flags = "-s -w".to_owned();
    for (package, name, value) in program.variables {
        flags.extend([" -X ", package, ".", name, "=", value]);
    }
    let mut command = sealed(go, module);
    command.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(output).arg(program.package);
    // Read-only: what `go.sum` does not name is not taken.
    command.env("GOFLAGS", "-mod=readonly");
    command
}

#[cfg(test)]
mod tests {
    use test_deps::{Part, Recipe};

    use super::*;

    #[test]
    fn helm_is_told_its_version_and_no_module_without_a_sum_is_taken() {
        let Recipe::GoProgram { module, package, variables, .. } = Part::Helm.recipe() else { panic!() };
        let program = GoProgram { module, package, variables };
        let command = compile(&program, Path::new("go"), Path::new("/m"), Path::new("/o"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.iter().any(|word| word.contains("-X helm.sh/helm/v3/internal/version.version=v3.")), "{words:?}");
        assert_eq!(words.last().unwrap(), "helm.sh/helm/v3/cmd/helm");
        assert!(command.get_envs().any(|(name, value)| name == "GOFLAGS" && value == Some("-mod=readonly".as_ref())));
    }
}
