//! Builds Kubernetes as one Go binary with a link per program, and etcd.

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
    pub(super) etcd: &'static str,
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
    etcd(recipe, &go, &build, &bin, log, stop)?;

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

/// Unpacks etcd from the Debian package (installing the package would start a service), else builds it from its Go module.
fn etcd(recipe: &Kubernetes, go: &Path, build: &Path, bin: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let program = bin.join("etcd");
    if from_debian(build, &program, log, stop).is_ok() {
        return Ok(());
    }
    let module = build.join("etcd");
    fs::create_dir_all(&module).map_err(|source| Failed::file(&module, source))?;
    let package = recipe.etcd.split('@').next().unwrap_or(recipe.etcd);
    for arguments in [&["mod", "init", "kiln.invalid/etcd"][..], &["get", recipe.etcd]] {
        let mut command = isolated(go, &module);
        command.args(arguments).env("GOFLAGS", "-mod=mod");
        run(command, log, stop)?;
    }
    let mut command = isolated(go, &module);
    command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg(package);
    run(at_low_priority(&command), log, stop)
}

fn from_debian(build: &Path, program: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["download", "etcd-server"]).current_dir(build);
        run(command, log, stop)
    };
    if download().is_err() {
        // A fresh container image has no package lists.
        let mut update = Command::new("apt-get");
        update.arg("update");
        run(update, log, stop)?;
        download()?;
    }
    let entries = fs::read_dir(build).map_err(|source| Failed::file(build, source))?;
    let mut packages = entries.flatten().map(|entry| entry.path());
    let package = packages.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = package.ok_or_else(|| Failed::NoProgram(build.join("etcd-server.deb")))?;
    let tree = build.join("debian");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(&package).arg(&tree);
    run(unpack, log, stop)?;
    let unpacked = tree.join("usr/bin/etcd");
    let mut proof = Command::new(&unpacked);
    proof.arg("--version");
    run(proof, log, stop)?;
    fs::rename(&unpacked, program).map_err(|source| Failed::file(program, source))
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
