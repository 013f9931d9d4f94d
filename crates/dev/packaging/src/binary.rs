//! The static binary: compiled for musl, else for glibc with everything linked in.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Architecture, Error, Program};

/// The C library that is in the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// musl: whole in one file.
    Musl,
    /// glibc, linked statically: names are looked up without the system's plugins.
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
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub libc: Libc,
    /// Its digest depends on these too: the compiler, and paths that were mapped away.
    pub target: String,
}

impl Built {
    /// What it was compiled for, and why not for musl where it was not.
    pub fn how(&self) -> String {
        match self.libc {
            Libc::Musl => self.target.clone(),
            Libc::Gnu => format!("{} with glibc linked in, because the target for musl cannot be had", self.target),
        }
    }
}

/// Compiles a program of the workspace with a profile. musl is taken when the toolchain has its library or `rustup` can add it.
pub fn build(root: &Path, program: Program, profile: &str, architecture: Architecture) -> Result<Built, Error> {
    let musl = Libc::Musl.target(architecture);
    let has_musl = has_library(root, &musl)? || (rustup(root, &musl) && has_library(root, &musl)?);
    let libc = if has_musl { Libc::Musl } else { Libc::Gnu };
    let target = libc.target(architecture);
    // Its own folder: other flags would throw away everything that tests have compiled.
    let folder = root.join("target/image");
    run(&mut compile(root, &folder, program, profile, libc, &target))?;
    let named = if profile == "dev" { "debug" } else { profile };
    let path = folder.join(&target).join(named).join(program.name());
    refuse_dynamic(&path)?;
    Ok(Built { path, libc, target })
}

fn compile(root: &Path, folder: &Path, program: Program, profile: &str, libc: Libc, target: &str) -> Command {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    // No path of this machine in the binary: two checkouts make the same bytes.
    flags.push(format!("--remap-path-prefix={}=/kiln", root.display()));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let mut c_flags = "-U_FORTIFY_SOURCE".to_owned();
    if let Some(home) = cargo_home {
        flags.push(format!("--remap-path-prefix={}=/cargo", home.display()));
        let _ = write!(c_flags, " -ffile-prefix-map={}=/cargo", home.display());
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root)
        .args(["build", "--locked", "--package", program.name(), "--bin", program.name()])
        .args(["--profile", profile, "--target", target])
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        // What cargo says of the program that asks is not for what is compiled.
        .env_remove("CARGO_MANIFEST_DIR");
    if libc == Libc::Musl {
        let name = target.replace('-', "_");
        // ring's C needs a compiler and no library: the machine's own does, unless its headers turn calls into glibc's checked ones.
        command.env(format!("CC_{name}"), std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command.env(format!("CFLAGS_{name}"), c_flags);
    }
    command
}

/// Whether the toolchain has the standard library of a target.
fn has_library(root: &Path, target: &str) -> Result<bool, Error> {
    let mut command = Command::new("rustc");
    command.current_dir(root).args(["--print", "target-libdir", "--target", target]).stdin(Stdio::null());
    let output = command.output().map_err(|source| Error::Command { line: shown(&command), source })?;
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success() && fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()))
}

/// Asks `rustup` for a target; a machine without it, or without a network, gets the other library.
fn rustup(root: &Path, target: &str) -> bool {
    let status = Command::new("rustup").args(["target", "add", target]).current_dir(root).stdin(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<(), Error> {
    let line = shown(command);
    let status = command.status().map_err(|source| Error::Command { line: line.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Exit { line, status: status.to_string() }) }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Refuses a program that names a loader (`PT_INTERP`): in an image of one file it could not start.
pub fn refuse_dynamic(path: &Path) -> Result<(), Error> {
    let bytes = fs::read(path).map_err(Error::file(path))?;
    match interpreter(&bytes) {
        Some(Loader::None) => Ok(()),
        Some(Loader::Asked(loader)) => Err(Error::NotStatic { path: path.to_owned(), loader }),
        None => Err(Error::NotElf(path.to_owned())),
    }
}

/// What a program needs to be started.
#[derive(Debug, PartialEq, Eq)]
enum Loader {
    /// Nothing but the kernel.
    None,
    /// This program.
    Asked(String),
}

/// The loader of a 64-bit little-endian ELF program; nothing when it is no such program.
fn interpreter(bytes: &[u8]) -> Option<Loader> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, size: usize| -> Option<u64> {
        let field = bytes.get(at..at.checked_add(size)?)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    let place = |at: usize, size: usize| number(at, size).and_then(|value| usize::try_from(value).ok());
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (place(0x20, 8)?, place(0x36, 2)?, place(0x38, 2)?);
    for index in 0..count {
        let header = table.checked_add(index.checked_mul(size)?)?;
        if number(header, 4)? == PT_INTERP {
            let (from, length) = (place(header + 0x08, 8)?, place(header + 0x20, 8)?);
            let name = bytes.get(from..from.checked_add(length)?)?;
            return Some(Loader::Asked(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Some(Loader::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_not_taken_for_a_static_one() {
        let own = std::env::current_exe().unwrap();
        let error = refuse_dynamic(&own).unwrap_err();
        assert!(matches!(&error, Error::NotStatic { loader, .. } if loader.contains("ld")), "{error}");
    }

    #[test]
    fn a_script_and_a_torn_file_are_no_programs() {
        assert_eq!(interpreter(b"#!/bin/sh\n"), None);
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(interpreter(&own[..0x30]), None);
    }

    #[test]
    fn a_program_without_a_loader_is_static() {
        let mut header = vec![0; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(interpreter(&header), Some(Loader::None));
    }

    #[test]
    fn no_path_of_this_machine_goes_into_the_binary() {
        let command = compile(
            Path::new("/here"),
            Path::new("/here/target"),
            Program::Kiln,
            "dist",
            Libc::Musl,
            "x86_64-unknown-linux-musl",
        );
        let flags = command.get_envs().find(|(name, _)| *name == "CARGO_ENCODED_RUSTFLAGS").unwrap().1.unwrap();
        assert!(flags.to_string_lossy().contains("--remap-path-prefix=/here=/kiln"), "{flags:?}");
    }
}
