//! What need not be told because the cluster and the cloud say it. Each fact names the call that gave it; what was not found says which
//! call failed and what to set instead. Nothing is written anywhere.

mod azure_json;
mod cluster;
mod network;
mod objects;
mod places;

pub use azure_json::{AzureJsonFacts, BadAzureJson};
pub use objects::{KarpenterNames, KarpenterObjects, ObjectError, karpenter};

use std::error::Error as StdError;
use std::fmt;

use kiln_bootstrap::sources::{Fact, SourceError, detected};
use kiln_bootstrap::{Field, Kind, Layer, Resolved};
use kiln_kubernetes::{Cluster, ClusterOptions, Endpoint};
use kiln_types::{ResourceGroup, Sourced};

/// Where facts may come from. Each is optional: what is not there is not asked.
#[derive(Debug)]
pub struct Sources<'a, L> {
    /// The API server, by a kubeconfig or by its address alone.
    pub endpoint: Option<&'a Endpoint>,
    /// The cluster, as somebody who may read it.
    pub cluster: Option<&'a Cluster>,
    /// Without a cluster: how to ask for what anybody may read, once the certificate is pinned.
    pub anonymous: Option<ClusterOptions>,
    /// `sha256:` and the digest of a certificate that the API server may show.
    pub pin: Option<&'a str>,
    /// The resource group of the nodes.
    pub azure: Option<&'a L>,
    /// What a node of the cluster knows of its cloud.
    pub azure_json: Option<&'a AzureJsonFacts>,
}

impl<L> Default for Sources<'_, L> {
    fn default() -> Self {
        Self { endpoint: None, cluster: None, anonymous: None, pin: None, azure: None, azure_json: None }
    }
}

/// What was found, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    /// What was found.
    pub facts: Vec<Fact>,
    /// What was looked for and not found.
    pub misses: Vec<Miss>,
}

/// A fact that was looked for and not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    pub field: &'static str,
    /// Which call failed, or what its answer lacks.
    pub why: String,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` was not found: {}; ", self.field, self.why)?;
        let Ok(field) = Field::named(self.field) else { return f.write_str("it cannot be set") };
        let kinds: Vec<String> =
            field.kinds.iter().filter(|kind| **kind != Kind::Detected).map(ToString::to_string).collect();
        write!(f, "set it by {}", kinds.join(" or "))?;
        match field.reads.first() {
            Some(variable) => write!(f, " (`{}`, or ${variable})", self.field),
            None => write!(f, " (`{}`)", self.field),
        }
    }
}

/// Looks for all that can be found.
pub async fn settings<L: ResourceGroup>(sources: &Sources<'_, L>) -> Detected {
    let mut found = Detected::default();
    cluster::look(sources, &mut found).await;
    if let Some(file) = sources.azure_json {
        file.tell(&mut found);
    }
    if let Some(azure) = sources.azure {
        places::look(azure, &mut found).await;
    }
    found
}

impl Detected {
    /// The layer of what was found: the weakest but for the program's own values.
    pub fn layer(&self) -> Result<Layer, SourceError> {
        detected(&self.facts)
    }

    /// The misses that matter: nobody said a value for the field either.
    pub fn unmet(&self, resolved: &Resolved) -> Vec<&Miss> {
        let said = |field: &str| {
            resolved.get(field).is_some_and(|value| !matches!(value.kind, Kind::Hardcoded(_) | Kind::Computed))
        };
        self.misses.iter().filter(|miss| !said(miss.field)).collect()
    }

    fn fact(&mut self, field: &'static str, text: impl Into<String>, call: impl Into<String>) {
        self.facts.push(Fact { field, text: text.into(), call: call.into() });
    }

    fn miss(&mut self, field: &'static str, why: impl Into<String>) {
        self.misses.push(Miss { field, why: why.into() });
    }

    fn has(&self, field: &str) -> bool {
        self.facts.iter().any(|fact| fact.field == field)
    }

    /// A fact of an answer, or the miss of its error.
    fn take<E: StdError>(&mut self, field: &'static str, answer: Result<Sourced<String>, E>) {
        match answer {
            Ok(Sourced { value, call }) => self.fact(field, value, call),
            Err(error) => self.miss(field, said(&error)),
        }
    }
}

/// An error with its causes, where they say more than it does.
fn said(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let cause = inner.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kiln_bootstrap::{Place, resolve};

    use super::*;

    #[test]
    fn a_miss_says_which_call_failed_and_what_to_set_instead() {
        let miss = Miss { field: "dnsServiceIp", why: "GET /x: 403 forbidden".to_owned() };
        assert_eq!(
            miss.to_string(),
            "`dnsServiceIp` was not found: GET /x: 403 forbidden; set it by environment or settings (`dnsServiceIp`, or \
             $DNS_SERVICE_IP)"
        );
        let miss = Miss { field: "caBundle", why: "w".to_owned() };
        assert_eq!(miss.to_string(), "`caBundle` was not found: w; set it by settings (`caBundle`)");
    }

    #[test]
    fn a_miss_does_not_matter_where_somebody_said_a_value() {
        let mut found = Detected::default();
        found.miss("dnsServiceIp", "w");
        assert_eq!(found.unmet(&resolve(&[])).len(), 1);
        let mut layer = Layer::new(Kind::Settings);
        layer.set("dnsServiceIp", "10.1.0.10".into(), Place::Program).unwrap();
        assert_eq!(found.unmet(&resolve(&[layer])).len(), 0);
    }

    #[test]
    fn what_was_found_loses_to_what_was_said_and_is_shown_beside_it() {
        let mut found = Detected::default();
        found.fact("dnsServiceIp", "10.2.0.10", "GET /dns");
        let mut layer = Layer::new(Kind::Settings);
        layer.set("dnsServiceIp", "10.1.0.10".into(), Place::Program).unwrap();
        let resolved = resolve(&[layer, found.layer().unwrap()]);
        let explained = resolved.explain().into_iter().find(|line| line.field == "dnsServiceIp").unwrap();
        assert_eq!(explained.value, "10.1.0.10");
        assert_eq!(
            (explained.overrode[0].value.as_str(), explained.overrode[0].place.as_str()),
            (Some("10.2.0.10"), "GET /dns")
        );
    }
}
