//! `kiln bootstrap check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kiln_bootstrap::review::{FileKind, Review, review};
use serde::Serialize;

use super::files;
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap check settings.yaml
  kiln bootstrap check pool.yaml class.yaml config.json
      Detects the kind of each file from its content.
  kiln bootstrap check values.json --as values --output json

Exit codes: 0 all files are valid, 1 a file has errors, 2 usage error or unreadable file.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    /// Settings, pool, class, claim, values, `AKSNodeConfig`, `NodeConfig`, record, components or environment
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Kind of the files [default: detected from their content]
    #[arg(long = "as", value_enum, value_name = "KIND")]
    kind: Option<KindArgument>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindArgument {
    Settings,
    NodePool,
    NodeClass,
    NodeClaim,
    Values,
    AksNodeConfig,
    NodeConfig,
    Record,
    Components,
    Env,
}

impl From<KindArgument> for FileKind {
    fn from(kind: KindArgument) -> Self {
        match kind {
            KindArgument::Settings => Self::Settings,
            KindArgument::NodePool => Self::NodePool,
            KindArgument::NodeClass => Self::NodeClass,
            KindArgument::NodeClaim => Self::NodeClaim,
            KindArgument::Values => Self::Values,
            KindArgument::AksNodeConfig => Self::AksNodeConfig,
            KindArgument::NodeConfig => Self::NodeConfig,
            KindArgument::Record => Self::Record,
            KindArgument::Components => Self::Components,
            KindArgument::Env => Self::Environment,
        }
    }
}

#[derive(Serialize)]
struct ReviewedFile {
    file: String,
    #[serde(flatten)]
    review: Review,
}

pub(super) fn run(arguments: &Check, output: Output) -> Result<(), Failure> {
    let mut all = Vec::new();
    for path in &arguments.files {
        let file = path.display().to_string();
        let review = review(&file, &files::text(path)?, arguments.kind.map(FileKind::from));
        all.push(ReviewedFile { file, review });
    }
    answer::either(output, &all, |all| text(all))?;
    match all.iter().filter(|file| !file.review.is_valid()).count() {
        0 => Ok(()),
        invalid => Err(Failure::failed(format_args!("{invalid} of {} files have errors", all.len()))),
    }
}

fn text(all: &[ReviewedFile]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for reviewed in all {
        for finding in &reviewed.review.findings {
            let _ = writeln!(text, "{finding}");
        }
        if reviewed.review.is_valid() {
            let _ = writeln!(text, "{}: valid {}", reviewed.file, reviewed.review.kind.as_str());
        }
    }
    text
}
