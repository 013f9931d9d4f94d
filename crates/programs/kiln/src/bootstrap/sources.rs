//! Options that name the sources of configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use kiln_bootstrap::review::FileKind;
use kiln_bootstrap::sources::{self, SourceError};
use kiln_bootstrap::{Document, Resolved, Source, resolve};

use super::files;
use crate::failure::Failure;

/// Sources of values in addition to environment variables.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sources {
    /// Global settings: a map of fields, or Karpenter's `ConfigMap`
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) settings: Option<PathBuf>,
    /// Karpenter's `NodePool`
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) node_pool: Option<PathBuf>,
    /// Karpenter's `AKSNodeClass`
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) node_class: Option<PathBuf>,
    /// Karpenter's `NodeClaim`, which overrides its pool
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    pub(crate) node_claim: Option<PathBuf>,
    /// Set a field with the highest precedence that it allows
    #[arg(long, value_name = "FIELD=VALUE", help_heading = "Sources")]
    pub(crate) set: Vec<String>,
}

impl Sources {
    /// Whether no option is set.
    pub(super) fn is_empty(&self) -> bool {
        let files = [&self.settings, &self.node_pool, &self.node_class, &self.node_claim];
        self.set.is_empty() && files.iter().all(|file| file.is_none())
    }

    /// Resolves all sources.
    pub(super) fn resolve(&self) -> Result<Resolved, Failure> {
        Ok(resolve(&self.read()?))
    }

    /// Reads all sources, and reports the errors of all of them at once.
    pub(crate) fn read(&self) -> Result<Vec<Source>, Failure> {
        let mut errors = Vec::new();
        let mut all = Vec::new();
        let mut add = |result: Result<Vec<Source>, SourceError>| match result {
            Ok(sources) => all.extend(sources),
            Err(error) => errors.push(error),
        };
        add(sources::environment(&environment()).map(|source| vec![source]));
        let document = |path: &Option<PathBuf>| path.as_deref().map(files::document).transpose();
        if let Some(document) = document(&self.settings)? {
            add(sources::settings(&document).map(|source| vec![source]));
        }
        if let Some(document) = document(&self.node_pool)? {
            add(sources::node_pool(&document).map(|source| vec![source]));
        }
        if let Some(document) = document(&self.node_claim)? {
            add(sources::node_claim(&document).map(|source| vec![source]));
        }
        add(sources::arguments(&self.set));
        if let Some(class) = document(&self.node_class)? {
            // The image of the class depends on the architecture, which pool, claim and arguments set.
            let arch = resolve(&all).text("arch").to_owned();
            match sources::node_class(&class, &arch) {
                // The class goes before the arguments, because the last source of a kind wins.
                Ok(class) => all.splice(0..0, class).for_each(drop),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(all) } else { Err(failure(&SourceError::Several(errors))) }
    }
}

/// Formats each error on its own line.
fn failure(error: &SourceError) -> Failure {
    let lines: Vec<String> = error.each().into_iter().map(ToString::to_string).collect();
    Failure::input(lines.join("\nerror: "))
}

/// Returns the environment variables that are UTF-8.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect()
}

/// File names of the sources in a folder.
const IN_FOLDER: [&str; 4] = ["settings", "node-pool", "node-class", "node-claim"];

/// Finds the sources in a folder: `settings.yaml`, `node-pool.yaml`, `node-class.yaml`, `node-claim.yaml`, or with `.yml` or `.json`.
pub(super) fn from_folder(folder: &std::path::Path) -> Result<Sources, Failure> {
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
        return Err(Failure::file(folder, format_args!("the folder contains none of {names}")));
    }
    Ok(sources)
}

/// Resolves a single document together with the environment variables.
pub(super) fn resolve_document(document: &Document, kind: FileKind) -> Result<Resolved, Failure> {
    let result = match kind {
        FileKind::NodePool => sources::node_pool(document).map(|source| vec![source]),
        FileKind::NodeClaim => sources::node_claim(document).map(|source| vec![source]),
        FileKind::NodeClass => sources::node_class(document, "amd64"),
        _ => sources::settings(document).map(|source| vec![source]),
    };
    let mut all = result.map_err(|error| failure(&error))?;
    all.push(sources::environment(&environment()).map_err(|error| failure(&error))?);
    Ok(resolve(&all))
}
