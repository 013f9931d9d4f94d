//! A candidate: a document that was received, decoded, validated, and whose signature was verified if the image requires one.

use kiln_node_config::{NodeConfig, ParseError};
use kiln_node_plan::Generation;
use kiln_node_plan::layout::KEYS;

use crate::os::Root;
use crate::sources::{self, BadKey, DecodeError, Keys, SignatureError};

/// A valid document that is not applied yet.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub config: NodeConfig,
    pub hash: String,
    /// Where it came from, as the status shows it.
    pub source: String,
    /// The id of the key that signed it; none if the image requires no signature.
    pub signed_by: Option<String>,
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
    /// Without readable keys no signature can be verified.
    #[error("cannot read the signature keys of this image")]
    Keys(#[from] BadKey),
}

impl Candidate {
    /// Decodes and validates a document.
    pub fn read(root: &Root, bytes: &[u8], source: &str) -> Result<Self, CandidateError> {
        let document = sources::decode(bytes)?.public()?;
        let config = NodeConfig::parse(&document)?;
        let keys = Keys::read(&root.path().join(KEYS.trim_start_matches('/')))?;
        let signed_by = keys.check(&config)?;
        Ok(Self { hash: config.hash(), config, source: source.to_owned(), signed_by })
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
