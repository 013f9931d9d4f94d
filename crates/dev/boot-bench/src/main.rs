//! `cargo xtask lab`: puts itself into namespaces of its own, and works there.

use std::path::Path;
use std::process::ExitCode;

/// The word by which the program knows that it is inside.
const INSIDE: &str = "inside";

/// How the program inside says that a budget is over.
const OVER: u8 = 6;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap_or(Path::new(".")).to_path_buf();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (inside, words) = match words.split_first() {
        Some((first, rest)) if first == INSIDE => (true, rest.to_vec()),
        _ => (false, words),
    };
    let asked = match words.split_first() {
        Some((first, _)) if first == "--help" || first == "-h" || first == "help" => {
            print!("{}", boot_bench::HELP);
            return ExitCode::SUCCESS;
        }
        Some((first, _)) if first == "node" => return node(&root),
        Some((first, rest)) if first == "boot" => boot_bench::parse(&root, rest),
        Some((other, _)) => Err(format!("there is no `{other}`")),
        None => Err("a command is missing".to_owned()),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(message) => {
            eprint!("error: {message}\n\n{}", boot_bench::HELP);
            return ExitCode::from(2);
        }
    };
    if !inside {
        return match enter(&words) {
            // There are boots to look at, also where they took too long.
            Ok(Some(code)) if code == 0 || code == i32::from(OVER) => {
                let within = if code == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
                boot_bench::pictures(&root, &asked).map_or_else(|error| failed(&error), |()| within)
            }
            Ok(_) => ExitCode::FAILURE,
            Err(error) => failed(&format!("unshare: {error}")),
        };
    }
    match boot_bench::run(&root, &asked) {
        Ok(report) => {
            if asked.json {
                println!("{:#}", report.json());
            } else {
                println!("{}", report.text());
            }
            if report.is_within_budget() { ExitCode::SUCCESS } else { ExitCode::from(OVER) }
        }
        Err(error) => failed(&error),
    }
}

/// Counts what kilnd costs a node, in a network where nobody answers it.
fn node(root: &Path) -> ExitCode {
    match testkit::private().inside(|| boot_bench::count(root)) {
        Ok((text, well)) => {
            print!("{text}");
            if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Runs this program in namespaces of its own, and says how it ended.
fn enter(words: &[String]) -> std::io::Result<Option<i32>> {
    Ok(boot_bench::alone(std::env::current_exe()?).arg(INSIDE).args(words).status()?.code())
}
