//! The command line. Parsed by hand because the binary is read from a cold disk at every boot, so its size matters.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::commands::disable::{DisableOptions, Files};
use crate::commands::enable::EnableOptions;

use lexopt::prelude::{Long, Short, Value, ValueExt as _};

/// The output of `kilnd help`.
pub const HELP: &str = "\
kilnd: configures this machine as the Kubernetes node that its NodeConfig describes

Usage: kilnd COMMAND [OPTIONS]

Commands:
  identity              determine the kind of this boot, and reset the identity of a clone (early, no network)
  boot                  put the document or the committed generation in force and open the gate for the kubelet
  watch                 commit or revert the generation on trial; poll for new documents
  apply --config FILE   apply a document (`-` reads standard input)
  plan --config FILE    show what `apply` would change, and its effect
  status                show the generation in force, its source and what is pending
  rollback [--to N]     roll back to an earlier generation
  inspect               describe this node, read-only
  enable [--yes]        put the units of the package into effect; without `--yes`, show what would change
  disable [--yes]       undo `enable`: the kubelet keeps running and starts without kilnd again
  install               install kilnd on a machine without it, so that clones of its disk reset their identity
  freeze --run ID       freeze the file systems of the OS disk until SIGTERM, for 9 s at most
  thaw --run ID         thaw the file systems of the OS disk, and report the run's last freeze
  seal [--yes|--check]  remove the identity of this disk so that it can become an image, or verify that it was removed
  check-image           name what is missing on this machine or image, or in the way of a node, read-only
  support --out FILE    collect what is needed to analyse a problem into a tar file, without secrets
  config check FILE     report every problem of a document

Options:
  --root DIR            work on this folder instead of `/`
  --out FILE            support: the file to create; only its owner can read it
  --output text|json    output format (text)
  --force               apply: also apply a rejected document, or one with a lower generation
  --yes, --check        seal: remove the identity; only verify
  --yes, --dry-run      enable, disable: make the change; only show it
  --refresh             enable: only update an enabled node after an upgrade of the package
  --restore             disable: also restore the files of the generations (default where the node ran before kilnd)
  --keep-files          disable: keep the files of the generations
  --run ID              freeze, thaw: the run that needs the freeze
  --ready-port N        freeze: listen on this port of the loopback device while the file systems are frozen
  --custom-data-for KEY inspect, json: include the custom data, encrypted for this public key
  --imds URL            metadata service
  --wire-server URL     wire server
  --dmi DIR             folder with the DMI ids of the machine
  --cd DIR              provisioning media, a folder or device (repeatable; tried in order)
  --credentials DIR     folder with systemd's system credentials
  --systemd SOCKET      systemd's private socket, or `none` (default with `--root`)
  --links DIR           boot: folder with the network interfaces for the early network, or `none` (default with `--root`)
  --time-scale N        make all waits N times shorter

Examples:
  kilnd config check node.json
  kilnd plan --config node.json --root ./node
      Show what a document would change on a node whose files are in a folder.
  kilnd apply --config node.json
  kilnd status --output json
  kilnd rollback --to 3
  kilnd inspect --root /host
  kilnd enable --dry-run
  kilnd disable --yes
  kilnd seal --check
  kilnd check-image --root ./image --output json
      Exit code 1 if machines created from the image would not become nodes.
  kilnd support --out /tmp/node.tar

Exit codes: 0 success or nothing to do, 1 failed and nothing changed, 2 usage, 3 waiting for the cluster, 4 reverted.
";

/// systemd's private socket: available to root before D-Bus.
const SYSTEMD: &str = "/run/systemd/private";

/// The folder with the network interfaces of this machine.
const LINKS: &str = "/sys/class/net";

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    pub command: Command,
    pub output: Output,
    pub locations: Locations,
}

/// A command with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Identity,
    Boot,
    Watch,
    Apply {
        /// `-` is standard input.
        config: PathBuf,
        force: bool,
    },
    Plan {
        /// `-` is standard input.
        config: PathBuf,
    },
    Status,
    Rollback {
        /// The previous generation if not set.
        to: Option<u64>,
    },
    Inspect {
        /// The public key for which the custom data is encrypted; not included if not set.
        key: Option<String>,
    },
    Install,
    Enable(EnableOptions),
    Disable(DisableOptions),
    CheckImage,
    Support {
        out: PathBuf,
    },
    Freeze {
        run: String,
        ready_port: Option<u16>,
    },
    Thaw {
        run: String,
    },
    Seal {
        yes: bool,
        check: bool,
    },
    ConfigCheck {
        /// `-` is standard input.
        file: PathBuf,
    },
    Help,
    Version,
}

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    #[default]
    Text,
    Json,
}

/// Where everything outside the process is. Unset values are those of a real node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    pub root: PathBuf,
    pub imds: Option<String>,
    pub wire_server: Option<String>,
    pub dmi: Option<PathBuf>,
    pub cd: Vec<PathBuf>,
    pub credentials: Option<PathBuf>,
    /// None to use no systemd.
    pub systemd: Option<PathBuf>,
    /// None to configure no early network.
    pub links: Option<PathBuf>,
    pub time_scale: u32,
}

/// An invalid command line.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error(transparent)]
    Option(#[from] lexopt::Error),
    #[error("missing command")]
    NoCommand,
    #[error("unknown command `{0}`")]
    UnknownCommand(String),
    #[error("`{command}` requires `{option}`")]
    Needs { command: &'static str, option: &'static str },
    #[error("`{command}` has no option `{option}`")]
    Foreign { command: String, option: &'static str },
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option without a value")]
struct Parsed {
    words: Vec<OsString>,
    config: Option<PathBuf>,
    key: Option<String>,
    run: Option<String>,
    ready_port: Option<u16>,
    to: Option<u64>,
    force: bool,
    yes: bool,
    check: bool,
    dry_run: bool,
    refresh: bool,
    restore: bool,
    keep_files: bool,
    out: Option<PathBuf>,
}

impl Args {
    /// Parses the arguments after the program name.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut parsed = Parsed::default();
        let (mut output, mut root, mut systemd, mut links) = (Output::Text, PathBuf::from("/"), None, None);
        let mut locations = Locations {
            root: PathBuf::new(),
            imds: None,
            wire_server: None,
            dmi: None,
            cd: Vec::new(),
            credentials: None,
            systemd: None,
            links: None,
            time_scale: 1,
        };
        while let Some(word) = parser.next()? {
            match word {
                Long("root") => root = parser.value()?.into(),
                Long("output") => output = parser.value()?.parse_with(parse_output)?,
                Long("imds") => locations.imds = Some(parser.value()?.string()?),
                Long("wire-server") => locations.wire_server = Some(parser.value()?.string()?),
                Long("dmi") => locations.dmi = Some(parser.value()?.into()),
                Long("cd") => locations.cd.push(parser.value()?.into()),
                Long("credentials") => locations.credentials = Some(parser.value()?.into()),
                Long("systemd") => systemd = Some(PathBuf::from(parser.value()?)),
                Long("links") => links = Some(PathBuf::from(parser.value()?)),
                Long("time-scale") => locations.time_scale = parser.value()?.parse_with(parse_scale)?,
                Long("config") => parsed.config = Some(parser.value()?.into()),
                Long("custom-data-for") => parsed.key = Some(parser.value()?.string()?),
                Long("run") => parsed.run = Some(parser.value()?.string()?),
                Long("ready-port") => parsed.ready_port = Some(parser.value()?.parse()?),
                Long("to") => parsed.to = Some(parser.value()?.parse()?),
                Long("force") => parsed.force = true,
                Long("yes") => parsed.yes = true,
                Long("check") => parsed.check = true,
                Long("dry-run") => parsed.dry_run = true,
                Long("refresh") => parsed.refresh = true,
                Long("restore") => parsed.restore = true,
                Long("keep-files") => parsed.keep_files = true,
                Long("out") => parsed.out = Some(parser.value()?.into()),
                Short('h') | Long("help") => parsed.words.insert(0, "help".into()),
                Short('V') | Long("version") => parsed.words.insert(0, "version".into()),
                Value(word) => parsed.words.push(word),
                other => return Err(other.unexpected().into()),
            }
        }
        let is_host = root.as_os_str() == "/";
        let or_default = |value: Option<PathBuf>, default: &str| match value {
            Some(path) if path.as_os_str() == "none" => None,
            Some(path) => Some(path),
            None => is_host.then(|| PathBuf::from(default)),
        };
        locations.systemd = or_default(systemd, SYSTEMD);
        locations.links = or_default(links, LINKS);
        locations.root = root;
        Ok(Self { command: parsed.command()?, output, locations })
    }
}

impl Parsed {
    fn command(self) -> Result<Command, UsageError> {
        let Self {
            words,
            config,
            key,
            run,
            ready_port,
            to,
            force,
            yes,
            check,
            dry_run,
            refresh,
            restore,
            keep_files,
            out,
        } = self;
        let mut words = words.into_iter();
        let name = words.next().ok_or(UsageError::NoCommand)?.to_string_lossy().into_owned();
        let needs = |command, option| UsageError::Needs { command, option };
        let mut misplaced = vec![
            (config.is_some(), "--config", &["apply", "plan"][..]),
            (key.is_some(), "--custom-data-for", &["inspect"]),
            (run.is_some(), "--run", &["freeze", "thaw"]),
            (ready_port.is_some(), "--ready-port", &["freeze"]),
            (to.is_some(), "--to", &["rollback"]),
            (force, "--force", &["apply"]),
            (yes, "--yes", &["seal", "enable", "disable"]),
            (check, "--check", &["seal"]),
            (dry_run, "--dry-run", &["enable", "disable"]),
            (refresh, "--refresh", &["enable"]),
            (restore, "--restore", &["disable"]),
            (keep_files, "--keep-files", &["disable"]),
            (out.is_some(), "--out", &["support"]),
        ];
        misplaced.retain(|(is_set, _, commands)| *is_set && !commands.contains(&name.as_str()));
        if let (Some((_, option, _)), false) = (misplaced.first(), ["help", "version"].contains(&name.as_str())) {
            return Err(UsageError::Foreign { command: name, option });
        }
        let command = match name.as_str() {
            "identity" => Command::Identity,
            "boot" => Command::Boot,
            "watch" => Command::Watch,
            "apply" => Command::Apply { config: config.ok_or(needs("apply", "--config FILE"))?, force },
            "plan" => Command::Plan { config: config.ok_or(needs("plan", "--config FILE"))? },
            "status" => Command::Status,
            "rollback" => Command::Rollback { to },
            "inspect" => Command::Inspect { key },
            "install" => Command::Install,
            "enable" => Command::Enable(EnableOptions { yes, dry_run, refresh }),
            "disable" => Command::Disable(DisableOptions {
                yes,
                dry_run,
                files: match (restore, keep_files) {
                    (true, true) => {
                        return Err(UsageError::Foreign { command: name, option: "--restore --keep-files" });
                    }
                    (true, false) => Files::Restore,
                    (false, true) => Files::Keep,
                    (false, false) => Files::Automatic,
                },
            }),
            "check-image" => Command::CheckImage,
            "support" => Command::Support { out: out.ok_or(needs("support", "--out FILE"))? },
            "freeze" => Command::Freeze { run: run.ok_or(needs("freeze", "--run ID"))?, ready_port },
            "thaw" => Command::Thaw { run: run.ok_or(needs("thaw", "--run ID"))? },
            "seal" => Command::Seal { yes, check },
            "config" => match words.next().as_deref().and_then(std::ffi::OsStr::to_str) {
                Some("check") => {
                    Command::ConfigCheck { file: words.next().ok_or(needs("config check", "FILE"))?.into() }
                }
                Some(other) => return Err(UsageError::UnknownCommand(format!("config {other}"))),
                None => return Err(needs("config", "check FILE")),
            },
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            _ => return Err(UsageError::UnknownCommand(name)),
        };
        match words.next() {
            Some(word) => Err(lexopt::Error::UnexpectedArgument(word).into()),
            None => Ok(command),
        }
    }
}

fn parse_output(word: &str) -> Result<Output, &'static str> {
    match word {
        "text" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        _ => Err("expected `text` or `json`"),
    }
}

fn parse_scale(word: &str) -> Result<u32, &'static str> {
    word.parse().ok().filter(|scale| *scale > 0).ok_or("expected a positive integer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, UsageError> {
        Args::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_may_precede_or_follow_the_command() {
        let args = parse("--root /r apply --config f --output json --force").expect("valid");
        assert_eq!(args.command, Command::Apply { config: "f".into(), force: true });
        assert_eq!((args.output, args.locations.root), (Output::Json, "/r".into()));
    }

    #[test]
    fn root_option_disables_systemd_and_links() {
        assert_eq!(parse("boot").expect("valid").locations.systemd, Some("/run/systemd/private".into()));
        assert_eq!(parse("boot --root /r").expect("valid").locations.systemd, None);
        assert_eq!(parse("boot --root /r --systemd /s").expect("valid").locations.systemd, Some("/s".into()));
        assert_eq!(parse("boot --systemd none").expect("valid").locations.systemd, None);
        assert_eq!(parse("boot").expect("valid").locations.links, Some("/sys/class/net".into()));
        assert_eq!(parse("boot --root /r").expect("valid").locations.links, None);
        assert_eq!(parse("boot --links none").expect("valid").locations.links, None);
    }

    #[test]
    fn usage_errors_name_the_problem() {
        for (line, message) in [
            ("", "missing command"),
            ("aply", "unknown command `aply`"),
            ("apply", "`apply` requires `--config FILE`"),
            ("config", "`config` requires `check FILE`"),
            ("config chek f", "unknown command `config chek`"),
            ("config check", "`config check` requires `FILE`"),
            ("status --to 3", "`status` has no option `--to`"),
            ("apply --config f --yes", "`apply` has no option `--yes`"),
            ("install --custom-data-for k", "`install` has no option `--custom-data-for`"),
            ("freeze", "`freeze` requires `--run ID`"),
            ("support", "`support` requires `--out FILE`"),
            ("check-image --out f", "`check-image` has no option `--out`"),
            ("thaw --run r --ready-port 1", "`thaw` has no option `--ready-port`"),
            ("status more", "unexpected argument \"more\""),
            ("status --frob", "invalid option '--frob'"),
        ] {
            assert_eq!(parse(line).expect_err(line).to_string(), message, "{line}");
        }
        assert!(parse("rollback --to x").is_err() && parse("status --output xml").is_err());
        assert!(parse("watch --time-scale 0").is_err());
    }

    #[test]
    fn help_lists_every_option() {
        let source = include_str!("args.rs");
        let options = source.split("Long(\"").skip(1).filter_map(|rest| rest.split('"').next());
        for option in options.filter(|option| !["help", "version"].contains(option)) {
            assert!(
                option.starts_with(|c: char| !c.is_ascii_lowercase()) || HELP.contains(&format!("--{option}")),
                "{option}"
            );
        }
        assert_eq!(parse("apply --help").expect("valid").command, Command::Help);
    }

    #[test]
    fn examples_are_valid_command_lines() {
        let examples: Vec<&str> = HELP.lines().filter_map(|line| line.strip_prefix("  kilnd ")).collect();
        assert!(examples.len() >= 7, "{examples:?}");
        for example in examples {
            parse(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }
}
