//! The observed state of a machine, as far as a plan needs it.

use std::collections::{BTreeMap, BTreeSet};

use crate::cloud_service::CloudService;
use crate::desired::{Account, Deferred, Desired};
use crate::file::FileState;
use crate::layout;
use crate::manifest::Manifest;

/// The observed state of a machine. Whatever was not observed counts as absent.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Files by absolute paths.
    pub files: BTreeMap<String, FileState>,
    /// Texts of the files in which kiln manages a block.
    pub texts: BTreeMap<String, String>,
    /// Kernel settings by path, as read. A setting that the kernel does not have is missing.
    pub settings: BTreeMap<String, String>,
    /// Services of the cloud from which pods are blocked.
    pub blocked: BTreeSet<CloudService>,
    pub host_name: String,
    /// Accounts by name.
    pub accounts: BTreeMap<String, Account>,
    /// Whether each unit is enabled.
    pub enabled: BTreeMap<String, bool>,
    /// Sizes of the swap files in use, in MiB.
    pub swap: BTreeMap<String, u64>,
    /// Mount points.
    pub mounts: BTreeSet<String>,
    /// Whether the root file system fills its disk.
    pub root_grown: bool,
    /// The kernel command line; none if it was not read.
    pub command_line: Option<String>,
    /// The changes of the generation in force, merged with an interrupted one ([`Manifest::merge`]).
    pub manifest: Option<Manifest>,
}

/// The files, accounts and units to observe before a plan can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToObserve {
    /// Absolute paths whose [`FileState`] is needed.
    pub files: BTreeSet<String>,
    /// Files whose text is needed.
    pub texts: BTreeSet<String>,
    pub settings: BTreeSet<String>,
    pub accounts: BTreeSet<String>,
    /// Units whose enablement is needed.
    pub enabled: BTreeSet<String>,
    /// Services for which to check that pods are blocked.
    pub blocked: BTreeSet<CloudService>,
}

impl ToObserve {
    /// The observations that a plan for `desired` needs; `manifest` is the one of the previous generation.
    pub fn new(desired: &Desired, manifest: Option<&Manifest>) -> Self {
        let own = desired.files.iter().map(|file| layout::current(&file.path));
        let outside = desired.outside().map(|file| file.path.clone());
        let mut all = Self {
            files: own.chain(outside).collect(),
            texts: desired.blocks.iter().map(|block| block.path.clone()).collect(),
            settings: desired.kernel.iter().map(|setting| setting.path.clone()).collect(),
            accounts: desired.accounts.iter().map(|account| account.name.clone()).collect(),
            enabled: BTreeSet::new(),
            blocked: desired.blocked.clone(),
        };
        all.enabled.extend(desired.deferred.iter().filter_map(|deferred| match deferred {
            Deferred::Enabled { unit, .. } => Some(unit.clone()),
            _ => None,
        }));
        if let Some(manifest) = manifest {
            all.files.extend(manifest.elsewhere.keys().cloned());
            all.settings.extend(manifest.settings.keys().cloned());
            all.accounts.extend(manifest.accounts.iter().cloned());
            all.enabled.extend(manifest.enabled.keys().cloned());
        }
        all
    }
}

impl Observed {
    /// The state of a path.
    pub fn file(&self, path: &str) -> &FileState {
        self.files.get(path).unwrap_or(&FileState::Absent)
    }
}
