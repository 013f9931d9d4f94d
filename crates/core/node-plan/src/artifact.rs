//! A file that a document asks for.

use std::fmt;

use kiln_node_config::Effect;
use serde::{Deserialize, Serialize};

use kiln_types::{SecretBytes, sha256_hex};

/// A file that a document asks for, with everything that must hold of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its path: inside the generation's folder, or absolute for files elsewhere.
    pub path: String,
    /// What is in it.
    pub content: Content,
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
    /// This to begin with. Somebody else writes the file anew later, with the same meaning, so it is compared with what kiln wrote
    /// last and not with what is there. Nobody else may see it.
    Seed(Vec<u8>),
    /// A symbolic link to there. It has no permissions of its own.
    Link(String),
}

/// Who owns a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub user: String,
    pub group: String,
}

/// Who must hear of a change, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affect {
    pub unit: String,
    /// `Reload` or `Restart`.
    pub effect: Effect,
}

impl Artifact {
    /// A file of the superuser that everybody may read.
    pub fn plain(path: impl Into<String>, content: impl Into<Content>) -> Self {
        Self { path: path.into(), content: content.into(), mode: 0o644, owner: Owner::root(), affects: Vec::new() }
    }

    /// A file that only the superuser reads.
    pub fn secret(path: impl Into<String>, bytes: SecretBytes) -> Self {
        Self { mode: 0o600, ..Self::plain(path, Content::Secret(bytes)) }
    }

    /// A file that only the superuser reads, and that somebody else writes anew later.
    pub fn seed(path: impl Into<String>, text: String) -> Self {
        Self { mode: 0o600, ..Self::plain(path, Content::Seed(text.into_bytes())) }
    }

    /// A symbolic link.
    pub fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self { mode: 0o777, ..Self::plain(path, Content::Link(target.into())) }
    }

    /// The same, with a unit that restarts when it changes.
    #[must_use]
    pub fn restarts(self, unit: &str) -> Self {
        self.affecting(unit, Effect::Restart)
    }

    /// The same, with a unit that reads its files again when it changes.
    #[must_use]
    pub fn reloads(self, unit: &str) -> Self {
        self.affecting(unit, Effect::Reload)
    }

    fn affecting(mut self, unit: &str, effect: Effect) -> Self {
        self.affects.push(Affect { unit: unit.to_owned(), effect });
        self
    }
}

impl Owner {
    /// The superuser.
    pub fn root() -> Self {
        Self { user: "root".to_owned(), group: "root".to_owned() }
    }
}

impl Content {
    /// The bytes to be written; for a link its target.
    pub fn expose(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) | Self::Seed(bytes) => bytes,
            Self::Secret(bytes) => bytes.expose(),
            Self::Link(target) => target.as_bytes(),
        }
    }

    /// SHA-256 in hexadecimal digits; none for a secret or a link.
    pub fn sha256(&self) -> Option<String> {
        match self {
            Self::Bytes(bytes) | Self::Seed(bytes) => Some(sha256_hex(bytes)),
            Self::Secret(_) | Self::Link(_) => None,
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) | Self::Seed(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Secret(_) => f.write_str("***"),
            Self::Link(target) => write!(f, "-> {target}"),
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}
