//! `node.kiln.dev/v1alpha1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::describe::is_default;
use crate::hub::{self, Metadata, Signature};
use crate::spec::Spec;

/// The version, as documents name it.
pub const API_VERSION: &str = "node.kiln.dev/v1alpha1";

/// The kind, as documents name it.
pub const KIND: &str = "NodeConfig";

/// The document on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "crate::describe::is_default")]
    pub metadata: Metadata,
    /// What the node is to be.
    #[serde(default)]
    pub spec: Spec,
    /// Who vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

/// A document on its way to the wire.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written<'c> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'c Metadata>,
    spec: &'c Spec,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'c Signature>,
    #[serde(flatten)]
    extra: &'c BTreeMap<String, Value>,
}

impl<'c> Written<'c> {
    pub(crate) fn of(config: &'c hub::NodeConfig) -> Self {
        let hub::NodeConfig { metadata, spec, signature, extra } = config;
        let metadata = Some(metadata).filter(|metadata| !is_default(*metadata));
        Self { api_version: API_VERSION, kind: KIND, metadata, spec, signature: signature.as_ref(), extra }
    }

    /// What a signature vouches for.
    pub(crate) fn unsigned(config: &'c hub::NodeConfig) -> Self {
        Self { signature: None, ..Self::of(config) }
    }
}

impl From<NodeConfig> for hub::NodeConfig {
    fn from(document: NodeConfig) -> Self {
        let NodeConfig { api_version: _, kind: _, metadata, spec, signature, extra } = document;
        Self { metadata, spec, signature, extra }
    }
}

impl From<hub::NodeConfig> for NodeConfig {
    fn from(config: hub::NodeConfig) -> Self {
        let hub::NodeConfig { metadata, spec, signature, extra } = config;
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), metadata, spec, signature, extra }
    }
}
