//! Files: what should be at a path ([`DesiredFile`]) and what is or was there ([`FileState`]).

use std::fmt;

use kiln_node_config::Effect;
use serde::{Deserialize, Serialize};

use kiln_types::{SecretBytes, sha256_hex};

/// A file as it should be: content, permissions, owner, and the units to notify when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredFile {
    /// Relative to the generation's folder, or absolute for files elsewhere.
    pub path: String,
    pub content: FileContent,
    /// Ignored for a symbolic link.
    pub mode: u32,
    pub owner: Owner,
    pub affects: Vec<AffectedUnit>,
}

/// The content of a desired file.
#[derive(Clone, PartialEq, Eq)]
pub enum FileContent {
    Bytes(Vec<u8>),
    /// Written with mode `0600` at most; its hash is not recorded.
    Secret(SecretBytes),
    /// An initial content. Another program rewrites the file later with the same meaning, so kiln compares it with what it wrote last
    /// and not with what is on disk. Only root may read it.
    Seed(Vec<u8>),
    /// The target of a symbolic link.
    Link(String),
}

/// The state of a path, now or before kiln.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FileState {
    #[default]
    Absent,
    File {
        sha256: String,
        mode: u32,
        /// Numbers where the ids have no names.
        owner: Owner,
    },
    Link {
        target: String,
    },
    /// A folder, a device, a socket or a pipe.
    Other,
}

/// The owner and group of a file, each by name or number. Names are resolved with the root's own `passwd` and `group` files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub user: String,
    pub group: String,
}

/// A unit to reload or restart when a file changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedUnit {
    pub unit: String,
    /// `Reload` or `Restart`.
    pub effect: Effect,
}

/// Facts about the node that a comparison of a file needs besides the file itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// The hash of what kiln wrote there last.
    pub last: Option<&'a str>,
    /// Whether the node has joined. It does not read its join credential again then, so a different credential need not be written.
    pub joined: bool,
}

impl DesiredFile {
    /// A file of root's with a mode.
    pub fn new(path: impl Into<String>, content: impl Into<FileContent>, mode: u32) -> Self {
        Self { path: path.into(), content: content.into(), mode, owner: Owner::root(), affects: Vec::new() }
    }

    /// A file of root's that everyone may read.
    pub fn plain(path: impl Into<String>, content: impl Into<FileContent>) -> Self {
        Self::new(path, content, 0o644)
    }

    /// A file that only root may read.
    pub fn secret(path: impl Into<String>, bytes: SecretBytes) -> Self {
        Self::new(path, FileContent::Secret(bytes), 0o600)
    }

    /// A file that only root may read and that another program rewrites later.
    pub fn seed(path: impl Into<String>, text: String) -> Self {
        Self::new(path, FileContent::Seed(text.into_bytes()), 0o600)
    }

    /// A symbolic link.
    pub fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self::new(path, FileContent::Link(target.into()), 0o777)
    }

    /// The same file with another owner.
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The same file, restarting a unit when it changes.
    #[must_use]
    pub fn restarts(self, unit: &str) -> Self {
        self.affecting(unit, Effect::Restart)
    }

    /// The same file, reloading a unit when it changes.
    #[must_use]
    pub fn reloads(self, unit: &str) -> Self {
        self.affecting(unit, Effect::Reload)
    }

    fn affecting(mut self, unit: &str, effect: Effect) -> Self {
        self.affects.push(AffectedUnit { unit: unit.to_owned(), effect });
        self
    }
}

impl Owner {
    /// root:root.
    pub fn root() -> Self {
        Self::from_ids(0, 0)
    }

    /// An owner by numbers; 0 is written as `root`.
    pub fn from_ids(uid: u32, gid: u32) -> Self {
        let name = |id: u32| if id == 0 { "root".to_owned() } else { id.to_string() };
        Self { user: name(uid), group: name(gid) }
    }
}

impl FileContent {
    /// The bytes to write; the target for a link.
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

impl FileState {
    /// Whether content, permissions and owner are as desired.
    pub fn matches(&self, file: &DesiredFile, comparison: Comparison<'_>) -> bool {
        self.has_attributes(file) && self.has_content(file, comparison)
    }

    /// Whether permissions and owner are as desired.
    pub fn has_attributes(&self, file: &DesiredFile) -> bool {
        match self {
            Self::File { mode, owner, .. } => mode & 0o7777 == file.mode && *owner == file.owner,
            _ => true,
        }
    }

    /// Whether the content is as desired.
    pub fn has_content(&self, file: &DesiredFile, comparison: Comparison<'_>) -> bool {
        match (self, &file.content) {
            (Self::Link { target }, FileContent::Link(wanted)) => target == wanted,
            (Self::File { sha256, .. }, FileContent::Bytes(bytes)) => *sha256 == sha256_hex(bytes),
            (Self::File { .. }, content @ FileContent::Seed(_)) => content.sha256().as_deref() == comparison.last,
            (Self::File { sha256, .. }, FileContent::Secret(bytes)) => {
                comparison.joined || *sha256 == sha256_hex(bytes.expose())
            }
            _ => false,
        }
    }
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) | Self::Seed(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Secret(_) => f.write_str("***"),
            Self::Link(target) => write!(f, "-> {target}"),
        }
    }
}

impl<T: AsRef<[u8]>> From<T> for FileContent {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.as_ref().to_vec())
    }
}
