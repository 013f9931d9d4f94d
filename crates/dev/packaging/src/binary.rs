//! Compiles static binaries, for musl if possible, else for glibc.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Architecture, Error, Program};

/// The C library that is linked into the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    Musl,
    /// Linked statically, glibc resolves host names without the system's NSS plugins.
    Gnu,
}

impl Libc {
    fn target(self, architecture: Architecture) -> String {
        let libc = match self {
            Self::Musl => "musl",
            Self::Gnu => "gnu",
        };
        format!("{}-unknown-linux-{libc}", architecture.rust())
    }
}

/// A compiled binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    pub path: PathBuf,
    pub libc: Libc,
    pub target: String,
}

impl Built {
    /// The target, with the reason if it is not musl.
    pub fn description(&self) -> String {
        match self.libc {
            Libc::Musl => self.target.clone(),
            Libc::Gnu => format!("{} with static glibc, because the musl target cannot be installed", self.target),
        }
    }
}

/// Compiles a program of the workspace. Uses musl if the toolchain has its target or `rustup` can install it.
pub fn build(root: &Path, program: Program, profile: &str, architecture: Architecture) -> Result<Built, Error> {
    let musl = Libc::Musl.target(architecture);
    let has_musl = has_library(root, &musl)? || (add_target(root, &musl) && has_library(root, &musl)?);
    build_for(root, program, profile, architecture, if has_musl { Libc::Musl } else { Libc::Gnu })
}

/// Compiles a program of a release, always for musl: releases of two machines must not differ.
pub fn build_musl(root: &Path, program: Program, profile: &str, architecture: Architecture) -> Result<Built, Error> {
    let target = Libc::Musl.target(architecture);
    let has_target = has_library(root, &target)? || (add_target(root, &target) && has_library(root, &target)?);
    if !has_target {
        return Err(Error::NoTarget(target));
    }
    build_for(root, program, profile, architecture, Libc::Musl)
}

fn build_for(
    root: &Path,
    program: Program,
    profile: &str,
    architecture: Architecture,
    libc: Libc,
) -> Result<Built, Error> {
    let target = libc.target(architecture);
    let compiler = compiler(architecture)?;
    // A separate folder: in the default one, different flags would discard the build of the tests.
    let folder = root.join("target/image");
    // The sources have to be there before their folders are listed.
    run(cargo(root).args(["fetch", "--locked", "--quiet", "--target", &target]))?;
    let prefixes = prefixes(root, cargo_home().as_deref())?;
    run(&mut compile(root, &folder, program, profile, (libc, &target, compiler), &prefixes))?;
    let profile_folder = if profile == "dev" { "debug" } else { profile };
    let path = folder.join(&target).join(profile_folder).join(program.name());
    refuse_dynamic(&path)?;
    Ok(Built { path, libc, target })
}

/// The C compiler of another architecture, which links its programs too. None for this machine's own.
fn compiler(architecture: Architecture) -> Result<Option<&'static str>, Error> {
    if architecture.rust() == std::env::consts::ARCH {
        return Ok(None);
    }
    let compiler = match architecture {
        Architecture::Amd64 => "x86_64-linux-gnu-gcc",
        Architecture::Arm64 => "aarch64-linux-gnu-gcc",
    };
    let runs = Command::new(compiler).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
    match runs {
        Ok(status) if status.success() => Ok(Some(compiler)),
        _ => Err(Error::NoCompiler(architecture.name().to_owned(), compiler.to_owned())),
    }
}

fn compile(
    root: &Path,
    folder: &Path,
    program: Program,
    profile: &str,
    (libc, target, compiler): (Libc, &str, Option<&str>),
    prefixes: &[(PathBuf, &str)],
) -> Command {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    // Hides the paths of this machine, so that two clones build the same bytes.
    let mut c_flags = "-U_FORTIFY_SOURCE".to_owned();
    for (path, name) in prefixes {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
        let _ = write!(c_flags, " -ffile-prefix-map={}={name}", path.display());
    }
    let mut command = cargo(root);
    command
        .args(["build", "--locked", "--package", program.name(), "--bin", program.name()])
        .args(["--profile", profile, "--target", target])
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    if let Some(compiler) = compiler {
        command.env(format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase()), compiler);
    }
    if libc == Libc::Musl {
        let name = target.replace('-', "_");
        // ring's C code needs a compiler but no C library. The host's compiler works with `-U_FORTIFY_SOURCE`, without which its headers
        // insert calls of glibc's checked functions.
        let own = || std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        command.env(format!("CC_{name}"), compiler.map_or_else(own, Into::into));
        command.env(format!("CFLAGS_{name}"), c_flags);
    }
    command
}

/// cargo in the source tree.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // This variable describes the calling program, not the compiled one.
    command.current_dir(root).env_remove("CARGO_MANIFEST_DIR");
    command
}

/// The folder in which cargo unpacks the sources of dependencies.
fn cargo_home() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
}

/// Paths of this machine with the names that programs contain instead of them. Compilers use the last one that matches.
fn prefixes(root: &Path, cargo_home: Option<&Path>) -> Result<Vec<(PathBuf, &'static str)>, Error> {
    let mut prefixes = vec![(root.to_owned(), "/kiln")];
    let Some(home) = cargo_home else { return Ok(prefixes) };
    prefixes.push((home.to_owned(), "/cargo"));
    // Each registry has its own folder, which is named after its host. A mirror contains the same crates.
    let sources = home.join("registry/src");
    let mut registries = Vec::new();
    if sources.exists() {
        for entry in fs::read_dir(&sources).map_err(Error::file(&sources))? {
            registries.push(entry.map_err(Error::file(&sources))?.path());
        }
    }
    registries.sort();
    prefixes.extend(registries.into_iter().map(|path| (path, "/cargo/registry")));
    Ok(prefixes)
}

/// Whether the toolchain has the standard library of a target.
fn has_library(root: &Path, target: &str) -> Result<bool, Error> {
    let mut command = Command::new("rustc");
    command.current_dir(root).args(["--print", "target-libdir", "--target", target]).stdin(Stdio::null());
    let output = command.output().map_err(|source| Error::Command { line: command_line(&command), source })?;
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success() && fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()))
}

/// Installs a target with `rustup`, if that is possible.
fn add_target(root: &Path, target: &str) -> bool {
    let status = Command::new("rustup").args(["target", "add", target]).current_dir(root).stdin(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<(), Error> {
    let line = command_line(command);
    let status = command.status().map_err(|source| Error::Command { line: line.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Exit { line, status: status.to_string() }) }
}

pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Rejects a program that needs a dynamic loader (`PT_INTERP`), which the image does not have.
pub fn refuse_dynamic(path: &Path) -> Result<(), Error> {
    let bytes = fs::read(path).map_err(Error::file(path))?;
    match interpreter(&bytes) {
        Some(Loader::None) => Ok(()),
        Some(Loader::Required(loader)) => Err(Error::NotStatic { path: path.to_owned(), loader }),
        None => Err(Error::NotElf(path.to_owned())),
    }
}

/// The dynamic loader that a program needs.
#[derive(Debug, PartialEq, Eq)]
enum Loader {
    None,
    Required(String),
}

/// The loader of a 64-bit little-endian ELF program. Returns `None` for other files.
fn interpreter(bytes: &[u8]) -> Option<Loader> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, size: usize| -> Option<u64> {
        let field = bytes.get(at..at.checked_add(size)?)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    let offset = |at: usize, size: usize| number(at, size).and_then(|value| usize::try_from(value).ok());
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (offset(0x20, 8)?, offset(0x36, 2)?, offset(0x38, 2)?);
    for index in 0..count {
        let header = table.checked_add(index.checked_mul(size)?)?;
        if number(header, 4)? == PT_INTERP {
            let (from, length) = (offset(header + 0x08, 8)?, offset(header + 0x20, 8)?);
            let name = bytes.get(from..from.checked_add(length)?)?;
            return Some(Loader::Required(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Some(Loader::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_program_is_rejected() {
        let own = std::env::current_exe().unwrap();
        let error = refuse_dynamic(&own).unwrap_err();
        assert!(matches!(&error, Error::NotStatic { loader, .. } if loader.contains("ld")), "{error}");
    }

    #[test]
    fn scripts_and_truncated_files_are_not_programs() {
        assert_eq!(interpreter(b"#!/bin/sh\n"), None);
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(interpreter(&own[..0x30]), None);
    }

    #[test]
    fn program_without_a_loader_is_static() {
        let mut header = vec![0; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(interpreter(&header), Some(Loader::None));
    }

    #[test]
    fn paths_of_this_machine_are_remapped() {
        let home = tempfile::tempdir().unwrap();
        let registry = home.path().join("registry/src/mirror.example-0123");
        fs::create_dir_all(&registry).unwrap();
        let prefixes = prefixes(Path::new("/here"), Some(home.path())).unwrap();
        let command = compile(
            Path::new("/here"),
            Path::new("/here/target"),
            Program::Kiln,
            "dist",
            (Libc::Musl, "aarch64-unknown-linux-musl", Some("aarch64-linux-gnu-gcc")),
            &prefixes,
        );
        let value = |name: &str| command.get_envs().find(|(known, _)| *known == name).and_then(|(_, value)| value);
        let text = |name: &str| value(name).unwrap().to_str().unwrap().to_owned();
        let (home, registry) = (home.path().display(), registry.display());
        let expected = [format!("{home}=/cargo"), format!("{registry}=/cargo/registry")];
        let rust = format!(
            "\u{1f}--remap-path-prefix=/here=/kiln\u{1f}--remap-path-prefix={}\u{1f}--remap-path-prefix={}",
            expected[0], expected[1]
        );
        assert!(text("CARGO_ENCODED_RUSTFLAGS").ends_with(&rust), "the most specific is last");
        let c = format!(
            " -ffile-prefix-map=/here=/kiln -ffile-prefix-map={} -ffile-prefix-map={}",
            expected[0], expected[1]
        );
        assert!(text("CFLAGS_aarch64_unknown_linux_musl").ends_with(&c));
        let linker = value("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER");
        assert_eq!(linker, Some("aarch64-linux-gnu-gcc".as_ref()));
        assert_eq!(value("CC_aarch64_unknown_linux_musl"), linker);
    }
}
