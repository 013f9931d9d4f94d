//! Builds Kubernetes as one Go binary with a link per program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::go::{self, isolated};
use super::{Failed, Stop, at_low_priority, run};

/// The names under which the binary is called.
const LINKS: [&str; 5] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"];

/// The recipe of the dependency `kube`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kubernetes {
    /// The version that the programs report.
    pub(super) version: &'static str,
    /// Name and content of the module's files.
    pub(super) module: [(&'static str, &'static str); 3],
    /// The Go to install if `go` on PATH is missing or too old.
    pub(super) go: &'static str,
}

/// Fills the dependency's folder.
pub(super) fn make(recipe: &Kubernetes, folder: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let build = folder.join("build");
    let bin = folder.join("bin");
    for path in [&build, &bin] {
        fs::create_dir_all(path).map_err(|source| Failed::file(path, source))?;
    }
    let [(_, manifest), ..] = recipe.module;
    let needed = go::minimum_version(manifest).unwrap_or(recipe.go);
    let go = go::find(needed, recipe.go, folder, log, stop)?;
    for (name, content) in recipe.module {
        let path = build.join(name);
        fs::write(&path, content).map_err(|source| Failed::file(&path, source))?;
    }
    // Compiled elsewhere and renamed, so that no link leads to an incomplete program.
    let partial = build.join("kiln-kube");
    let lock = go::lock_compiler(folder, stop)?;
    run(at_low_priority(&compile(&go, &build, recipe.version, &partial)), log, stop)?;
    drop(lock);
    let program = bin.join("kiln-kube");
    fs::rename(&partial, &program).map_err(|source| Failed::file(&program, source))?;
    for link in LINKS {
        let path = bin.join(link);
        symlink("kiln-kube", &path).map_err(|source| Failed::file(&path, source))?;
    }
    fs::remove_dir_all(&build).map_err(|source| Failed::file(&build, source))?;
    go::remove(folder)
}

fn compile(go: &Path, module: &Path, version: &str, output: &Path) -> Command {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (name, value) in
            [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")]
        {
            flags.extend([" -X ", package, ".", name, "=", value]);
        }
    }
    let mut command = isolated(go, module);
    command.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(output).arg(".");
    command.env("GOFLAGS", "-mod=readonly");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_built_with_their_version() {
        let command = compile(Path::new("go"), Path::new("/m"), "v1.34.4", Path::new("/o"));
        let flags = command.get_args().find(|argument| argument.to_string_lossy().starts_with("-s -w")).unwrap();
        let flags = flags.to_string_lossy();
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.34.4 "), "{flags}");
        assert!(flags.contains(".gitMinor=34 "), "{flags}");
    }
}
