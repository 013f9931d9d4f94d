//! The command line. By hand and not by a framework: the program is on the path of every start of a node and counts its bytes.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value, ValueExt as _};

/// What `kilnd help` prints.
pub const HELP: &str = "\
kilnd: makes this machine the node that its document describes

Usage: kilnd COMMAND [OPTIONS]

Commands:
  identity              decide what this boot is; a clone gets an identity of its own (early, no network)
  boot                  find the document, or the committed generation, and put it in force
  watch                 confirm or take back what is on trial; notice new documents
  apply --config FILE   put a document in force (`-` reads it from standard input)
  plan --config FILE    show what `apply` would change, and what it costs
  status                show what is in force, where it came from and what is pending
  rollback [--to N]     put an earlier generation in force again
  inspect               describe this node, read-only
  install               put kilnd on a machine without it: copies of its disk get an identity of their own
  seal [--yes|--check]  prepare this disk to become an image; or verify that it is
  config check FILE     say everything that is wrong with a document

Options:
  --root DIR            work on this folder instead of `/`
  --output text|json    how to answer (text)
  --force               apply: also a document that came back, or one with a lower number
  --yes, --check        seal: do it; only look
  --custom-data-for KEY inspect, json: add the custom data, closed for whoever has the other half of the key
  --imds URL            the metadata service
  --wire-server URL     the platform's own server
  --dmi DIR             where the machine's ids are
  --cd DIR              where the provisioning medium is (more than once: in this order)
  --credentials DIR     where systemd's credentials are
  --systemd SOCKET      PID 1's private socket, or `none` (`none` with `--root`)
  --links DIR           boot: where the kernel describes the links that may be used to ask, or `none` (`none` with `--root`)
  --time-scale N        waits are N times shorter

Examples:
  kilnd config check node.json
  kilnd plan --config node.json --root ./node
      What a document would change on a folder that stands for a node, and what that costs.
  kilnd apply --config node.json
  kilnd status --output json
  kilnd rollback --to 3
  kilnd inspect --root /host
  kilnd seal --check

Exit codes: 0 done or nothing to do, 1 failed and nothing changed, 2 usage, 3 asked: the cluster must do it, 4 came back.
";

/// Where PID 1 listens for root alone, before and without a bus.
const SYSTEMD: &str = "/run/systemd/private";

/// Where the kernel describes the links of this machine.
const LINKS: &str = "/sys/class/net";

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// What to do.
    pub command: Command,
    /// How to answer.
    pub output: Output,
    /// Where the outside is.
    pub places: Places,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Decide what this boot is.
    Identity,
    /// Find the document and put it in force.
    Boot,
    /// Stay, confirm, take back, notice.
    Watch,
    /// Put a document in force.
    Apply {
        /// The document; `-` is standard input.
        config: PathBuf,
        /// Whatever its number and its past.
        force: bool,
    },
    /// Show what `apply` would do.
    Plan {
        /// The document; `-` is standard input.
        config: PathBuf,
    },
    /// Show what is in force.
    Status,
    /// Put an earlier generation in force again.
    Rollback {
        /// Its number; the one before without it.
        to: Option<u64>,
    },
    /// Describe the node, read-only.
    Inspect {
        /// Whom the custom data is closed for; it stays here without.
        key: Option<String>,
    },
    /// Put kilnd on a machine whose image has none.
    Install,
    /// Prepare the disk to become an image.
    Seal {
        /// Do it.
        yes: bool,
        /// Only look.
        check: bool,
    },
    /// Say everything that is wrong with a document.
    ConfigCheck {
        /// The document; `-` is standard input.
        file: PathBuf,
    },
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// How to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Where the outside is; what is not given is where it is on a real node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The root of the file system that is worked on.
    pub root: PathBuf,
    /// The metadata service.
    pub imds: Option<String>,
    /// The platform's own server.
    pub wire_server: Option<String>,
    /// Where the machine's ids are.
    pub dmi: Option<PathBuf>,
    /// Where the provisioning medium is.
    pub cd: Vec<PathBuf>,
    /// Where systemd's credentials are.
    pub credentials: Option<PathBuf>,
    /// PID 1's socket; nothing to talk to without it.
    pub systemd: Option<PathBuf>,
    /// Where the kernel describes its links; nothing is put on them without it.
    pub links: Option<PathBuf>,
    /// Waits are this many times shorter.
    pub time_scale: u32,
}

/// A command line that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum Usage {
    /// An option is unknown, or its value is missing or of another form.
    #[error(transparent)]
    Option(#[from] lexopt::Error),
    /// No command.
    #[error("a command is missing")]
    NoCommand,
    /// A command that there is not.
    #[error("there is no command `{0}`")]
    UnknownCommand(String),
    /// An option that the command cannot do without.
    #[error("`{command}` needs `{option}`")]
    Needs { command: &'static str, option: &'static str },
    /// An option that belongs to another command.
    #[error("`{option}` is not an option of `{command}`")]
    Foreign { command: String, option: &'static str },
}

#[derive(Default)]
struct Given {
    words: Vec<OsString>,
    config: Option<PathBuf>,
    key: Option<String>,
    to: Option<u64>,
    force: bool,
    yes: bool,
    check: bool,
}

impl Args {
    /// Reads the words after the program's name.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, Usage> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut given = Given::default();
        let (mut output, mut root, mut systemd, mut links) = (Output::Text, PathBuf::from("/"), None, None);
        let mut places = Places {
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
                Long("output") => output = parser.value()?.parse_with(output_of)?,
                Long("imds") => places.imds = Some(parser.value()?.string()?),
                Long("wire-server") => places.wire_server = Some(parser.value()?.string()?),
                Long("dmi") => places.dmi = Some(parser.value()?.into()),
                Long("cd") => places.cd.push(parser.value()?.into()),
                Long("credentials") => places.credentials = Some(parser.value()?.into()),
                Long("systemd") => systemd = Some(PathBuf::from(parser.value()?)),
                Long("links") => links = Some(PathBuf::from(parser.value()?)),
                Long("time-scale") => places.time_scale = parser.value()?.parse_with(at_least_one)?,
                Long("config") => given.config = Some(parser.value()?.into()),
                Long("custom-data-for") => given.key = Some(parser.value()?.string()?),
                Long("to") => given.to = Some(parser.value()?.parse()?),
                Long("force") => given.force = true,
                Long("yes") => given.yes = true,
                Long("check") => given.check = true,
                Short('h') | Long("help") => given.words.insert(0, "help".into()),
                Short('V') | Long("version") => given.words.insert(0, "version".into()),
                Value(word) => given.words.push(word),
                other => return Err(other.unexpected().into()),
            }
        }
        let is_host = root.as_os_str() == "/";
        let chosen = |given: Option<PathBuf>, usual: &str| match given {
            Some(path) if path.as_os_str() == "none" => None,
            Some(path) => Some(path),
            None => is_host.then(|| PathBuf::from(usual)),
        };
        places.systemd = chosen(systemd, SYSTEMD);
        places.links = chosen(links, LINKS);
        places.root = root;
        Ok(Self { command: given.command()?, output, places })
    }
}

impl Given {
    fn command(self) -> Result<Command, Usage> {
        let Self { words, config, key, to, force, yes, check } = self;
        let mut words = words.into_iter();
        let name = words.next().ok_or(Usage::NoCommand)?.to_string_lossy().into_owned();
        let needs = |command, option| Usage::Needs { command, option };
        let mut strangers = vec![
            (config.is_some(), "--config", &["apply", "plan"][..]),
            (key.is_some(), "--custom-data-for", &["inspect"]),
            (to.is_some(), "--to", &["rollback"]),
            (force, "--force", &["apply"]),
            (yes, "--yes", &["seal"]),
            (check, "--check", &["seal"]),
        ];
        strangers.retain(|(given, _, commands)| *given && !commands.contains(&name.as_str()));
        if let (Some((_, option, _)), false) = (strangers.first(), ["help", "version"].contains(&name.as_str())) {
            return Err(Usage::Foreign { command: name, option });
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
            "seal" => Command::Seal { yes, check },
            "config" => match words.next().as_deref().and_then(std::ffi::OsStr::to_str) {
                Some("check") => {
                    Command::ConfigCheck { file: words.next().ok_or(needs("config check", "FILE"))?.into() }
                }
                Some(other) => return Err(Usage::UnknownCommand(format!("config {other}"))),
                None => return Err(needs("config", "check FILE")),
            },
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            _ => return Err(Usage::UnknownCommand(name)),
        };
        match words.next() {
            Some(word) => Err(lexopt::Error::UnexpectedArgument(word).into()),
            None => Ok(command),
        }
    }
}

fn output_of(word: &str) -> Result<Output, &'static str> {
    match word {
        "text" => Ok(Output::Text),
        "json" => Ok(Output::Json),
        _ => Err("`text` or `json` is needed"),
    }
}

fn at_least_one(word: &str) -> Result<u32, &'static str> {
    word.parse().ok().filter(|scale| *scale > 0).ok_or("a whole number from 1 is needed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, Usage> {
        Args::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_stand_before_and_after_the_command() {
        let args = parse("--root /r apply --config f --output json --force").expect("good");
        assert_eq!(args.command, Command::Apply { config: "f".into(), force: true });
        assert_eq!((args.output, args.places.root), (Output::Json, "/r".into()));
    }

    #[test]
    fn another_root_has_neither_systemd_nor_links_unless_they_are_named() {
        assert_eq!(parse("boot").expect("good").places.systemd, Some("/run/systemd/private".into()));
        assert_eq!(parse("boot --root /r").expect("good").places.systemd, None);
        assert_eq!(parse("boot --root /r --systemd /s").expect("good").places.systemd, Some("/s".into()));
        assert_eq!(parse("boot --systemd none").expect("good").places.systemd, None);
        assert_eq!(parse("boot").expect("good").places.links, Some("/sys/class/net".into()));
        assert_eq!(parse("boot --root /r").expect("good").places.links, None);
        assert_eq!(parse("boot --links none").expect("good").places.links, None);
    }

    #[test]
    fn what_cannot_be_understood_says_what_would_be() {
        for (line, says) in [
            ("", "a command is missing"),
            ("aply", "there is no command `aply`"),
            ("apply", "`apply` needs `--config FILE`"),
            ("config", "`config` needs `check FILE`"),
            ("config chek f", "there is no command `config chek`"),
            ("config check", "`config check` needs `FILE`"),
            ("status --to 3", "`--to` is not an option of `status`"),
            ("apply --config f --yes", "`--yes` is not an option of `apply`"),
            ("install --custom-data-for k", "`--custom-data-for` is not an option of `install`"),
            ("status more", "unexpected argument \"more\""),
            ("status --frob", "invalid option '--frob'"),
        ] {
            assert_eq!(parse(line).expect_err(line).to_string(), says, "{line}");
        }
        assert!(parse("rollback --to x").is_err() && parse("status --output xml").is_err());
        assert!(parse("watch --time-scale 0").is_err());
    }

    #[test]
    fn help_names_every_command_and_every_option() {
        let source = include_str!("args.rs");
        let options = source.split("Long(\"").skip(1).filter_map(|rest| rest.split('"').next());
        for option in options.filter(|option| !["help", "version"].contains(option)) {
            assert!(
                option.starts_with(|c: char| !c.is_ascii_lowercase()) || HELP.contains(&format!("--{option}")),
                "{option}"
            );
        }
        assert_eq!(parse("apply --help").expect("good").command, Command::Help);
    }

    #[test]
    fn every_example_is_a_command_line_of_this_program() {
        let examples: Vec<&str> = HELP.lines().filter_map(|line| line.strip_prefix("  kilnd ")).collect();
        assert!(examples.len() >= 7, "{examples:?}");
        for example in examples {
            parse(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }
}
