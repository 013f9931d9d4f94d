//! Installs test dependencies, in the foreground or during the build.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use test_deps::{Cache, KubePrograms, Recipe, TestDep};

use crate::workspace::cargo;

mod debian;
mod debian_root;
mod go;
mod go_files;
mod go_program;
mod kube;
mod npm;

/// The outcome of a successful installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was installed before.
    Present,
    Installed,
}

/// Setting it stops running installations.
pub type Stop = Arc<AtomicBool>;

/// Installs a dependency unless it is installed. Waits while another process installs the same one.
pub fn install(cache: &Cache, dependency: TestDep, stop: &Stop) -> Result<Outcome, Failed> {
    if KubePrograms::of_user(cache.clone()).has_assets_of(dependency) {
        return Ok(Outcome::Present);
    }
    once(cache, dependency, |folder| {
        let log = cache.log_file(dependency);
        File::create(&log).map_err(|source| Failed::file(&log, source))?;
        make(dependency, folder, &log, stop)
    })
}

/// Calls `make` to fill the dependency's folder and marks it complete. A lock ensures that only one process does so at a time. `make`
/// works in the final folder, because the programs of a Python environment contain its path.
pub fn once(
    cache: &Cache,
    dependency: TestDep,
    make: impl FnOnce(&Path) -> Result<(), Failed>,
) -> Result<Outcome, Failed> {
    fs::create_dir_all(cache.root()).map_err(|source| Failed::file(cache.root(), source))?;
    let lock_file = cache.lock_file(dependency);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_file);
    let lock = lock.map_err(|source| Failed::file(&lock_file, source))?;
    // The kernel releases the lock when the file is closed, even if this process is killed.
    lock.lock().map_err(|source| Failed::file(&lock_file, source))?;
    if cache.find(dependency).is_ok() {
        return Ok(Outcome::Present);
    }
    let folder = cache.folder(dependency);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|source| Failed::file(&folder, source))?;
    }
    fs::create_dir_all(&folder).map_err(|source| Failed::file(&folder, source))?;
    make(&folder)?;
    cache.complete(dependency).map_err(|source| Failed::file(&folder, source))?;
    cache.find(dependency).map_err(|_| Failed::NoProgram(folder.join(dependency.program())))?;
    Ok(Outcome::Installed)
}

fn make(dependency: TestDep, folder: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let run = |command| run(command, log, stop);
    match dependency.recipe() {
        Recipe::Cargo { package, version } => {
            let build = folder.join("build");
            run(at_low_priority(&install_crate(package, version, folder, &build)))?;
            fs::remove_dir_all(&build).map_err(|source| Failed::file(&build, source))
        }
        Recipe::Venv { requirements, proof } => {
            let list = folder.join("requirements.txt");
            let python = folder.join("bin/python");
            let mut venv = Command::new("python3");
            venv.args(["-m", "venv"]).arg(folder);
            run(venv)?;
            fs::write(&list, requirements).map_err(|source| Failed::file(&list, source))?;
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--requirement"]).arg(&list);
            run(at_low_priority(&pip))?;
            let mut import = Command::new(&python);
            import.args(["-c", &format!("import {proof}")]);
            run(import)
        }
        Recipe::Npm { manifest, lock, node, proof } => {
            npm::make(&npm::Npm { manifest, lock, node, proof }, &folder.join(dependency.program()), log, stop)
        }
        Recipe::Kubernetes { version, module, go } => {
            kube::make(&kube::Kubernetes { version, module, go }, folder, log, stop)
        }
        Recipe::GoProgram { module, package, variables, go } => {
            let program = go_program::GoProgram { module, packages: &[package], variables };
            compile_go(&program, go, dependency, folder, log, stop)
        }
        Recipe::GoPrograms { module, packages, go } => {
            let program = go_program::GoProgram { module, packages, variables: &[] };
            compile_go(&program, go, dependency, folder, log, stop)
        }
        Recipe::Debian { package, program } => {
            debian::make(package, program, &folder.join(dependency.program()), log, stop)
        }
        Recipe::DebianRoot { suite, packages, disabled } => {
            debian_root::make(&debian_root::DebianRoot { suite, packages, disabled }, folder, log, stop)
        }
        Recipe::LabelledDebianRoot { suite, packages, disabled } => {
            debian_root::make(&debian_root::DebianRoot { suite, packages, disabled }, folder, log, stop)?;
            debian_root::label(folder, log, stop)
        }
        Recipe::GoFiles { module, sum, from, to, go } => {
            let compiler = go::find(go, go, folder, log, stop)?;
            go_files::make(&go_files::GoFiles { module, sum, from, to }, &compiler, folder)?;
            go::remove(folder)
        }
    }
}

fn compile_go(
    program: &go_program::GoProgram<'_>,
    go: &str,
    dependency: TestDep,
    folder: &Path,
    log: &Path,
    stop: &Stop,
) -> Result<(), Failed> {
    let needed = go::minimum_version(program.module[0].1).unwrap_or(go);
    let compiler = go::find(needed, go, folder, log, stop)?;
    go_program::make(program, &compiler, &folder.join(dependency.program()), log, stop)?;
    go::remove(folder)
}

/// Builds with the profile `dev`: a tool that runs for seconds should compile quickly.
fn install_crate(package: &str, version: &str, root: &Path, build: &Path) -> Command {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut command = cargo(root);
    command
        .args(["install", package, "--version", version, "--locked", "--no-default-features", "--profile", "dev"])
        // At most four, to limit memory; the low priority favours the build of the workspace.
        .args(["--jobs", &cores.min(4).to_string()])
        .arg("--root")
        .arg(root)
        .arg("--target-dir")
        .arg(build)
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// The same command at a slightly lower priority, so that it also finishes on a busy machine.
fn at_low_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "5"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

fn run(mut command: Command, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let output = || OpenOptions::new().append(true).open(log).map_err(|source| Failed::file(log, source));
    let line = command_line(&command);
    let failed = |source| Failed::Command { line: line.clone(), source };
    command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    let mut child = command.spawn().map_err(failed)?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return if status.success() {
                Ok(())
            } else {
                Err(Failed::Exit { line, status: status.to_string(), log: log.to_owned(), tail: tail(log) })
            };
        }
        if stop.load(Ordering::Relaxed) {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Err(Failed::Stopped);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// The reasons why a dependency could not be installed.
#[derive(Debug)]
pub enum Failed {
    File {
        path: PathBuf,
        source: io::Error,
    },
    Command {
        line: String,
        source: io::Error,
    },
    Exit {
        line: String,
        status: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A Go module cannot be downloaded, or has an unexpected checksum.
    Module {
        line: String,
        problem: String,
    },
    /// `go` is missing or too old, and the Python package with Go cannot be installed.
    NoGo {
        /// The oldest sufficient version.
        needed: String,
        package: String,
        why: String,
    },
    /// Node.js is too old.
    OldNode {
        /// The oldest sufficient version.
        needed: String,
        found: String,
    },
    /// All commands succeeded without creating this file.
    NoProgram(PathBuf),
    Stopped,
}

impl Failed {
    fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Command { line, source } => write!(f, "`{line}`: {source}"),
            Self::Exit { line, status, log, tail } => {
                write!(f, "`{line}` failed with {status}; the whole output is in {}:\n{tail}", log.display())
            }
            Self::Module { line, problem } => write!(f, "`{line}`: {problem}"),
            Self::NoGo { needed, package, why } => write!(
                f,
                "Go {needed} or later is not on PATH, and `{package}` cannot be installed with pip: {why}\n\
                 hint: install Go {needed} or later, or Python 3 with venv and pip"
            ),
            Self::OldNode { needed, found } => {
                write!(f, "Node.js {found} is too old\nhint: install Node.js {needed} or later, with npm")
            }
            Self::NoProgram(path) => write!(f, "the installation did not create {}", path.display()),
            Self::Stopped => f.write_str("stopped at the end of the test run"),
        }
    }
}

impl std::error::Error for Failed {}

/// Installations in background threads. Dropping it stops those that are still running.
#[derive(Debug)]
pub struct Background {
    stop: Stop,
    running: Vec<(TestDep, JoinHandle<Result<Outcome, Failed>>)>,
}

impl Background {
    /// Starts one thread per dependency.
    pub fn start(cache: &Cache, dependencies: impl IntoIterator<Item = TestDep>) -> Self {
        let stop = Stop::default();
        let one = |dependency| {
            let (cache, stop) = (cache.clone(), Arc::clone(&stop));
            (dependency, thread::spawn(move || install(&cache, dependency, &stop)))
        };
        let running = dependencies.into_iter().map(one).collect();
        Self { stop, running }
    }

    /// Waits for one dependency. Returns `None` if it was not started or the result was already returned.
    pub fn wait(&mut self, dependency: TestDep) -> Option<Result<Outcome, Failed>> {
        let index = self.running.iter().position(|(running, _)| *running == dependency)?;
        let (_, thread) = self.running.remove(index);
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.running.drain(..) {
            let _ = thread.join();
        }
    }
}
