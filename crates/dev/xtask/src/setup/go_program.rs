//! Compiles programs of a Go module. Go itself rejects modules whose checksum differs from `go.sum`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::go::{self, isolated};
use super::{Failed, Stop, at_low_priority, run};

/// The programs to compile.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoProgram<'a> {
    /// Name and content of the module's files.
    pub(super) module: &'static [(&'static str, &'static str)],
    pub(super) packages: &'a [&'static str],
    /// Go variables that the linker sets: package, name and value.
    pub(super) variables: &'static [(&'static str, &'static str, &'static str)],
}

/// Compiles them. A single program is written to `output`, several into its folder.
pub(super) fn make(program: &GoProgram<'_>, go: &Path, output: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let bin = output.parent().unwrap_or(output);
    let build = bin.with_file_name("build");
    for path in [bin, &build] {
        fs::create_dir_all(path).map_err(|source| Failed::file(path, source))?;
    }
    for (name, content) in program.module {
        let path = build.join(name);
        fs::write(&path, content).map_err(|source| Failed::file(&path, source))?;
    }
    let lock = go::lock_compiler(bin.parent().unwrap_or(bin), stop)?;
    run(at_low_priority(&compile(program, go, &build, output)), log, stop)?;
    drop(lock);
    fs::remove_dir_all(&build).map_err(|source| Failed::file(&build, source))
}

fn compile(program: &GoProgram<'_>, go: &Path, module: &Path, output: &Path) -> Command {
    let mut flags = "-s -w".to_owned();
    for (package, name, value) in program.variables {
        flags.extend([" -X ", package, ".", name, "=", value]);
    }
    let mut command = isolated(go, module);
    command.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]);
    // Go takes a path that ends with a slash for a folder.
    match program.packages {
        [_] => command.arg(output),
        _ => command.arg(output.with_file_name("")),
    };
    command.args(program.packages);
    // Read-only, so that Go does not add modules to `go.sum`.
    command.env("GOFLAGS", "-mod=readonly");
    command
}

#[cfg(test)]
mod tests {
    use test_deps::{Recipe, TestDep};

    use super::*;

    #[test]
    fn helm_is_built_with_its_version_and_a_read_only_go_sum() {
        let Recipe::GoProgram { module, package, variables, .. } = TestDep::Helm.recipe() else { panic!() };
        let program = GoProgram { module, packages: &[package], variables };
        let command = compile(&program, Path::new("go"), Path::new("/m"), Path::new("/o"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.iter().any(|word| word.contains("-X helm.sh/helm/v3/internal/version.version=v3.")), "{words:?}");
        assert_eq!(words.last().unwrap(), "helm.sh/helm/v3/cmd/helm");
        assert!(command.get_envs().any(|(name, value)| name == "GOFLAGS" && value == Some("-mod=readonly".as_ref())));
    }

    #[test]
    fn several_programs_are_written_into_one_folder() {
        let Recipe::GoPrograms { module, packages, .. } = TestDep::CniPlugins.recipe() else { panic!() };
        let program = GoProgram { module, packages, variables: &[] };
        let command = compile(&program, Path::new("go"), Path::new("/m"), Path::new("/cni/bin/bridge"));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let output = words.iter().position(|word| word == "-o").expect("an output");
        assert_eq!(words[output + 1], "/cni/bin/");
        assert_eq!(words[output + 2..], *packages);
    }
}
