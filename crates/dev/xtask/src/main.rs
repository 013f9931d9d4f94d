//! `cargo xtask`: development commands of the repository.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use test_deps::{Cache, TestDep};
use xtask::args::{self, Bench, Command};
use xtask::setup::{Background, Outcome};
use xtask::{floor, kube, packaging, test, workspace};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("error: {message}\nhint: run `cargo xtask --help`");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Help(text) => io::stdout().write_all(text.as_bytes()).map(|()| true).map_err(Into::into),
        Command::Test(tier) => test::run(&workspace::root(), tier),
        Command::Setup(dependencies) => setup(&dependencies),
        Command::Kube(arguments) => kube::run(&workspace::root(), &arguments),
        Command::BootBench(arguments) => boot_bench(&arguments),
        Command::Image(arguments) => packaging::run(&workspace::root(), "image", &arguments),
        Command::Dist(arguments) => packaging::run(&workspace::root(), "dist", &arguments),
        Command::Package(arguments) => packaging::run(&workspace::root(), "package", &arguments),
        Command::Bench(Bench::Crates) => bench(),
        Command::Bench(Bench::Node) => node(),
        Command::Bench(Bench::Fleet) => fleet(),
        Command::Bench(Bench::Boot) => boot_bench(&["--icount", "--runs", "5"].map(str::to_owned)),
        Command::Floor => floor::rewrite(&workspace::root()).map(|path| {
            println!("wrote {}", path.display());
            true
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn setup(dependencies: &[TestDep]) -> Result<bool, Box<dyn std::error::Error>> {
    let cache = Cache::of_user()?;
    let mut background = Background::start(&cache, dependencies.iter().copied());
    let mut succeeded = true;
    for &dependency in dependencies {
        match background.wait(dependency) {
            Some(Ok(Outcome::Present)) => {
                println!("{dependency}: already installed in {}", cache.folder(dependency).display());
            }
            Some(Ok(Outcome::Installed)) => {
                println!("{dependency}: installed in {}", cache.folder(dependency).display());
            }
            Some(Err(error)) => {
                succeeded = false;
                eprintln!("error: cannot install `{dependency}`: {error}");
            }
            None => {}
        }
    }
    Ok(succeeded)
}

/// Measures kilnd in counts, and then in instructions: in virtual time, each instruction advances the clock.
fn node() -> Result<bool, Box<dyn std::error::Error>> {
    let counted = run_bench(&[TestDep::NodeRoot, TestDep::ImageRoot], &["node"])?;
    Ok(boot_bench(&["--icount", "--variant", "kilnd"].map(str::to_owned))? && counted)
}

/// Measures the operator. Both programs are optimised: the operator because it is measured, and the benchmark because it simulates
/// thousands of nodes on the same machine.
fn fleet() -> Result<bool, Box<dyn std::error::Error>> {
    let needed = [TestDep::Etcd, TestDep::Kube, TestDep::Kwok, TestDep::KwokStages];
    if !setup(&missing(&Cache::of_user()?, &needed))? {
        return Ok(false);
    }
    // In one command: with the same features, so that their dependencies are compiled once.
    let mut build = workspace::cargo(&workspace::root());
    build.args(["build", "--locked", "--release", "--package", "kiln", "--package", "fleet-bench"]);
    if !build.status()?.success() {
        return Ok(false);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace::root().join("target"), PathBuf::from);
    Ok(std::process::Command::new(target.join("release/fleet-bench")).status()?.success())
}

/// The dependencies that are not installed.
fn missing(cache: &Cache, dependencies: &[TestDep]) -> Vec<TestDep> {
    dependencies.iter().copied().filter(|one| cache.find(*one).is_err()).collect()
}

/// Runs the boot bench. Its machines need dependencies that the default tier does not install.
fn boot_bench(arguments: &[String]) -> Result<bool, Box<dyn std::error::Error>> {
    if arguments.iter().any(|word| matches!(word.as_str(), "help" | "--help" | "-h")) {
        return run_bench(&[], &["help"]);
    }
    let words = std::iter::once("boot").chain(arguments.iter().map(String::as_str));
    run_bench(&[TestDep::BenchTools, TestDep::BenchRoot], &words.collect::<Vec<_>>())
}

/// Installs the dependencies and runs the boot bench.
fn run_bench(dependencies: &[TestDep], arguments: &[&str]) -> Result<bool, Box<dyn std::error::Error>> {
    let missing = missing(&Cache::of_user()?, dependencies);
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    Ok(setup(&missing)? && packaging::run_program(&workspace::root(), "boot-bench", "boot-bench", &arguments)?)
}

/// Runs `cargo bench` for each crate that has benchmarks; each prints its own curve.
fn bench() -> Result<bool, Box<dyn std::error::Error>> {
    let mut succeeded = true;
    for (package, name) in [
        ("kiln-sim-azure", "scale"),
        ("kiln-engine", "run"),
        ("kiln-kubernetes", "kube"),
        ("kiln-boot-analysis", "analysis"),
        ("kiln-bootstrap", "render"),
        ("kiln-rollout", "next"),
    ] {
        let status = std::process::Command::new("cargo")
            .args(["bench", "--locked", "--package", package, "--bench", name])
            .current_dir(workspace::root())
            .status()?;
        succeeded &= status.success();
    }
    Ok(succeeded)
}
