//! The repository's own commands.

use std::io::{self, Write as _};
use std::process::ExitCode;

use test_deps::{Cache, Part};
use xtask::args::{self, Bench, Command, HELP};
use xtask::setup::{Background, Outcome};
use xtask::{floor, kube, ship, test, workspace};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprint!("error: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Help => io::stdout().write_all(HELP.as_bytes()).map(|()| true).map_err(Into::into),
        Command::Test(tier) => test::run(&workspace::root(), tier),
        Command::Setup(parts) => setup(&parts),
        Command::Kube(arguments) => kube::run(&workspace::root(), &arguments),
        Command::BootBench(arguments) => boot_bench(&arguments),
        Command::Image(arguments) => ship::run(&workspace::root(), "image", &arguments),
        Command::Package(arguments) => ship::run(&workspace::root(), "package", &arguments),
        Command::Bench(Bench::Crates) => bench(),
        Command::Bench(Bench::Node) => node(),
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

fn setup(parts: &[Part]) -> Result<bool, Box<dyn std::error::Error>> {
    let cache = Cache::of_user()?;
    let mut background = Background::start(&cache, parts.iter().copied());
    let mut well = true;
    for &part in parts {
        match background.wait(part) {
            Some(Ok(Outcome::Present)) => println!("{part}: there already, {}", cache.folder(part).display()),
            Some(Ok(Outcome::Installed)) => println!("{part}: installed, {}", cache.folder(part).display()),
            Some(Err(error)) => {
                well = false;
                eprintln!("{part}: {error}");
            }
            None => {}
        }
    }
    Ok(well)
}

/// What kilnd costs: counts, and its instructions in a machine whose clock they are.
fn node() -> Result<bool, Box<dyn std::error::Error>> {
    let counted = with(&[Part::NodeRoot], &["node"])?;
    Ok(boot_bench(&["--icount", "--variant", "kilnd"].map(str::to_owned))? && counted)
}

/// Boots machines, which need test dependencies that the default tier does not install.
fn boot_bench(arguments: &[String]) -> Result<bool, Box<dyn std::error::Error>> {
    if arguments.iter().any(|word| matches!(word.as_str(), "help" | "--help" | "-h")) {
        return with(&[], &["help"]);
    }
    let words = std::iter::once("boot").chain(arguments.iter().map(String::as_str));
    with(&[Part::BenchTools, Part::BenchRoot], &words.collect::<Vec<_>>())
}

/// Runs the program of the boot bench once these test dependencies are installed.
fn with(parts: &[Part], arguments: &[&str]) -> Result<bool, Box<dyn std::error::Error>> {
    let cache = Cache::of_user()?;
    let missing: Vec<Part> = parts.iter().copied().filter(|part| cache.find(*part).is_err()).collect();
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    Ok(setup(&missing)? && ship::run_of(&workspace::root(), "boot-bench", "boot-bench", &arguments)?)
}

/// `cargo bench` of what has benches; each prints its own curve.
fn bench() -> Result<bool, Box<dyn std::error::Error>> {
    let mut well = true;
    for (package, name) in [
        ("kiln-sim-azure", "scale"),
        ("kiln-engine", "run"),
        ("kiln-kubernetes", "kube"),
        ("kiln-boot-analysis", "analysis"),
        ("kiln-bootstrap", "render"),
    ] {
        let status = std::process::Command::new("cargo")
            .args(["bench", "--locked", "--package", package, "--bench", name])
            .current_dir(workspace::root())
            .status()?;
        well &= status.success();
    }
    Ok(well)
}
