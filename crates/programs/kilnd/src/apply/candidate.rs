//! A candidate: a document that was received, decoded, validated, and whose signature was verified if the image requires one.

use std::time::Duration;

use kiln_node_config::{Binding, NodeConfig, ParseError, StatementError};
use kiln_node_plan::layout::{KEYS, SETTINGS};
use kiln_node_plan::{Admission, Generation, State};

use crate::apply::store;
use crate::node::Node;
use crate::os::{self, clock};
use crate::sources::{self, BadKey, DecodeError, Keys, SignatureError, VmId};

/// How much slower than the signer's a machine's clock may be.
const SKEW: Duration = Duration::from_mins(10);

/// A valid document that is not applied yet.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub config: NodeConfig,
    pub hash: String,
    /// Where it came from, as the status shows it.
    pub source: String,
    /// None if the image requires no signature.
    pub signed: Option<Signed>,
    /// Whether the cluster assigned it to this node by a NodeState.
    pub is_assigned: bool,
}

/// A verified signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The id of the key.
    pub by: String,
    /// The VM id of this machine; empty if it is unreadable.
    pub machine: String,
    /// The pool and cluster that it was signed for.
    pub binding: Binding,
}

/// An invalid document. No message quotes its content, which may contain a secret in the wrong field.
#[derive(Debug, thiserror::Error)]
pub enum CandidateError {
    #[error("cannot decode the document")]
    Decode(#[from] DecodeError),
    #[error("the document is invalid")]
    Parse(#[from] ParseError),
    #[error("the document's signature was not accepted")]
    Signature(#[from] SignatureError),
    #[error("the document's signature was not accepted")]
    Statement(#[from] StatementError),
    /// Without readable keys no signature can be verified.
    #[error("cannot read the signature keys of this image")]
    Keys(#[from] BadKey),
    /// Without readable settings the pool and the cluster of the image are unknown.
    #[error("cannot parse `{SETTINGS}`\nhint: rebuild the image")]
    Settings(#[source] serde_json::Error),
    #[error("generation {number} is older than the signed generation {by} that this machine has accepted")]
    Replayed { number: u64, by: u64 },
    #[error(transparent)]
    Os(#[from] os::Error),
}

impl Candidate {
    /// Decodes and validates a document.
    pub fn read(node: &Node, bytes: &[u8], source: &str) -> Result<Self, CandidateError> {
        let document = sources::decode(bytes)?.public()?;
        let config = NodeConfig::parse(&document)?;
        let keys = Keys::read(&node.root.path().join(KEYS.trim_start_matches('/')))?;
        let signed = match keys.check(&config)? {
            Some(by) => Some(check_statements(node, &config, by)?),
            None => None,
        };
        Ok(Self { hash: config.hash(), config, source: source.to_owned(), signed, is_assigned: false })
    }

    /// Marks the candidate as one that the cluster assigned to this node.
    #[must_use]
    pub fn into_assigned(mut self) -> Self {
        self.is_assigned = true;
        self
    }

    /// Whether this candidate may be applied. A signed document is never replayed, also if the cluster assigned it: the signature protects
    /// nodes from whoever can write to the API server.
    pub fn admission(&self, state: &State) -> Admission {
        let number = self.config.metadata.generation;
        match &self.signed {
            Some(signed) => state.admit_signed(&signed.machine, number, &self.hash),
            None if self.is_assigned => state.admit_assigned(&self.hash),
            None => state.admit(number, &self.hash),
        }
    }

    /// Puts this candidate in force in the state, on trial.
    pub fn start_trial(&self, state: &mut State, boot: &str) {
        if let Some(signed) = &self.signed {
            let number = self.config.metadata.generation;
            state.note_signed(&signed.machine, number, &self.hash, signed.binding.clone());
        }
        state.start_trial(self.generation(), boot);
    }

    /// The name of its folder. Folders sort by generation number; the hash distinguishes documents with the same number.
    pub fn folder(&self) -> String {
        let digits: String = self.hash.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        format!("{}-{digits}", self.config.metadata.generation)
    }

    /// The generation that this candidate becomes when it is accepted.
    pub fn generation(&self) -> Generation {
        Generation {
            number: self.config.metadata.generation,
            hash: self.hash.clone(),
            folder: self.folder(),
            source: self.source.clone(),
        }
    }
}

/// Checks what the signer stated. The node belongs to the pool and cluster that its image names, else to those of the first signed document
/// that it accepted.
fn check_statements(node: &Node, config: &NodeConfig, by: String) -> Result<Signed, CandidateError> {
    let signature = config.signature.clone().unwrap_or_default();
    let machine = sources::vm_id(&node.endpoints).ok().as_ref().map(VmId::as_str).unwrap_or_default().to_owned();
    let state = store::load(&node.root)?.state;
    let recorded = state.signed_by(&machine).map(|signed| signed.binding.clone()).unwrap_or_default();
    let image = match node.root.read_if_exists(SETTINGS)? {
        Some(bytes) => serde_json::from_slice::<Binding>(&bytes).map_err(CandidateError::Settings)?,
        None => Binding::default(),
    };
    let either = |image: String, recorded: String| if image.is_empty() { recorded } else { image };
    let expected =
        Binding { pool: either(image.pool, recorded.pool), cluster: either(image.cluster, recorded.cluster) };
    let now = clock::wall();
    signature.check_statements(&expected, &clock::rfc3339(now), &clock::rfc3339(now + SKEW))?;
    Ok(Signed { by, machine, binding: Binding { pool: signature.pool, cluster: signature.cluster } })
}
