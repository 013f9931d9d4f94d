//! `kiln boot`: why the kubelet started late, and what would save time.
//!
//! [`source`] reads a boot, `kiln_boot_analysis` computes, and [`show`] prints.

mod examples;
mod files;
mod show;
mod source;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_boot_analysis::explain::{NotExplained, explain};
use kiln_boot_analysis::{Boot, Change, NotFinished, Usec, budget, compare, plot};

use crate::answer;
use crate::failure::Failure;
use source::Source;

const EXAMPLES: &str = "Examples:
  kiln boot explain
      Why kubelet.service started when it did on this machine.
  kiln boot capture -o boot.txt
      Save what systemd recorded, to analyse it elsewhere: kiln boot explain --capture boot.txt
  kiln boot what-if --without systemd-networkd-wait-online.service
  kiln boot explain graphical.target --chain pasted.txt
      From the saved output of `systemd-analyze critical-chain`.
  kiln boot budget limits.txt --capture boot.txt
      For CI: exit code 1 if a limit is exceeded.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct BootCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Output {
    /// Output format
    #[arg(long, value_enum, default_value_t, global = true)]
    output: answer::Output,
}

#[derive(Debug, Args)]
struct Target {
    /// Unit to explain [default: kubelet.service, or the first unit of a pasted chain that does not have it]
    #[arg(value_name = "UNIT")]
    unit: Option<String>,
}

impl Target {
    fn name(&self, boot: &Boot) -> String {
        let default = || boot.pasted_root().filter(|_| boot.unit(KUBELET).is_none()).unwrap_or(KUBELET);
        self.unit.clone().unwrap_or_else(|| default().to_owned())
    }
}

const KUBELET: &str = "kubelet.service";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the same as `systemd-analyze critical-chain`
    #[command(after_help = examples::CHAIN)]
    Chain {
        /// Unit at the top of the chain [default: the default target]
        unit: Option<String>,
        /// Also show units that became active within this time of the last one
        #[arg(long, value_name = "SPAN", default_value = "0")]
        fuzz: Usec,
        #[command(flatten)]
        source: Source,
    },
    /// Print the same as `systemd-analyze blame`
    #[command(after_help = examples::BLAME)]
    Blame {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Print the same as `systemd-analyze time`
    #[command(after_help = examples::TIME)]
    Time {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Explain the start of a unit: what it waited for, and what would save time
    #[command(after_help = examples::EXPLAIN)]
    Explain {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Compute when a unit would have started without another one
    #[command(after_help = examples::WHAT_IF)]
    WhatIf {
        /// Remove this unit
        #[arg(long, value_name = "UNIT", required_unless_present = "without_edge")]
        without: Vec<String>,
        /// Remove the ordering of unit A after unit B
        #[arg(long, value_name = "A:B", value_parser = edge)]
        without_edge: Vec<(String, String)>,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Compare two captures
    #[command(after_help = examples::COMPARE)]
    Compare {
        /// First capture
        first: PathBuf,
        /// Second capture
        second: PathBuf,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        output: Output,
    },
    /// Check a boot against limits; exit code 1 if one is exceeded
    #[command(after_help = examples::BUDGET)]
    Budget {
        /// File with one limit per line: `boot < 30s`, `kubelet.service start < 12s`, `docker.service time < 4s`
        file: PathBuf,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        output: Output,
    },
    /// Find orderings in unit files that cost time or have no effect; exit code 1 if there are any
    #[command(after_help = examples::LINT)]
    Lint {
        /// Folders of unit files, or single unit files, which are checked together with the other units of their folder
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Draw the boot as an SVG picture
    #[command(after_help = examples::PLOT)]
    Plot {
        /// File to write
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        source: Source,
    },
    /// Save what systemd recorded of this boot
    #[command(after_help = examples::CAPTURE)]
    Capture {
        /// File to write
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
    },
}

fn edge(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((unit, other)) if !unit.is_empty() && !other.is_empty() => Ok((unit.to_owned(), other.to_owned())),
        _ => Err("expected two units such as `kubelet.service:network-online.target`".to_owned()),
    }
}

pub(crate) fn run(command: &BootCommand) -> Result<(), Failure> {
    match &command.verb {
        Verb::Chain { unit, fuzz, source } => {
            let boot = source.read()?;
            let unit = unit.clone().unwrap_or_else(|| boot.goal().to_owned());
            check_unit(&boot, &unit)?;
            answer::print(&kiln_boot_analysis::chain(&boot, &unit, *fuzz).map_err(not_finished)?)
        }
        Verb::Blame { source, output } => {
            let boot = source.read()?;
            let text = kiln_boot_analysis::blame(&boot).map_err(not_finished)?;
            answer::either(output.output, &kiln_boot_analysis::blamed(&boot).map_err(not_finished)?, |_| text)
        }
        Verb::Time { source, output } => {
            let boot = source.read()?;
            let text = kiln_boot_analysis::time(&boot).map_err(not_finished)?;
            answer::either(output.output, &kiln_boot_analysis::phases(&boot).map_err(not_finished)?, |_| text)
        }
        Verb::Explain { target, source, output } => {
            let boot = source.read()?;
            let explained = explain(&boot, &target.name(&boot)).map_err(|error| not_explained(&error))?;
            answer::either(output.output, &explained, show::explanation)
        }
        Verb::WhatIf { without, without_edge, target, source, output } => {
            let boot = source.read()?;
            for unit in without.iter().chain(without_edge.iter().flat_map(|(unit, other)| [unit, other])) {
                check_unit(&boot, unit)?;
            }
            let units = without.iter().map(|unit| Change::WithoutUnit(unit.as_str().into()));
            let edges = without_edge.iter();
            let edges = edges
                .map(|(unit, other)| Change::WithoutEdge { unit: unit.as_str().into(), other: other.as_str().into() });
            let changes: Vec<Change> = units.chain(edges).collect();
            let unit = target.name(&boot);
            explain(&boot, &unit).map_err(|error| not_explained(&error))?;
            let answer = kiln_boot_analysis::what_if(&boot, &unit, &changes);
            let answer = answer.ok_or_else(|| Failure::input("the explained unit is itself removed by `--without`"))?;
            answer::either(output.output, &answer, show::what_if)
        }
        Verb::Compare { first, second, target, output } => {
            let explained = |path| {
                let boot = source::capture(path)?;
                explain(&boot, &target.name(&boot)).map_err(|error| Failure::file(path, error))
            };
            answer::either(output.output, &compare::compare(&explained(first)?, &explained(second)?), show::comparison)
        }
        Verb::Budget { file, source, output } => {
            let text = source::text(file)?;
            let limits = budget::parse(&text).map_err(|error| Failure::file(file, error))?;
            if limits.is_empty() {
                return Err(Failure::file(file, "the file has no limits"));
            }
            let judged = budget::judge(&source.read()?, &limits);
            answer::either(output.output, &judged, |judged| show::budget(judged))?;
            match judged.iter().filter(|one| !one.kept).count() {
                0 => Ok(()),
                broken => Err(Failure::failed(format_args!(
                    "{broken} of {} limits are exceeded or cannot be measured",
                    judged.len()
                ))),
            }
        }
        Verb::Lint { paths, output } => {
            let units = files::read(paths)?;
            if units.files.is_empty() {
                return Err(Failure::input("no unit files found in these folders")
                    .hint("name a folder of unit files, such as `/usr/lib/systemd/system`"));
            }
            let mut problems = kiln_boot_analysis::lint::lint(&units.files, &units.pulls);
            problems.retain(|problem| units.selected.contains(&problem.path));
            answer::either(output.output, &problems, |problems| show::problems(problems))?;
            match problems.len() {
                0 => Ok(()),
                count => Err(Failure::failed(format_args!("findings in unit files: {count}"))),
            }
        }
        Verb::Plot { out, target, source } => {
            let boot = source.read()?;
            let explained = explain(&boot, &target.name(&boot)).map_err(|error| not_explained(&error))?;
            std::fs::write(out, plot::plot(&boot, &explained)).map_err(|error| Failure::file(out, error))
        }
        Verb::Capture { out } => {
            let text = source::live()?;
            kiln_boot_analysis::capture::parse(&text).map_err(Failure::failed)?;
            std::fs::write(out, text).map_err(|error| Failure::file(out, error))
        }
    }
}

/// Rejects an unknown unit. systemd-analyze would print an empty result.
fn check_unit(boot: &Boot, unit: &str) -> Result<(), Failure> {
    match boot.unit(unit) {
        Some(_) => Ok(()),
        None => Err(Failure::input(NotExplained::Missing(unit.to_owned())).hint(LIST_UNITS)),
    }
}

const LIST_UNITS: &str = "`kiln boot blame` lists the units that took time";

fn not_explained(error: &NotExplained) -> Failure {
    let failure = Failure::failed(error);
    match error {
        NotExplained::Missing(_) => failure.hint(LIST_UNITS),
        NotExplained::NotRecorded(_) => failure.hint(NEW_CAPTURE),
        NotExplained::NotStarted { .. } => failure,
    }
}

const NEW_CAPTURE: &str = "take a new capture with `kiln boot capture`, which records everything that is needed";

fn not_finished(error: NotFinished) -> Failure {
    match error {
        NotFinished::Running => Failure::failed(error).hint("`systemctl list-jobs` shows the queued jobs"),
        NotFinished::Unknown => Failure::failed(error).hint(NEW_CAPTURE),
    }
}
