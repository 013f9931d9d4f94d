//! Detecting settings from the cluster and the cloud. Nothing is written.
//!
//! Each fact has the request that returned it. A setting that was not found has the failed request and the option to set instead.

mod azure_json;
mod cluster;
mod network;
mod objects;
mod resource_group;

pub use azure_json::{AzureJsonFacts, BadAzureJson};
pub use objects::{KarpenterNames, KarpenterObjects, ObjectError, karpenter};

use std::fmt;

use kiln_bootstrap::sources::{Fact, SourceError, detected};
use kiln_bootstrap::{Field, Resolved, Source, SourceKind};
use kiln_kubernetes::{Cluster, ClusterOptions, Endpoint};
use kiln_types::error_chain::to_line;
use kiln_types::{ResourceGroup, Sourced};

/// The sources of facts. All are optional.
#[derive(Debug)]
pub struct Sources<'a, L> {
    /// The API server, from a kubeconfig or by its address.
    pub endpoint: Option<&'a Endpoint>,
    /// The cluster, with credentials.
    pub cluster: Option<&'a Cluster>,
    /// Options for anonymous requests, for a cluster without credentials whose certificate is pinned.
    pub anonymous: Option<ClusterOptions>,
    /// `sha256:` and the digest of a trusted certificate.
    pub pin: Option<&'a str>,
    /// The resource group of the nodes.
    pub azure: Option<&'a L>,
    pub azure_json: Option<&'a AzureJsonFacts>,
}

impl<L> Default for Sources<'_, L> {
    fn default() -> Self {
        Self { endpoint: None, cluster: None, anonymous: None, pin: None, azure: None, azure_json: None }
    }
}

/// The result of a detection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    pub facts: Vec<Fact>,
    pub misses: Vec<Miss>,
}

/// A setting that was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    pub field: &'static str,
    /// The failed request, or what its response lacks.
    pub reason: String,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` was not found: {}; ", self.field, self.reason)?;
        let Ok(field) = Field::named(self.field) else { return f.write_str("it cannot be set") };
        let kinds: Vec<String> =
            field.kinds.iter().filter(|kind| **kind != SourceKind::Detected).map(ToString::to_string).collect();
        write!(f, "set it in {}", kinds.join(" or "))?;
        match field.reads.first() {
            Some(variable) => write!(f, " (`{}`, or ${variable})", self.field),
            None => write!(f, " (`{}`)", self.field),
        }
    }
}

/// Detects all settings.
pub async fn settings<L: ResourceGroup>(sources: &Sources<'_, L>) -> Detected {
    let mut found = Detected::default();
    cluster::detect(sources, &mut found).await;
    if let Some(file) = sources.azure_json {
        file.add_to(&mut found);
    }
    if let Some(azure) = sources.azure {
        resource_group::detect(azure, &mut found).await;
    }
    found
}

impl Detected {
    /// The detected values as a source. Only hardcoded values have lower precedence.
    pub fn to_source(&self) -> Result<Source, SourceError> {
        detected(&self.facts)
    }

    /// The settings that were neither detected nor set.
    pub fn unmet(&self, resolved: &Resolved) -> Vec<&Miss> {
        let is_set = |field: &str| {
            resolved
                .get(field)
                .is_some_and(|value| !matches!(value.kind, SourceKind::Hardcoded(_) | SourceKind::Computed))
        };
        self.misses.iter().filter(|miss| !is_set(miss.field)).collect()
    }

    fn fact(&mut self, field: &'static str, text: impl Into<String>, call: impl Into<String>) {
        self.facts.push(Fact { field, text: text.into(), call: call.into() });
    }

    fn miss(&mut self, field: &'static str, reason: impl Into<String>) {
        self.misses.push(Miss { field, reason: reason.into() });
    }

    fn has(&self, field: &str) -> bool {
        self.facts.iter().any(|fact| fact.field == field)
    }

    /// Adds a fact from a response, or a miss from an error.
    fn add<E: std::error::Error>(&mut self, field: &'static str, response: Result<Sourced<String>, E>) {
        match response {
            Ok(Sourced { value, call }) => self.fact(field, value, call),
            Err(error) => self.miss(field, to_line(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_bootstrap::{SourcePosition, resolve};

    use super::*;

    #[test]
    fn miss_shows_the_failed_request_and_the_setting() {
        let miss = Miss { field: "dnsServiceIp", reason: "GET /x: 403 forbidden".to_owned() };
        assert_eq!(
            miss.to_string(),
            "`dnsServiceIp` was not found: GET /x: 403 forbidden; set it in environment or settings (`dnsServiceIp`, or \
             $DNS_SERVICE_IP)"
        );
        let miss = Miss { field: "caBundle", reason: "w".to_owned() };
        assert_eq!(miss.to_string(), "`caBundle` was not found: w; set it in settings (`caBundle`)");
    }

    #[test]
    fn miss_is_ignored_if_the_setting_has_a_value() {
        let mut found = Detected::default();
        found.miss("dnsServiceIp", "w");
        assert_eq!(found.unmet(&resolve(&[])).len(), 1);
        let mut layer = Source::new(SourceKind::Settings);
        layer.set("dnsServiceIp", "10.1.0.10".into(), SourcePosition::Program).unwrap();
        assert_eq!(found.unmet(&resolve(&[layer])).len(), 0);
    }

    #[test]
    fn set_value_overrides_the_detected_one_which_is_still_shown() {
        let mut found = Detected::default();
        found.fact("dnsServiceIp", "10.2.0.10", "GET /dns");
        let mut layer = Source::new(SourceKind::Settings);
        layer.set("dnsServiceIp", "10.1.0.10".into(), SourcePosition::Program).unwrap();
        let resolved = resolve(&[layer, found.to_source().unwrap()]);
        let explained = resolved.explain().into_iter().find(|line| line.field == "dnsServiceIp").unwrap();
        assert_eq!(explained.value, "10.1.0.10");
        assert_eq!(
            (explained.overrode[0].value.as_str(), explained.overrode[0].position.as_str()),
            (Some("10.2.0.10"), "GET /dns")
        );
    }
}
