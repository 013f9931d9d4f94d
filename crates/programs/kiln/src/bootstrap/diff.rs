//! `kiln bootstrap diff`.

use std::path::{Path, PathBuf};

use clap::Args;
use kiln_aks_formats::nbv::Inputs;
use kiln_aks_formats::{anc, from_base64, shell};
use kiln_bootstrap::Document;
use kiln_bootstrap::compare::{Difference, Environment, Side, compare};
use kiln_bootstrap::review::{Sort, review};
use kiln_node_config::NodeConfig;

use super::{files, show, sources};
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap diff old.json new.json
      Two NodeConfigs, AKSNodeConfigs, values, environments, records, scripts, custom data, settings, pools or classes.
  kiln bootstrap diff staging/ production/
      Two folders with settings.yaml, node-pool.yaml, node-class.yaml and node-claim.yaml, resolved and compared field by field.
  kiln bootstrap diff production/ running.json
      Inputs against a NodeConfig: what the node would have to change.

Secrets are compared and shown as ***. Exit code 1 with --exit-code when something differs.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Diff {
    /// A file, or a folder of sources
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// Exit with 1 when something differs
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(arguments: &Diff, form: Output) -> Result<(), Failure> {
    let (a, b) = (side(&arguments.a)?, side(&arguments.b)?);
    let found = compare(&a, &b).map_err(Failure::input)?;
    answer::either(form, &found, |found| text(found))?;
    if arguments.exit_code && !found.is_empty() {
        return Err(Failure::failed(format_args!("{} differences", found.len())));
    }
    Ok(())
}

fn side(path: &Path) -> Result<Side, Failure> {
    if path.is_dir() {
        return Ok(Side::Inputs(Box::new(sources::of_folder(path)?.resolve()?)));
    }
    let text = files::text(path)?;
    if let Some(environment) = script(&text) {
        return Ok(Side::Environment(Environment(environment)));
    }
    let document = Document::read(&path.display().to_string(), &text).map_err(Failure::input)?;
    let sort = Sort::of(document.value());
    let review = review(&path.display().to_string(), &text, Some(sort));
    if let Some(finding) = review.findings.iter().find(|finding| !finding.harmless && finding.path != "version") {
        return Err(Failure::input(finding));
    }
    Ok(match sort {
        Sort::NodeConfig => {
            let config = NodeConfig::parse(document.value().to_string().as_bytes()).map_err(Failure::input)?;
            Side::NodeConfig(Box::new(config))
        }
        Sort::AksNodeConfig => Side::NodeController(Box::new(anc::parse(text.as_bytes()).config)),
        Sort::Record => Side::Record(document.parse().map_err(Failure::input)?),
        Sort::Values => {
            let inputs: Inputs = document.parse().map_err(Failure::input)?;
            Side::Environment(Environment(inputs.variables().map_err(Failure::input)?.environment()))
        }
        Sort::Environment => Side::Environment(Environment(document.parse().map_err(Failure::input)?)),
        Sort::Components => return Err(Failure::file(path, "a list of components is nothing that a node starts with")),
        Sort::Settings | Sort::NodePool | Sort::NodeClass | Sort::NodeClaim => {
            Side::Inputs(Box::new(sources::of_document(&document, sort)?))
        }
    })
}

/// The variables of a script, of custom data that is one, or of lines for a shell.
fn script(text: &str) -> Option<std::collections::BTreeMap<String, String>> {
    let decoded = from_base64(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = decoded.as_deref().unwrap_or(text);
    let assignments = match text.split_once("\nset -o allexport\n") {
        Some((_, after)) => after.rsplit_once("/usr/bin/nohup ")?.0,
        None => text,
    };
    shell::assignments(assignments).filter(|found| !found.is_empty())
}

fn text(found: &[Difference]) -> String {
    if found.is_empty() {
        return "nothing differs\n".to_owned();
    }
    let value = |value: &Option<serde_json::Value>| value.as_ref().map_or("-".to_owned(), show::short);
    let rows = found.iter().map(|one| {
        let place = match (&one.from_place, &one.to_place) {
            (Some(from), Some(to)) if from == to => super::explain::from_fields(from),
            (Some(from), Some(to)) => format!("{from} -> {to}"),
            (Some(place), None) | (None, Some(place)) => place.clone(),
            (None, None) => String::new(),
        };
        let effect = one.effect.map_or_else(String::new, |effect| effect.to_string());
        [one.path.clone(), value(&one.from), value(&one.to), effect, place]
    });
    show::table(["FIELD", "FIRST", "SECOND", "EFFECT", "PLACE"], rows)
}
