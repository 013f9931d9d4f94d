//! `kiln bootstrap diff`.

use std::path::{Path, PathBuf};

use clap::Args;
use kiln_aks_formats::nbv::Inputs;
use kiln_aks_formats::{anc, from_base64, shell};
use kiln_bootstrap::Document;
use kiln_bootstrap::compare::{Difference, Environment, Side, compare};
use kiln_bootstrap::review::{FileKind, review};
use kiln_node_config::NodeConfig;

use super::{files, show, sources};
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap diff old.json new.json
      Compares NodeConfigs, AKSNodeConfigs, values, environments, records, scripts, custom data, settings, pools or classes.
  kiln bootstrap diff staging/ production/
      Resolves the sources of two folders (settings.yaml, node-pool.yaml, node-class.yaml, node-claim.yaml) and compares each field.
  kiln bootstrap diff production/ running.json
      Shows which fields of the running NodeConfig would change.

Secrets are compared, but shown as ***.
Exit codes: 0 success, 1 failed, or differences with --exit-code, 2 usage error or invalid input.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Diff {
    /// File, or folder of sources
    a: PathBuf,
    /// File or folder to compare with
    b: PathBuf,
    /// Exit with 1 if there are differences
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(arguments: &Diff, output: Output) -> Result<(), Failure> {
    let (a, b) = (side(&arguments.a)?, side(&arguments.b)?);
    let differences = compare(&a, &b).map_err(Failure::input)?;
    answer::either(output, &differences, |differences| text(differences))?;
    if arguments.exit_code && !differences.is_empty() {
        return Err(Failure::failed(format_args!("{} differences", differences.len())));
    }
    Ok(())
}

fn side(path: &Path) -> Result<Side, Failure> {
    if path.is_dir() {
        return Ok(Side::Inputs(Box::new(sources::from_folder(path)?.resolve()?)));
    }
    let text = files::text(path)?;
    if let Some(environment) = script_variables(&text) {
        return Ok(Side::Environment(Environment(environment)));
    }
    let document = Document::read(&path.display().to_string(), &text).map_err(Failure::input)?;
    let kind = FileKind::detect(document.value());
    let review = review(&path.display().to_string(), &text, Some(kind));
    if let Some(finding) = review.findings.iter().find(|finding| !finding.warning && finding.path != "version") {
        return Err(Failure::input(finding));
    }
    Ok(match kind {
        FileKind::NodeConfig => {
            let config = NodeConfig::parse(document.value().to_string().as_bytes()).map_err(Failure::input)?;
            Side::NodeConfig(Box::new(config))
        }
        FileKind::AksNodeConfig => Side::AksNodeConfig(Box::new(anc::parse(text.as_bytes()).config)),
        FileKind::Record => Side::Record(document.parse().map_err(Failure::input)?),
        FileKind::Values => {
            let inputs: Inputs = document.parse().map_err(Failure::input)?;
            Side::Environment(Environment(inputs.variables().map_err(Failure::input)?.environment()))
        }
        FileKind::Environment => Side::Environment(Environment(document.parse().map_err(Failure::input)?)),
        FileKind::Components => return Err(Failure::file(path, "cannot compare a components file")),
        FileKind::Settings | FileKind::NodePool | FileKind::NodeClass | FileKind::NodeClaim => {
            Side::Inputs(Box::new(sources::resolve_document(&document, kind)?))
        }
    })
}

/// Parses the variables of a script, of custom data that contains one, or of shell assignments.
fn script_variables(text: &str) -> Option<std::collections::BTreeMap<String, String>> {
    let decoded = from_base64(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = decoded.as_deref().unwrap_or(text);
    let assignments = match text.split_once("\nset -o allexport\n") {
        Some((_, after)) => after.rsplit_once("/usr/bin/nohup ")?.0,
        None => text,
    };
    shell::assignments(assignments).filter(|variables| !variables.is_empty())
}

fn text(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "no differences\n".to_owned();
    }
    let value = |value: &Option<serde_json::Value>| value.as_ref().map_or("-".to_owned(), show::short);
    let rows = differences.iter().map(|one| {
        let position = match (&one.from_position, &one.to_position) {
            (Some(from), Some(to)) if from == to => super::explain::shorten_fields(from),
            (Some(from), Some(to)) => format!("{from} -> {to}"),
            (Some(position), None) | (None, Some(position)) => position.clone(),
            (None, None) => String::new(),
        };
        let effect = one.effect.map_or_else(String::new, |effect| effect.to_string());
        [one.path.clone(), value(&one.from), value(&one.to), effect, position]
    });
    show::table(["FIELD", "FIRST", "SECOND", "EFFECT", "POSITION"], rows)
}
