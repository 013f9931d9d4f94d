//! Version `node.kiln.dev/v1alpha1` of the document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::describe::is_default;
use crate::spec::Spec;
use crate::{Metadata, Signature};

/// `apiVersion` of the document.
pub const API_VERSION: &str = "node.kiln.dev/v1alpha1";

/// `kind` of the document.
pub const KIND: &str = "NodeConfig";

/// The document as it is serialized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "crate::describe::is_default")]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

/// Borrowed form of [`NodeConfig`] for serialization.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeConfigRef<'c> {
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

impl<'c> From<&'c crate::NodeConfig> for NodeConfigRef<'c> {
    fn from(config: &'c crate::NodeConfig) -> Self {
        let crate::NodeConfig { metadata, spec, signature, extra } = config;
        let metadata = Some(metadata).filter(|metadata| !is_default(*metadata));
        Self { api_version: API_VERSION, kind: KIND, metadata, spec, signature: signature.as_ref(), extra }
    }
}

impl<'c> NodeConfigRef<'c> {
    /// The document without its signature, which the signature covers.
    pub(crate) fn unsigned(config: &'c crate::NodeConfig) -> Self {
        Self::signed(config, None)
    }

    /// The document with the statements of a signer, which the signature covers too.
    pub(crate) fn signed(config: &'c crate::NodeConfig, statements: Option<&'c Signature>) -> Self {
        Self { signature: statements, ..Self::from(config) }
    }
}

impl From<NodeConfig> for crate::NodeConfig {
    fn from(document: NodeConfig) -> Self {
        let NodeConfig { api_version: _, kind: _, metadata, spec, signature, extra } = document;
        Self { metadata, spec, signature, extra }
    }
}

impl From<crate::NodeConfig> for NodeConfig {
    fn from(config: crate::NodeConfig) -> Self {
        let crate::NodeConfig { metadata, spec, signature, extra } = config;
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), metadata, spec, signature, extra }
    }
}
