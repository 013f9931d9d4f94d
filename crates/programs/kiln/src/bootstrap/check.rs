//! `kiln bootstrap check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kiln_bootstrap::review::{Review, Sort, review};
use serde::Serialize;

use super::files;
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap check settings.yaml
  kiln bootstrap check pool.yaml class.yaml config.json
      What each file is, is told by its content.
  kiln bootstrap check values.json --as values --output json

Exit codes: 0 all can be used, 1 something cannot, 2 usage or a file that cannot be read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    /// Settings, pool, class, claim, values, `AKSNodeConfig`, `NodeConfig`, record, components or environment
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What the files are, where their content does not tell
    #[arg(long = "as", value_enum, value_name = "KIND")]
    sort: Option<Word>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Word {
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

impl From<Word> for Sort {
    fn from(word: Word) -> Self {
        match word {
            Word::Settings => Self::Settings,
            Word::NodePool => Self::NodePool,
            Word::NodeClass => Self::NodeClass,
            Word::NodeClaim => Self::NodeClaim,
            Word::Values => Self::Values,
            Word::AksNodeConfig => Self::AksNodeConfig,
            Word::NodeConfig => Self::NodeConfig,
            Word::Record => Self::Record,
            Word::Components => Self::Components,
            Word::Env => Self::Environment,
        }
    }
}

#[derive(Serialize)]
struct Looked {
    file: String,
    #[serde(flatten)]
    review: Review,
}

pub(super) fn run(arguments: &Check, form: Output) -> Result<(), Failure> {
    let mut all = Vec::new();
    for path in &arguments.files {
        let file = path.display().to_string();
        let review = review(&file, &files::text(path)?, arguments.sort.map(Sort::from));
        all.push(Looked { file, review });
    }
    answer::either(form, &all, |all| text(all))?;
    match all.iter().filter(|looked| !looked.review.is_well()).count() {
        0 => Ok(()),
        bad => Err(Failure::failed(format_args!("{bad} of {} files cannot be used", all.len()))),
    }
}

fn text(all: &[Looked]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for looked in all {
        for finding in &looked.review.findings {
            let _ = writeln!(text, "{finding}");
        }
        if looked.review.is_well() {
            let _ = writeln!(text, "{}: {}, can be used", looked.file, looked.review.sort.as_str());
        }
    }
    text
}
