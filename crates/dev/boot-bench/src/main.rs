//! `cargo xtask boot-bench`: starts itself again in private namespaces, and boots machines there.

use std::path::Path;
use std::process::ExitCode;

use kiln_machines::namespaces::isolated;

/// The first argument of the program in the namespaces.
const INSIDE: &str = "inside";

/// The exit code of the program in the namespaces when a budget is exceeded.
const OVER_BUDGET: u8 = 6;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap_or(Path::new(".")).to_path_buf();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (inside, words) = match words.split_first() {
        Some((first, rest)) if first == INSIDE => (true, rest.to_vec()),
        _ => (false, words),
    };
    let options = match words.split_first() {
        Some((first, _)) if first == "--help" || first == "-h" || first == "help" => {
            print!("{}", boot_bench::HELP);
            return ExitCode::SUCCESS;
        }
        Some((first, _)) if first == "node" => return node(&root),
        Some((first, rest)) if first == "boot" => boot_bench::parse(&root, rest),
        Some((other, _)) => Err(format!("unknown command `{other}`; expected `boot` or `node`")),
        None => Err("no command given; expected `boot` or `node`".to_owned()),
    };
    let options = match options {
        Ok(options) => options,
        Err(message) => {
            eprint!("error: {message}\n\n{}", boot_bench::HELP);
            return ExitCode::from(2);
        }
    };
    if !inside {
        return match run_isolated(&words) {
            // Charts are drawn also for boots that exceed a budget.
            Ok(Some(code)) if code == 0 || code == i32::from(OVER_BUDGET) => {
                let within = if code == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
                boot_bench::draw_charts(&root, &options).map_or_else(|error| failed(&error), |()| within)
            }
            Ok(_) => ExitCode::FAILURE,
            Err(error) => failed(&format!("unshare: {error}")),
        };
    }
    match boot_bench::run(&root, &options) {
        Ok(report) => {
            if options.json {
                println!("{:#}", report.json());
            } else {
                println!("{}", report.text());
            }
            if report.is_within_budget() { ExitCode::SUCCESS } else { ExitCode::from(OVER_BUDGET) }
        }
        Err(error) => failed(&error),
    }
}

/// Measures kilnd's cost, in a private network without a metadata service.
fn node(root: &Path) -> ExitCode {
    match testkit::private().inside(|| boot_bench::measure_kilnd(root)) {
        Ok((text, is_within_budget)) => {
            print!("{text}");
            if is_within_budget { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Runs this program in private namespaces and returns its exit code.
fn run_isolated(words: &[String]) -> std::io::Result<Option<i32>> {
    Ok(isolated(std::env::current_exe()?).arg(INSIDE).args(words).status()?.code())
}
