//! The command line.

use test_deps::{Part, Tier};

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Run the suite.
    Test(Tier),
    /// Install parts.
    Setup(Vec<Part>),
    /// Rewrite the floor.
    Floor,
    /// Run the benches: those of the library crates, or one that needs machines.
    Bench(Bench),
    /// Run a control plane; the arguments are for the program that does it.
    Kube(Vec<String>),
    /// Run the boot bench; the arguments are passed to its program.
    BootBench(Vec<String>),
    /// Make the image; the arguments are for the program that does it.
    Image(Vec<String>),
    /// Make the package; the arguments are for the program that does it.
    Package(Vec<String>),
    /// Print [`HELP`].
    Help,
}

/// Which benches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Cost curves of the crates.
    Crates,
    /// What kilnd costs a node, in counts.
    Node,
    /// What comes before kubelet, in virtual time.
    Boot,
}

/// The text of `--help`.
pub const HELP: &str = "\
The repository's own commands.

usage: cargo xtask <command>

  test            what CI runs: format, build, tests, lints, licences, and the number of executed tests against its floor
                    needs Python 3 and root: network namespaces, mounts, machines in systemd-nspawn
    --fast          needs Rust; root for tests with a metadata service, which run in a network of their own
    --full          adds the real az, umoci, QEMU and a Debian with a kernel and cloud-init
  setup [PART…]   install the parts that tests need; without a name, those of `test`
                    deny     cargo-deny: licences, sources, banned crates
                    python   the Azure SDK for Python, in an environment of its own
                    kube     the servers of Kubernetes, kubectl and etcd, built from Go modules (15 CPU minutes)
                    karpenter  Karpenter's own CustomResourceDefinitions
                    karpenter-azure  the CustomResourceDefinition of Karpenter's provider for Azure
                    helm     Helm, built from its Go module
                    kubeadm-types  kubeadm's own types, which its documents are held against
                    systemd  Debian's systemd-analyze, which ours is held against
                    chromium Debian's Chromium without a window, which renders our pictures (100 MB)
                    node-root  a Debian that boots in systemd-nspawn, made by debootstrap (320 MB; root)
                    umoci    umoci, a reader of OCI images, built from its Go module
                    bench-tools  QEMU and what makes disks for it, in a Debian of their own (as root)
                    bench-root   a Debian with a kernel and cloud-init, which the boot bench boots (as root)
                    az       the real az, in an environment of its own (730 MB)
  floor           count the tests of each tier and write tests/floor.json
  bench           cost curves, as ratios within one run
  bench node      what kilnd costs a node: processes, reloads, system calls, synchronisations, time, bytes, instructions
  bench boot      kernel entry to kubelet, five boots of each way to configure a node, in virtual time (three quarters of an hour)
  kube up|down    a real control plane on loopback; `cargo xtask kube help` tells more
  boot-bench      boot the same machine configured in different ways and measure the boot up to kubelet; see `cargo xtask boot-bench help`
  image           an OCI image of kiln and kilnd, both static, without a daemon; `cargo xtask image --help` tells more
  package         kilnd as a static program and a Debian package; `cargo xtask package --help` tells more
  help            this text

`test` installs missing parts by itself, while it compiles. Parts stand in $XDG_CACHE_HOME/kiln/parts (or ~/.cache/kiln/parts),
named by a hash of their recipe; the folder may be removed at any time.

exit codes: 0 all well, 1 something failed, 2 wrong usage
";

/// Reads the arguments after the program's name; the error is for the user.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let Some(command) = arguments.next() else { return Err("no command given".to_owned()) };
    let rest: Vec<String> = arguments.collect();
    match command.as_str() {
        "kube" => return Ok(Command::Kube(rest)),
        "boot-bench" => return Ok(Command::BootBench(rest)),
        "image" => return Ok(Command::Image(rest)),
        "package" => return Ok(Command::Package(rest)),
        _ => {}
    }
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(Command::Help);
    }
    match command.as_str() {
        "test" => tier(&rest).map(Command::Test),
        "setup" => setup(&rest).map(Command::Setup),
        "floor" => none(&rest, "floor").map(|()| Command::Floor),
        "bench" => bench(&rest).map(Command::Bench),
        "help" | "--help" | "-h" => none(&rest, "help").map(|()| Command::Help),
        other => Err(format!("unknown command `{other}`")),
    }
}

fn tier(rest: &[String]) -> Result<Tier, String> {
    match rest {
        [] => Ok(Tier::Default),
        [one] if one == "--fast" => Ok(Tier::Fast),
        [one] if one == "--full" => Ok(Tier::Full),
        [one] => Err(format!("`test` takes `--fast` or `--full`, not `{one}`")),
        _ => Err("`test` takes one of `--fast` and `--full`".to_owned()),
    }
}

fn bench(rest: &[String]) -> Result<Bench, String> {
    match rest {
        [] => Ok(Bench::Crates),
        [one] if one == "node" => Ok(Bench::Node),
        [one] if one == "boot" => Ok(Bench::Boot),
        [other, ..] => Err(format!("`bench` takes `node` or `boot`, not `{other}`")),
    }
}

fn setup(rest: &[String]) -> Result<Vec<Part>, String> {
    if rest.is_empty() {
        return Ok(Tier::Default.parts().collect());
    }
    rest.iter().map(|name| name.parse().map_err(|error: test_deps::UnknownPart| error.to_string())).collect()
}

fn none(rest: &[String], command: &str) -> Result<(), String> {
    rest.first().map_or(Ok(()), |extra| Err(format!("`{command}` takes no argument, but got `{extra}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn test_without_a_flag_is_what_ci_runs() {
        assert_eq!(parsed("test"), Ok(Command::Test(Tier::Default)));
        assert_eq!(parsed("test --fast"), Ok(Command::Test(Tier::Fast)));
        assert_eq!(parsed("test --full"), Ok(Command::Test(Tier::Full)));
    }

    #[test]
    fn setup_without_a_part_installs_what_ci_needs() {
        assert_eq!(parsed("setup"), Ok(Command::Setup(Tier::Default.parts().collect())));
        assert_eq!(parsed("setup az"), Ok(Command::Setup(vec![Part::AzureCli])));
    }

    #[test]
    fn what_follows_kube_and_image_is_for_the_programs_that_do_it() {
        let rest = ["up", "--name", "a", "--help"].map(str::to_owned);
        assert_eq!(parsed("kube up --name a --help"), Ok(Command::Kube(rest.to_vec())));
        assert_eq!(parsed("image --output a"), Ok(Command::Image(["--output", "a"].map(str::to_owned).to_vec())));
    }

    #[test]
    fn wrong_usage_is_answered_with_the_word_that_is_wrong() {
        for (line, word) in [
            ("", "no command"),
            ("tset", "`tset`"),
            ("test --quick", "`--quick`"),
            ("test --fast --full", "one of"),
            ("setup hlem", "`hlem`"),
            ("floor 3", "`3`"),
        ] {
            let message = parsed(line).unwrap_err();
            assert!(message.contains(word), "`{line}` was answered with: {message}");
        }
    }

    #[test]
    fn help_is_given_wherever_it_is_asked_for_and_names_every_part() {
        for line in ["help", "--help", "test --help", "setup -h"] {
            assert_eq!(parsed(line), Ok(Command::Help), "{line}");
        }
        for part in Part::ALL {
            assert!(HELP.contains(part.description()), "{part}");
        }
    }
}
