//! What is on the machine, as far as a plan needs to know.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::{Artifact, Content, Owner};
use crate::desired::{Account, Desired, Late};
use crate::layout;
use crate::manifest::Manifest;
use kiln_types::sha256_hex;

/// What is on the machine. What nobody looked for is taken as absent.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Files by absolute paths.
    pub files: BTreeMap<String, Seen>,
    /// Whole texts of files that kiln has a part of.
    pub texts: BTreeMap<String, String>,
    /// Settings of the kernel by their files, as they read. One that the kernel does not have is not here.
    pub settings: BTreeMap<String, String>,
    /// Whether pods are kept from the metadata service.
    pub blocks_metadata: bool,
    /// The host name.
    pub host_name: String,
    /// Accounts by name.
    pub accounts: BTreeMap<String, Account>,
    /// Units that start by themselves, and those that do not.
    pub enabled: BTreeMap<String, bool>,
    /// Swap files in use, in MiB.
    pub swap: BTreeMap<String, u64>,
    /// Paths that something is mounted on.
    pub mounts: BTreeSet<String>,
    /// Whether the root file system fills its disk.
    pub root_grown: bool,
    /// What the kernel was started with; nothing where nobody looked.
    pub command_line: Option<String>,
    /// What the generation in force changed, together with one that was cut off on its way ([`Manifest::merge`]).
    pub manifest: Option<Manifest>,
}

/// What is at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    #[default]
    Absent,
    File {
        /// The hash of its content.
        sha256: String,
        mode: u32,
        /// Its owner and group; numbers where they have no names.
        owner: Owner,
    },
    /// A symbolic link.
    Link {
        /// Where to.
        target: String,
    },
    /// Something else: a folder, a device.
    Other,
}

/// What a plan needs to know of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Files to look at, absolute.
    pub files: BTreeSet<String>,
    /// Files to read as a whole.
    pub texts: BTreeSet<String>,
    /// Settings to read.
    pub settings: BTreeSet<String>,
    /// Accounts to look up.
    pub accounts: BTreeSet<String>,
    /// Units whose state of start is asked.
    pub enabled: BTreeSet<String>,
    /// Whether it is asked if pods are kept from the metadata service.
    pub metadata: bool,
}

impl Questions {
    /// The questions of a plan to a desired state, from what the generation before remembers.
    pub fn of(desired: &Desired, manifest: Option<&Manifest>) -> Self {
        let own = desired.files.iter().map(|file| layout::current(&file.path));
        let outside = desired.outside().map(|file| file.path.clone());
        let mut questions = Self {
            files: own.chain(outside).collect(),
            texts: desired.blocks.iter().map(|block| block.path.clone()).collect(),
            settings: desired.kernel.iter().map(|setting| setting.path.clone()).collect(),
            accounts: desired.accounts.iter().map(|account| account.name.clone()).collect(),
            enabled: BTreeSet::new(),
            metadata: desired.block_metadata,
        };
        questions.enabled.extend(desired.late.iter().filter_map(|late| match late {
            Late::Enabled { unit, .. } => Some(unit.clone()),
            _ => None,
        }));
        if let Some(manifest) = manifest {
            questions.files.extend(manifest.elsewhere.keys().cloned());
            questions.settings.extend(manifest.settings.keys().cloned());
            questions.accounts.extend(manifest.accounts.iter().cloned());
            questions.enabled.extend(manifest.enabled.keys().cloned());
        }
        questions
    }
}

/// What a file is compared with besides what it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Against<'a> {
    /// The hash of what kiln wrote there last.
    pub last: Option<&'a str>,
    /// Whether the node has joined. Then it does not look at what it joined with again, and another credential is no reason to write.
    pub joined: bool,
}

impl Seen {
    /// Whether a file is as it should be.
    pub fn is(&self, artifact: &Artifact, against: Against<'_>) -> bool {
        self.is_like(artifact) && self.holds(artifact, against)
    }

    /// Whether a file has the permissions and the owner that it should have.
    pub fn is_like(&self, artifact: &Artifact) -> bool {
        match self {
            Self::File { mode, owner, .. } => mode & 0o7777 == artifact.mode && *owner == artifact.owner,
            _ => true,
        }
    }

    /// Whether a file has the content that it should have.
    pub fn holds(&self, artifact: &Artifact, against: Against<'_>) -> bool {
        match (self, &artifact.content) {
            (Self::Link { target }, Content::Link(wanted)) => target == wanted,
            (Self::File { sha256, .. }, Content::Bytes(bytes)) => *sha256 == sha256_hex(bytes),
            (Self::File { .. }, content @ Content::Seed(_)) => content.sha256().as_deref() == against.last,
            (Self::File { sha256, .. }, Content::Secret(bytes)) => {
                against.joined || *sha256 == sha256_hex(bytes.expose())
            }
            _ => false,
        }
    }
}

impl Observed {
    /// What is at a path.
    pub fn seen(&self, path: &str) -> &Seen {
        self.files.get(path).unwrap_or(&Seen::Absent)
    }
}
