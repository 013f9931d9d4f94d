//! `kiln boot`: why kubelet started when it did, and what would save seconds.

mod examples;
mod files;
mod show;
mod source;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_boot_analysis::explain::explain;
use kiln_boot_analysis::{Boot, Change, Usec, budget, compare, plot};

use crate::answer;
use crate::failure::Failure;
use source::Source;

const EXAMPLES: &str = "Examples:
  kiln boot explain
      Why kubelet.service started when it did, on this machine.
  kiln boot capture -o boot.txt
      Keep what systemd recorded, to look at it elsewhere: kiln boot explain --capture boot.txt
  kiln boot what-if --without systemd-networkd-wait-online.service
  kiln boot explain --chain pasted.txt --unit graphical.target
      All that is left of a boot is what `systemd-analyze critical-chain` printed.
  kiln boot budget limits.txt --capture boot.txt
      For a pipeline: exit code 1 when a limit does not hold.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct BootCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Output {
    /// How to print it
    #[arg(long, value_enum, default_value_t, global = true)]
    output: answer::Output,
}

#[derive(Debug, Args)]
struct Target {
    /// The unit whose start is in question: kubelet.service, or where a pasted chain does not have it, that chain's own
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
}

impl Target {
    /// The unit that is asked about.
    fn of(&self, boot: &Boot) -> String {
        let usual = || boot.pasted_root().filter(|_| boot.unit(KUBELET).is_none()).unwrap_or(KUBELET);
        self.unit.clone().unwrap_or_else(|| usual().to_owned())
    }
}

const KUBELET: &str = "kubelet.service";

#[derive(Debug, Subcommand)]
enum Verb {
    /// What `systemd-analyze critical-chain` prints
    #[command(after_help = examples::CHAIN)]
    Chain {
        /// The unit; the boot's own goal by default
        unit: Option<String>,
        /// Also show what came within this time of the last
        #[arg(long, value_name = "SPAN", default_value = "0")]
        fuzz: Usec,
        #[command(flatten)]
        source: Source,
    },
    /// What `systemd-analyze blame` prints
    #[command(after_help = examples::BLAME)]
    Blame {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// What `systemd-analyze time` prints
    #[command(after_help = examples::TIME)]
    Time {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// The way back from a unit's start: what ran, what waited, what came from outside; and what would save time
    #[command(after_help = examples::EXPLAIN)]
    Explain {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// When a unit would have started without another one
    #[command(after_help = examples::WHAT_IF)]
    WhatIf {
        /// A unit that nobody waits for
        #[arg(long, value_name = "UNIT", required_unless_present = "without_edge")]
        without: Vec<String>,
        /// A does not wait for B
        #[arg(long, value_name = "A:B", value_parser = edge)]
        without_edge: Vec<(String, String)>,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Two captures side by side
    #[command(after_help = examples::COMPARE)]
    Compare {
        /// The first capture
        first: PathBuf,
        /// The second
        second: PathBuf,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        output: Output,
    },
    /// Hold a boot against limits; exit code 1 when one does not hold
    #[command(after_help = examples::BUDGET)]
    Budget {
        /// A limit per line: `boot < 30s`, `kubelet.service start < 12s`, `docker.service time < 4s`
        file: PathBuf,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Orderings in unit files that cost time or do nothing; exit code 1 when there is one
    #[command(after_help = examples::LINT)]
    Lint {
        /// Folders with unit files, such as /usr/lib/systemd/system of an image
        #[arg(required = true)]
        folders: Vec<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Draw the boot as SVG
    #[command(after_help = examples::PLOT)]
    Plot {
        /// Where to write it
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        source: Source,
    },
    /// Keep what systemd recorded of this boot
    #[command(after_help = examples::CAPTURE)]
    Capture {
        /// Where to write it
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
    },
}

fn edge(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((unit, other)) if !unit.is_empty() && !other.is_empty() => Ok((unit.to_owned(), other.to_owned())),
        _ => Err("write `kubelet.service:network-online.target`: the first no longer waits for the second".to_owned()),
    }
}

pub(crate) fn run(command: &BootCommand) -> Result<(), Failure> {
    match &command.verb {
        Verb::Chain { unit, fuzz, source } => {
            let boot = source.read()?;
            let unit = unit.clone().unwrap_or_else(|| boot.goal().to_owned());
            known(&boot, &unit)?;
            answer::print(&kiln_boot_analysis::chain(&boot, &unit, *fuzz).map_err(Failure::failed)?)
        }
        Verb::Blame { source, output } => {
            let boot = source.read()?;
            let text = kiln_boot_analysis::blame(&boot).map_err(Failure::failed)?;
            answer::either(output.output, &kiln_boot_analysis::blamed(&boot).map_err(Failure::failed)?, |_| text)
        }
        Verb::Time { source, output } => {
            let boot = source.read()?;
            let text = kiln_boot_analysis::time(&boot).map_err(Failure::failed)?;
            answer::either(output.output, &kiln_boot_analysis::phases(&boot).map_err(Failure::failed)?, |_| text)
        }
        Verb::Explain { target, source, output } => {
            let boot = source.read()?;
            let explained = explain(&boot, &target.of(&boot)).map_err(Failure::failed)?;
            answer::either(output.output, &explained, show::explanation)
        }
        Verb::WhatIf { without, without_edge, target, source, output } => {
            let boot = source.read()?;
            for unit in without.iter().chain(without_edge.iter().flat_map(|(unit, other)| [unit, other])) {
                known(&boot, unit)?;
            }
            let units = without.iter().map(|unit| Change::WithoutUnit(unit.as_str().into()));
            let edges = without_edge.iter();
            let edges = edges
                .map(|(unit, other)| Change::WithoutEdge { unit: unit.as_str().into(), other: other.as_str().into() });
            let changes: Vec<Change> = units.chain(edges).collect();
            let unit = target.of(&boot);
            explain(&boot, &unit).map_err(Failure::failed)?;
            let answer = kiln_boot_analysis::what_if(&boot, &unit, &changes);
            let answer = answer.ok_or_else(|| Failure::input("the unit in question is the one that is taken out"))?;
            answer::either(output.output, &answer, show::what_if)
        }
        Verb::Compare { first, second, target, output } => {
            let of = |path| {
                let boot = source::capture(path)?;
                explain(&boot, &target.of(&boot)).map_err(|error| Failure::file(path, error))
            };
            answer::either(output.output, &compare::compare(&of(first)?, &of(second)?), show::comparison)
        }
        Verb::Budget { file, source, output } => {
            let text = source::text(file)?;
            let limits = budget::parse(&text).map_err(|error| Failure::file(file, error))?;
            if limits.is_empty() {
                return Err(Failure::file(file, "it has no limit: nothing would ever break it"));
            }
            let judged = budget::judge(&source.read()?, &limits);
            answer::either(output.output, &judged, |judged| show::budget(judged))?;
            match judged.iter().filter(|one| !one.kept).count() {
                0 => Ok(()),
                broken => Err(Failure::failed(format_args!("{broken} of {} limits do not hold", judged.len()))),
            }
        }
        Verb::Lint { folders, output } => {
            let (files, pulls) = files::read(folders)?;
            if files.is_empty() {
                return Err(Failure::input("no unit file is in these folders")
                    .hint("name folders of units, as `/usr/lib/systemd/system`"));
            }
            let problems = kiln_boot_analysis::lint::lint(&files, &pulls);
            answer::either(output.output, &problems, |problems| show::problems(problems))?;
            match problems.len() {
                0 => Ok(()),
                count => Err(Failure::failed(format_args!("{count} to look at in {} unit files", files.len()))),
            }
        }
        Verb::Plot { out, target, source } => {
            let boot = source.read()?;
            let explained = explain(&boot, &target.of(&boot)).map_err(Failure::failed)?;
            std::fs::write(out, plot::plot(&boot, &explained)).map_err(|error| Failure::file(out, error))
        }
        Verb::Capture { out } => {
            let text = source::live()?;
            kiln_boot_analysis::capture::parse(&text).map_err(Failure::failed)?;
            std::fs::write(out, text).map_err(|error| Failure::file(out, error))
        }
    }
}

/// A name that the boot does not have is a slip of the pen, not an empty answer.
fn known(boot: &Boot, unit: &str) -> Result<(), Failure> {
    match boot.unit(unit) {
        Some(_) => Ok(()),
        None => Err(Failure::input(format_args!(
            "this boot has no unit `{unit}`: `kiln boot blame` lists those that took time"
        ))),
    }
}
