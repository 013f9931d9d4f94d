//! A file that a document asks for.

use std::fmt;

use kiln_api::Effect;
use serde::{Deserialize, Serialize};

use crate::custom_data::{SecretBytes, sha256_hex};

/// A file that a document asks for, with everything that must hold of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its path: inside the generation's folder, or absolute for files elsewhere.
    pub path: String,
    /// What is in it.
    pub content: Content,
    /// Its permissions.
    pub mode: u32,
    /// Its owner and group, by name; the node's own files say who has which number.
    pub owner: Owner,
    /// Who must hear of a change.
    pub affects: Vec<Affect>,
}

/// What is in a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// This.
    Bytes(Vec<u8>),
    /// This, which nobody else may see: the file is `0600` at most, and its hash is not recorded.
    Secret(SecretBytes),
}

/// Who owns a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: String,
    /// The group.
    pub group: String,
}

/// Who must hear of a change, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affect {
    /// The unit.
    pub unit: String,
    /// `Reload` or `Restart`.
    pub effect: Effect,
}

impl Owner {
    /// The superuser.
    pub fn root() -> Self {
        Self { user: "root".to_owned(), group: "root".to_owned() }
    }
}

impl Content {
    /// The bytes, to be written.
    pub fn expose(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Secret(bytes) => bytes.expose(),
        }
    }

    /// SHA-256 in hexadecimal digits; none for a secret.
    pub fn sha256(&self) -> Option<String> {
        match self {
            Self::Bytes(bytes) => Some(sha256_hex(bytes)),
            Self::Secret(_) => None,
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Secret(_) => f.write_str("***"),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}
