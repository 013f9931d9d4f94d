//! A document that somebody offers: taken out of its wrapping, read, checked, and vouched for where the image asks for that.

use crate::os::Root;
use crate::sources::{BadKey, DecodeError, Keys, SignatureError};
use kiln_node_config::{NodeConfig, ParseError};
use kiln_node_plan::layout::KEYS;

/// A document that could be applied.
#[derive(Clone, Debug)]
pub struct Offered {
    pub config: NodeConfig,
    pub hash: String,
    /// Where it came from, as the status says it.
    pub source: String,
    /// The key that vouches for it, where one is asked for.
    pub signed_by: Option<String>,
}

/// A document that is not taken. Nothing of its content is said that could be a secret in the wrong place.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// It is wrapped in a way that is not known, damaged, or too long.
    #[error("the document cannot be unwrapped")]
    Decode(#[from] DecodeError),
    /// It cannot be read, or says what cannot be.
    #[error("the document is refused")]
    Parse(#[from] ParseError),
    /// Nobody trusted vouches for it.
    #[error("the document is refused")]
    Signature(#[from] SignatureError),
    /// The image's keys cannot be read, so nobody can vouch for anything.
    #[error("no document is taken, since the keys of this image cannot be read")]
    Keys(#[from] BadKey),
}

impl Offered {
    /// Takes a document out of its wrapping, reads and checks it.
    pub fn read(root: &Root, bytes: &[u8], source: &str) -> Result<Self, NotTaken> {
        let document = crate::sources::decode(bytes)?.public()?;
        let config = NodeConfig::parse(&document)?;
        let keys = Keys::read(&root.path().join(KEYS.trim_start_matches('/')))?;
        let signed_by = keys.check(&config)?;
        Ok(Self { hash: config.hash(), config, source: source.to_owned(), signed_by })
    }

    /// The name of its folder: generations sort by their number, and two documents with one number are told apart.
    pub fn folder(&self) -> String {
        let digits: String = self.hash.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        format!("{}-{digits}", self.config.metadata.generation)
    }
}
