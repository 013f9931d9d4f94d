//! The command line.

use std::fmt::Write as _;

use test_deps::{TestDep, Tier, UnknownTestDep};

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Test(Tier),
    Setup(Vec<TestDep>),
    Floor,
    Bench(Bench),
    /// The arguments of the program `kube` of the crate `control-plane`.
    Kube(Vec<String>),
    /// The arguments of the program `boot-bench`.
    BootBench(Vec<String>),
    /// The arguments of the program `image` of the crate `packaging`.
    Image(Vec<String>),
    /// The arguments of the program `package` of the crate `packaging`.
    Package(Vec<String>),
    /// The arguments of the program `dist` of the crate `packaging`.
    Dist(Vec<String>),
    /// Prints this text.
    Help(String),
}

/// The benchmark to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    Crates,
    Node,
    Boot,
    Fleet,
}

/// The overview: one line per command.
pub const HELP: &str = "\
Development commands of the kiln repository

Usage: cargo xtask COMMAND [ARGUMENTS]

Test:
  test             run the tests and checks that CI runs (--fast: fewer, --full: more)
  setup [NAME...]  install test dependencies; `test` installs missing ones itself
  floor            write the number of tests in each test binary to tests/floor.json

Measure:
  bench            measure how the cost of the libraries grows with their input
  bench node       measure the cost of kilnd on a node and check its budgets
  bench boot       compare boot times until kubelet starts, in virtual time (45 minutes)
  bench fleet      measure the operator with 500 to 5,000 nodes on a real API server
  boot-bench       boot the same machine with kilnd, with cloud-init and without either, and compare

Run:
  kube up|down     start or stop a Kubernetes control plane on loopback

Package:
  image            build the OCI image with kiln and kilnd
  package          build kilnd as a static program, a Debian package and an RPM
  dist             make all files of a release

`cargo xtask COMMAND --help` describes the options of a command.
Exit codes: 0 success, 1 failure, 2 wrong usage.
";

const TEST_HELP: &str = "\
Run the tests and checks of a tier

Usage: cargo xtask test [--fast | --full]

  --fast   tier 0: needs Rust, and root for tests in private network namespaces
           (default) tier 1, which CI runs: also needs Python 3, and root for mounts and systemd-nspawn
  --full   tier 2: adds the Azure CLI, umoci and QEMU

Checks formatting, builds, runs clippy, the tests and the documentation tests, checks licences (deny.toml), and compares the
number of tests in each binary with tests/floor.json. Missing test dependencies are installed during the build.

Tests that compare with recorded data of other projects need the folder ../shared, or the folder in KILN_RECORDINGS. Without it
they are reported as not run; where CI is set, they fail.
";

const FLOOR_HELP: &str = "\
Write the number of tests in each test binary to tests/floor.json

Usage: cargo xtask floor

Builds the test binaries of all tiers and lists their tests without running them. `cargo xtask test` fails if a binary has fewer
tests than this file requires.
";

const BENCH_HELP: &str = "\
Run benchmarks

Usage: cargo xtask bench [node | boot | fleet]

  (none)  how the cost of the libraries grows with their input, as ratios within one run
  node    the cost of kilnd on a node: processes, system calls, synchronisations, bytes, instructions; fails over budget (root)
  boot    time from kernel entry to kubelet in virtual time, five boots per variant (root, 45 minutes)
  fleet   memory, processor time and requests of the operator with 500, 1,500 and 5,000 nodes; fails if they do not grow linearly
";

fn setup_help() -> String {
    let mut text = "\
Install test dependencies

Usage: cargo xtask setup [NAME...]

Without a name, installs those of `cargo xtask test`:
"
    .to_owned();
    for dependency in TestDep::ALL {
        let note = if dependency.tier() == Tier::Full { " (--full)" } else { "" };
        let _ = writeln!(text, "  {:16} {}{note}", dependency.name(), dependency.description());
    }
    text + "\nkube takes 15 minutes of CPU time, node-root 320 MB, az 730 MB. The folder is kiln/test-deps in $XDG_CACHE_HOME or ~/.cache.\n\
            It can be deleted at any time.\n"
}

/// Parses the arguments after the program's name. The error is a message for the user.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let Some(command) = arguments.next() else { return Err("no command given".to_owned()) };
    let rest: Vec<String> = arguments.collect();
    match command.as_str() {
        // These programs have their own help.
        "kube" => return Ok(Command::Kube(rest)),
        "boot-bench" => return Ok(Command::BootBench(rest)),
        "image" => return Ok(Command::Image(rest)),
        "package" => return Ok(Command::Package(rest)),
        "dist" => return Ok(Command::Dist(rest)),
        _ => {}
    }
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(Command::Help(match command.as_str() {
            "test" => TEST_HELP.to_owned(),
            "setup" => setup_help(),
            "floor" => FLOOR_HELP.to_owned(),
            "bench" => BENCH_HELP.to_owned(),
            _ => HELP.to_owned(),
        }));
    }
    match command.as_str() {
        "test" => tier(&rest).map(Command::Test),
        "setup" => setup(&rest).map(Command::Setup),
        "floor" => none(&rest, "floor").map(|()| Command::Floor),
        "bench" => bench(&rest).map(Command::Bench),
        "help" | "--help" | "-h" => none(&rest, "help").map(|()| Command::Help(HELP.to_owned())),
        other => Err(format!("unknown command `{other}`")),
    }
}

fn tier(rest: &[String]) -> Result<Tier, String> {
    match rest {
        [] => Ok(Tier::Default),
        [one] if one == "--fast" => Ok(Tier::Fast),
        [one] if one == "--full" => Ok(Tier::Full),
        [one] => Err(format!("unknown argument `{one}`; expected `--fast` or `--full`")),
        _ => Err("`test` accepts only one of `--fast` and `--full`".to_owned()),
    }
}

fn bench(rest: &[String]) -> Result<Bench, String> {
    match rest {
        [] => Ok(Bench::Crates),
        [one] if one == "node" => Ok(Bench::Node),
        [one] if one == "boot" => Ok(Bench::Boot),
        [one] if one == "fleet" => Ok(Bench::Fleet),
        [other, ..] => Err(format!("unknown argument `{other}`; expected `node`, `boot` or `fleet`")),
    }
}

fn setup(rest: &[String]) -> Result<Vec<TestDep>, String> {
    if rest.is_empty() {
        return Ok(Tier::Default.test_deps().collect());
    }
    rest.iter().map(|name| name.parse().map_err(|error: UnknownTestDep| error.to_string())).collect()
}

fn none(rest: &[String], command: &str) -> Result<(), String> {
    rest.first().map_or(Ok(()), |extra| Err(format!("unexpected argument `{extra}` of `{command}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn test_runs_the_default_tier_unless_a_flag_selects_another() {
        assert_eq!(parsed("test"), Ok(Command::Test(Tier::Default)));
        assert_eq!(parsed("test --fast"), Ok(Command::Test(Tier::Fast)));
        assert_eq!(parsed("test --full"), Ok(Command::Test(Tier::Full)));
    }

    #[test]
    fn setup_without_a_name_installs_the_dependencies_of_the_default_tier() {
        assert_eq!(parsed("setup"), Ok(Command::Setup(Tier::Default.test_deps().collect())));
        assert_eq!(parsed("setup az"), Ok(Command::Setup(vec![TestDep::AzureCli])));
    }

    #[test]
    fn arguments_of_kube_and_image_are_passed_through() {
        let rest = ["up", "--name", "a", "--help"].map(str::to_owned);
        assert_eq!(parsed("kube up --name a --help"), Ok(Command::Kube(rest.to_vec())));
        assert_eq!(parsed("image --output a"), Ok(Command::Image(["--output", "a"].map(str::to_owned).to_vec())));
    }

    #[test]
    fn usage_errors_quote_the_wrong_argument() {
        for (line, quoted) in [
            ("", "no command"),
            ("tset", "`tset`"),
            ("test --quick", "`--quick`"),
            ("test --fast --full", "one of"),
            ("setup hlem", "`hlem`"),
            ("floor 3", "`3`"),
            ("bench fleets", "`fleets`"),
        ] {
            let message = parsed(line).unwrap_err();
            assert!(message.contains(quoted), "`{line}`: {message}");
        }
    }

    #[test]
    fn help_lists_every_command_and_each_command_has_its_own() {
        assert_eq!(parsed("help"), Ok(Command::Help(HELP.to_owned())));
        assert_eq!(parsed("--help"), Ok(Command::Help(HELP.to_owned())));
        for command in ["test", "setup", "floor", "bench"] {
            let Ok(Command::Help(text)) = parsed(&format!("{command} --help")) else { panic!("{command}") };
            assert!(text.contains(&format!("Usage: cargo xtask {command}")), "{text}");
        }
        for command in ["test", "setup", "floor", "bench", "boot-bench", "kube", "image", "package", "dist"] {
            assert!(HELP.contains(&format!("\n  {command} ")), "{command}");
        }
        for (name, bench) in [("node", Bench::Node), ("boot", Bench::Boot), ("fleet", Bench::Fleet)] {
            assert_eq!(parsed(&format!("bench {name}")), Ok(Command::Bench(bench)));
            assert!(
                HELP.contains(&format!("\n  bench {name} ")) && BENCH_HELP.contains(&format!("\n  {name} ")),
                "{name}"
            );
        }
        for dependency in TestDep::ALL {
            assert!(setup_help().contains(dependency.description()), "{dependency}");
        }
    }
}
