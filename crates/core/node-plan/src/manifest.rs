//! What a generation changed outside its folder, and what stood there before kiln: enough to put everything back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::artifact::{Affect, Artifact, Owner};
use crate::desired::{Desired, Late};
use crate::layout;
use crate::observed::{Observed, Seen};

/// The file [`layout::MANIFEST`] of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    /// Files of the folder with the hashes of what was written; secrets and links without.
    pub files: BTreeMap<String, Option<String>>,
    /// Files elsewhere.
    pub elsewhere: BTreeMap<String, Foreign>,
    /// Settings of the kernel with their values from before kiln.
    pub settings: BTreeMap<String, String>,
    /// Accounts that kiln looks after.
    pub accounts: BTreeSet<String>,
    /// Units that kiln lets start by themselves or not, with how that was before.
    pub enabled: BTreeMap<String, bool>,
    /// Paths that kiln mounts a disk on.
    pub mounts: BTreeSet<String>,
    /// Whether kiln keeps pods from the metadata service.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blocks_metadata: bool,
}

/// A file elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Foreign {
    /// What stood there before kiln.
    pub before: Before,
    /// Who must hear when it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affects: Vec<Affect>,
    /// Whether the service manager reads it.
    #[serde(default)]
    pub unit: bool,
}

/// What stood at a path before kiln.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Before {
    /// Nothing.
    Absent,
    /// A file, whose content is kept at [`layout::before`].
    File {
        /// The hash of its content.
        sha256: String,
        mode: u32,
        /// Its owner and group.
        owner: Owner,
    },
    /// A symbolic link.
    Link {
        /// Where to.
        target: String,
    },
}

impl Before {
    fn of(seen: &Seen) -> Self {
        match seen {
            Seen::File { sha256, mode, owner } => {
                Self::File { sha256: sha256.clone(), mode: *mode, owner: owner.clone() }
            }
            Seen::Link { target } => Self::Link { target: target.clone() },
            Seen::Absent | Seen::Other => Self::Absent,
        }
    }

    /// Whether it stands there again.
    pub(crate) fn is(&self, seen: &Seen) -> bool {
        *seen != Seen::Other && *self == Self::of(seen)
    }
}

impl Manifest {
    /// The manifest of a desired state. What the one before remembers of a path holds: it was there before kiln.
    pub fn next(desired: &Desired, observed: &Observed) -> Self {
        let nothing = Self::default();
        let last = observed.manifest.as_ref().unwrap_or(&nothing);
        let foreign = |file: &Artifact, unit: bool| {
            let before = last.elsewhere.get(&file.path).map(|foreign| foreign.before.clone());
            let before = before.unwrap_or_else(|| Before::of(observed.seen(&file.path)));
            (file.path.clone(), Foreign { before, affects: file.affects.clone(), unit })
        };
        let setting = |path: &String| {
            let before = last.settings.get(path).or_else(|| observed.settings.get(path))?;
            Some((path.clone(), before.clone()))
        };
        let enabled = |late: &Late| match late {
            Late::Enabled { unit, .. } => {
                let before = last.enabled.get(unit).or_else(|| observed.enabled.get(unit)).copied();
                Some((unit.clone(), before.unwrap_or_default()))
            }
            _ => None,
        };
        let mount = |late: &Late| match late {
            Late::Mount(mount) => Some(mount.path.clone()),
            _ => None,
        };
        Self {
            files: desired.files.iter().map(|file| (file.path.clone(), file.content.sha256())).collect(),
            elsewhere: desired
                .elsewhere
                .iter()
                .map(|file| foreign(file, false))
                .chain(desired.units().map(|file| foreign(file, true)))
                .collect(),
            settings: desired.kernel.iter().filter_map(|wanted| setting(&wanted.path)).collect(),
            accounts: desired.accounts.iter().map(|account| account.name.clone()).collect(),
            enabled: desired.late.iter().filter_map(enabled).collect(),
            mounts: desired.late.iter().filter_map(mount).collect(),
            blocks_metadata: desired.block_metadata,
        }
    }

    /// This one, the generation's in force, with what another that was cut off on its way may have left.
    #[must_use]
    pub fn merge(mut self, cut_off: Self) -> Self {
        for (path, foreign) in cut_off.elsewhere {
            self.elsewhere.entry(path).or_insert(foreign);
        }
        for (path, value) in cut_off.settings {
            self.settings.entry(path).or_insert(value);
        }
        for (unit, enabled) in cut_off.enabled {
            self.enabled.entry(unit).or_insert(enabled);
        }
        self.accounts.extend(cut_off.accounts);
        self.mounts.extend(cut_off.mounts);
        self.blocks_metadata |= cut_off.blocks_metadata;
        self
    }

    /// The file, for the generation's folder.
    pub fn artifact(&self) -> Artifact {
        let text = kiln_node_config::canonical::text(self) + "\n";
        Artifact { mode: 0o600, ..Artifact::plain(layout::MANIFEST, text) }
    }
}
