//! Installing parts, beside whatever else runs.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use test_deps::{Cache, KubePrograms, Part, Recipe};

use crate::workspace::cargo;

mod debian;
mod debian_root;
mod go;
mod go_files;
mod go_program;
mod kube;

/// What an installation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The part was there.
    Present,
    /// The part was made.
    Installed,
}

/// Set to end running installations early.
pub type Stop = Arc<AtomicBool>;

/// Installs a part unless it is there. Waits while another process installs the same one.
pub fn install(cache: &Cache, part: Part, stop: &Stop) -> Result<Outcome, Failed> {
    if part == Part::Kube && KubePrograms::of_user(cache.clone()).are_given() {
        return Ok(Outcome::Present);
    }
    once(cache, part, |folder| {
        let log = cache.log_file(part);
        File::create(&log).map_err(|source| Failed::file(&log, source))?;
        make(part, folder, &log, stop)
    })
}

/// Lets `make` fill the part's folder, at most once at a time, and marks it complete afterwards. The folder is filled in place
/// rather than moved there: the programs of a Python environment hold its path.
pub fn once(cache: &Cache, part: Part, make: impl FnOnce(&Path) -> Result<(), Failed>) -> Result<Outcome, Failed> {
    fs::create_dir_all(cache.root()).map_err(|source| Failed::file(cache.root(), source))?;
    let lock_file = cache.lock_file(part);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_file);
    let lock = lock.map_err(|source| Failed::file(&lock_file, source))?;
    // Released when the file is closed, also by the death of this process.
    lock.lock().map_err(|source| Failed::file(&lock_file, source))?;
    if cache.find(part).is_ok() {
        return Ok(Outcome::Present);
    }
    let folder = cache.folder(part);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|source| Failed::file(&folder, source))?;
    }
    fs::create_dir_all(&folder).map_err(|source| Failed::file(&folder, source))?;
    make(&folder)?;
    cache.complete(part).map_err(|source| Failed::file(&folder, source))?;
    cache.find(part).map_err(|_| Failed::NoProgram(folder.join(part.program())))?;
    Ok(Outcome::Installed)
}

fn make(part: Part, folder: &Path, log: &Path, stop: &Stop) -> Result<(), Failed> {
    let run = |command| run(command, log, stop);
    match part.recipe() {
        Recipe::Cargo { package, version } => {
            let build = folder.join("build");
            run(quietly(&install_crate(package, version, folder, &build)))?;
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
            run(quietly(&pip))?;
            let mut import = Command::new(&python);
            import.args(["-c", &format!("import {proof}")]);
            run(import)
        }
        Recipe::Kubernetes { version, module, go, etcd } => {
            kube::make(&kube::Kubernetes { version, module, go, etcd }, folder, log, stop)
        }
        Recipe::GoProgram { module, package, variables, go } => {
            let needed = go::oldest(module[0].1).unwrap_or(go);
            let compiler = go::find(needed, go, folder, log, stop)?;
            let program = go_program::GoProgram { module, package, variables };
            go_program::make(&program, &compiler, &folder.join(part.program()), log, stop)?;
            go::forget(folder)
        }
        Recipe::Debian { package, program } => debian::make(package, program, &folder.join(part.program()), log, stop),
        Recipe::DebianRoot { suite, packages, disabled } => {
            debian_root::make(&debian_root::DebianRoot { suite, packages, disabled }, folder, log, stop)
        }
        Recipe::GoFiles { module, sum, from, to, go } => {
            let compiler = go::find(go, go, folder, log, stop)?;
            go_files::make(&go_files::GoFiles { module, sum, from, to }, &compiler, folder)?;
            go::forget(folder)
        }
    }
}

/// A tool that runs for a second a day is built to be ready soon, not to be fast.
fn install_crate(package: &str, version: &str, root: &Path, build: &Path) -> Command {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut command = cargo(root);
    command
        .args(["install", package, "--version", version, "--locked", "--no-default-features", "--profile", "dev"])
        // Low priority keeps it out of the way of the workspace's own build; the bound is for memory.
        .args(["--jobs", &cores.min(4).to_string()])
        .arg("--root")
        .arg(root)
        .arg("--target-dir")
        .arg(build)
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// The same command at lower priority: little enough that a machine busy with other things still gets it done.
fn quietly(command: &Command) -> Command {
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
    let line = shown(&command);
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

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// Why a part could not be installed.
#[derive(Debug)]
pub enum Failed {
    /// A file or folder of the cache.
    File { path: PathBuf, source: io::Error },
    /// A command that could not be run.
    Command { line: String, source: io::Error },
    /// A command that failed.
    Exit {
        line: String,
        /// Its exit status.
        status: String,
        /// All that it printed.
        log: PathBuf,
        /// The end of that.
        tail: String,
    },
    /// A Go module is not what was asked for, or cannot be had.
    Module {
        line: String,
        /// What is wrong.
        problem: String,
    },
    /// Neither is Go there, nor can it be had.
    NoGo {
        /// The oldest that would do.
        needed: String,
        /// The package that was tried.
        package: String,
        /// Why that failed.
        why: String,
    },
    /// All commands succeeded, but the program is not there.
    NoProgram(PathBuf),
    /// The run ended first.
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
                write!(f, "`{line}` ended with {status}; all of its output is in {}:\n{tail}", log.display())
            }
            Self::Module { line, problem } => write!(f, "`{line}`: {problem}"),
            Self::NoGo { needed, package, why } => write!(
                f,
                "no Go: install Go {needed} or later so that `go` is on PATH, or make `python3 -m venv` and pip work for \
                 `{package}` (which failed: {why})"
            ),
            Self::NoProgram(path) => write!(f, "the installation did not make {}", path.display()),
            Self::Stopped => f.write_str("stopped, because the run ended first"),
        }
    }
}

impl std::error::Error for Failed {}

/// Installations that run beside the build.
#[derive(Debug)]
pub struct Background {
    stop: Stop,
    running: Vec<(Part, JoinHandle<Result<Outcome, Failed>>)>,
}

impl Background {
    /// Starts one thread per part.
    pub fn start(cache: &Cache, parts: impl IntoIterator<Item = Part>) -> Self {
        let stop = Stop::default();
        let one = |part| {
            let (cache, stop) = (cache.clone(), Arc::clone(&stop));
            (part, thread::spawn(move || install(&cache, part, &stop)))
        };
        let running = parts.into_iter().map(one).collect();
        Self { stop, running }
    }

    /// Waits for one part. `None` when it was not started, or waited for already.
    pub fn wait(&mut self, part: Part) -> Option<Result<Outcome, Failed>> {
        let index = self.running.iter().position(|(running, _)| *running == part)?;
        let (_, thread) = self.running.remove(index);
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.running.drain(..) {
            // The result of an installation that nobody waited for matters to nobody.
            let _ = thread.join();
        }
    }
}
