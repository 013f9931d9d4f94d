//! A NodeConfig document from a file, and its object in the cluster.

use std::path::Path;

use kiln_bootstrap::Document;
use kiln_bootstrap::review::{FileKind, review};
use kiln_fleet_api as api;
use kiln_node_config::{NodeConfig, canonical};
use kube::ResourceExt as _;

use super::{CREATED_BY, Session, failure};
use crate::bootstrap::files;
use crate::failure::{Failure, chain};

/// Digits of the digest in names.
const SHORT: usize = 8;
/// Longest part of a name that comes from the document: a name in the cluster has at most 253 characters, and others are appended.
const LONGEST: usize = 200;

/// A valid document.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: NodeConfig,
    /// Canonical JSON, with the signature.
    pub(crate) text: String,
    pub(crate) digest: String,
}

/// Reads a document in YAML or JSON. All problems are reported with line and column; a document with a secret is refused.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failure> {
    let (file, text) = (path.display().to_string(), files::text(path)?);
    let review = review(&file, &text, Some(FileKind::NodeConfig));
    let (warnings, errors): (Vec<_>, Vec<_>) = review.findings.iter().partition(|finding| finding.warning);
    if !errors.is_empty() {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(Failure::input(lines.join("\nerror: ")));
    }
    for warning in warnings {
        eprintln!("{warning}");
    }
    let document = Document::read(&file, &text).map_err(Failure::input)?;
    let json = document.value().to_string();
    let config = NodeConfig::parse(json.as_bytes()).map_err(|error| Failure::file(path, chain(&error)))?;
    Ok(Loaded { text: config.to_json(), digest: config.hash(), config })
}

/// The name of the object of a document: its own name, and the first digits of its digest.
pub(crate) fn object_name(document: &Loaded) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let name: String = document.config.metadata.name.chars().map(plain).take(LONGEST).collect();
    // Each part of a name between dots starts and ends with a letter or digit.
    let parts: Vec<&str> = name.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    let name = if parts.is_empty() { "node-config".to_owned() } else { parts.join(".") };
    format!("{name}-{}", short(&document.digest, SHORT))
}

/// The first digits of a digest.
pub(crate) fn short(digest: &str, digits: usize) -> &str {
    digest.get(..digits).unwrap_or(digest)
}

/// The object of a document in the cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) digest: String,
    /// Whether it did not exist before.
    pub(crate) created: bool,
}

/// Creates the object of a document, or finds it. An object with the same digest and another signature cannot be changed, so the document gets a second one.
pub(crate) async fn store(session: &Session, document: &Loaded, dry_run: bool) -> Result<Stored, Failure> {
    let first = object_name(document);
    let second = format!("{first}-{}", short(&canonical::hash(&document.text), SHORT));
    for name in [&first, &second] {
        let stored = |created| Stored { name: name.clone(), digest: document.digest.clone(), created };
        match session.fleet.get::<api::NodeConfig>(name).await.map_err(failure)? {
            None => {
                session.fleet.create(&object(session, name, document), dry_run).await.map_err(failure)?;
                return Ok(stored(true));
            }
            Some(existing) if existing.spec.document == document.text => return Ok(stored(false)),
            Some(existing) => match parse(&existing) {
                // Written by hand, with other blanks or another order.
                Ok(config) if config == document.config => return Ok(stored(false)),
                Ok(config) if config.hash() == document.digest => {}
                _ => return Err(conflict(name)),
            },
        }
    }
    Err(conflict(&second))
}

fn conflict(name: &str) -> Failure {
    Failure::failed(format_args!("NodeConfig `{name}` exists with another document"))
        .hint(format_args!("change `metadata.name` in the file, or delete the object with `kubectl delete knc {name}`"))
}

fn object(session: &Session, name: &str, document: &Loaded) -> api::NodeConfig {
    let mut object = api::NodeConfig::new(name, api::NodeConfigSpec { document: document.text.clone() });
    object.annotations_mut().insert(CREATED_BY.to_owned(), session.who.clone());
    object
}

/// Parses the document of an object.
pub(crate) fn parse(object: &api::NodeConfig) -> Result<NodeConfig, Failure> {
    NodeConfig::parse(object.spec.document.as_bytes()).map_err(|error| {
        Failure::failed(format_args!("NodeConfig `{}` has an invalid document: {}", object.name_any(), chain(&error)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> String {
        let mut config = NodeConfig::default();
        name.clone_into(&mut config.metadata.name);
        object_name(&Loaded { config, text: String::new(), digest: "0123456789abcdef".to_owned() })
    }

    #[test]
    fn object_is_named_after_the_document_and_its_digest() {
        assert_eq!(named("web"), "web-01234567");
        assert_eq!(named("Web Pool_1"), "web-pool-1-01234567");
        assert_eq!(named("-web-.-.eu."), "web.eu-01234567");
        assert_eq!(named(""), "node-config-01234567");
        assert!(named(&"x".repeat(400)).len() < 240);
    }
}
