//! The sources of a node's configuration, as options.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use kiln_bootstrap::sources::{self, SourceError};
use kiln_bootstrap::{Document, Layer, Resolved, resolve};

use super::files;
use crate::failure::Failure;

/// Where values come from, besides environment variables.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sources {
    /// Global settings: fields with values, or Karpenter's `ConfigMap`
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) settings: Option<PathBuf>,
    /// Karpenter's `NodePool`
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) node_pool: Option<PathBuf>,
    /// Karpenter's `AKSNodeClass`
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) node_class: Option<PathBuf>,
    /// Karpenter's `NodeClaim`, over its pool
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) node_claim: Option<PathBuf>,
    /// One field, as the strongest source that may set it
    #[arg(long, value_name = "FIELD=VALUE", help_heading = "Sources")]
    pub(crate) set: Vec<String>,
}

impl Sources {
    /// Whether nothing was given.
    pub(super) fn is_empty(&self) -> bool {
        let files = [&self.settings, &self.node_pool, &self.node_class, &self.node_claim];
        self.set.is_empty() && files.iter().all(|file| file.is_none())
    }

    /// One value per field.
    pub(super) fn resolve(&self) -> Result<Resolved, Failure> {
        Ok(resolve(&self.layers()?))
    }

    /// What every source says.
    pub(crate) fn layers(&self) -> Result<Vec<Layer>, Failure> {
        let mut mistakes = Vec::new();
        let mut layers = Vec::new();
        let mut take = |said: Result<Vec<Layer>, SourceError>| match said {
            Ok(said) => layers.extend(said),
            Err(error) => mistakes.push(error),
        };
        take(sources::environment(&environment()).map(|layer| vec![layer]));
        let document = |path: &Option<PathBuf>| path.as_deref().map(files::document).transpose();
        if let Some(document) = document(&self.settings)? {
            take(sources::settings(&document).map(|layer| vec![layer]));
        }
        if let Some(document) = document(&self.node_pool)? {
            take(sources::node_pool(&document).map(|layer| vec![layer]));
        }
        if let Some(document) = document(&self.node_claim)? {
            take(sources::node_claim(&document).map(|layer| vec![layer]));
        }
        take(sources::arguments(&self.set));
        if let Some(class) = document(&self.node_class)? {
            // Which of a class's images counts is decided by the processor, which pool, claim and arguments settle.
            let arch = resolve(&layers).text("arch").to_owned();
            match sources::node_class(&class, &arch) {
                // Before the arguments: of one kind the last wins.
                Ok(said) => layers.splice(0..0, said).for_each(drop),
                Err(error) => mistakes.push(error),
            }
        }
        if mistakes.is_empty() { Ok(layers) } else { Err(failure(&SourceError::Several(mistakes))) }
    }
}

/// Each mistake on a line of its own.
fn failure(error: &SourceError) -> Failure {
    let lines: Vec<String> = error.each().into_iter().map(ToString::to_string).collect();
    Failure::input(lines.join("\nerror: "))
}

/// Environment variables; what is not UTF-8 is none of ours.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect()
}

/// The names of the sources in a folder that holds a set of them.
const IN_FOLDER: [&str; 4] = ["settings", "node-pool", "node-class", "node-claim"];

/// The sources of a folder: `settings.yaml`, `node-pool.yaml`, `node-class.yaml`, `node-claim.yaml`; `.yml` and `.json` too.
pub(super) fn of_folder(folder: &std::path::Path) -> Result<Sources, Failure> {
    let find = |name: &str| {
        ["yaml", "yml", "json"]
            .iter()
            .map(|ending| folder.join(name).with_extension(ending))
            .find(|path| path.is_file())
    };
    let [settings, node_pool, node_class, node_claim] = IN_FOLDER.map(find);
    let sources = Sources { settings, node_pool, node_class, node_claim, ..Sources::default() };
    if sources.is_empty() {
        let names = IN_FOLDER.map(|name| format!("{name}.yaml")).join(", ");
        return Err(Failure::file(folder, format_args!("it has none of {names}")));
    }
    Ok(sources)
}

/// One document as the only source beside the environment.
pub(super) fn of_document(document: &Document, sort: kiln_bootstrap::review::Sort) -> Result<Resolved, Failure> {
    use kiln_bootstrap::review::Sort;
    let said = match sort {
        Sort::NodePool => sources::node_pool(document).map(|layer| vec![layer]),
        Sort::NodeClaim => sources::node_claim(document).map(|layer| vec![layer]),
        Sort::NodeClass => sources::node_class(document, "amd64"),
        _ => sources::settings(document).map(|layer| vec![layer]),
    };
    let mut layers = said.map_err(|error| failure(&error))?;
    layers.push(sources::environment(&environment()).map_err(|error| failure(&error))?);
    Ok(resolve(&layers))
}
