//! The manifest of a generation: its changes outside its own folder, and the earlier state of each file, so that
//! everything can be restored.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cloud_service::CloudService;
use crate::desired::{Deferred, Desired};
use crate::file::{AffectedUnit, DesiredFile, FileState};
use crate::layout;
use crate::observed::Observed;

/// The file [`layout::MANIFEST`] of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    /// Files of the folder with the hashes of what was written; none for secrets and links.
    pub files: BTreeMap<String, Option<String>>,
    /// Files outside the folder.
    pub elsewhere: BTreeMap<String, ManagedFile>,
    /// Kernel settings with their values from before kiln.
    pub settings: BTreeMap<String, String>,
    /// Accounts that kiln manages.
    pub accounts: BTreeSet<String>,
    /// Units that kiln enabled or disabled, with their previous state.
    pub enabled: BTreeMap<String, bool>,
    /// Mount points that kiln manages.
    pub mounts: BTreeSet<String>,
    /// Whether kiln blocks pods from the metadata service.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blocks_metadata: bool,
    /// Whether kiln blocks pods from the wire server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blocks_wire_server: bool,
}

/// A file outside the generation's folder that kiln manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedFile {
    /// The state before kiln first wrote the file. The content of a file is kept at [`layout::before`].
    pub before: FileState,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affects: Vec<AffectedUnit>,
    /// Whether systemd reads it.
    #[serde(default)]
    pub unit: bool,
}

impl Manifest {
    /// The manifest of a desired state. Where the previous manifest knows a path, its record stays: only that one is from before kiln.
    pub fn next(desired: &Desired, observed: &Observed) -> Self {
        let nothing = Self::default();
        let last = observed.manifest.as_ref().unwrap_or(&nothing);
        let managed = |file: &DesiredFile, unit: bool| {
            let before = last.elsewhere.get(&file.path).map(|managed| managed.before.clone());
            let before = before.unwrap_or_else(|| match observed.file(&file.path) {
                // A folder or device in the way makes the write fail; there is nothing to restore.
                FileState::Other => FileState::Absent,
                state => state.clone(),
            });
            (file.path.clone(), ManagedFile { before, affects: file.affects.clone(), unit })
        };
        let setting = |path: &String| {
            let before = last.settings.get(path).or_else(|| observed.settings.get(path))?;
            Some((path.clone(), before.clone()))
        };
        let enabled = |deferred: &Deferred| match deferred {
            Deferred::Enabled { unit, .. } => {
                let before = last.enabled.get(unit).or_else(|| observed.enabled.get(unit)).copied();
                Some((unit.clone(), before.unwrap_or_default()))
            }
            _ => None,
        };
        let mount = |deferred: &Deferred| match deferred {
            Deferred::Mount(mount) => Some(mount.path.clone()),
            _ => None,
        };
        Self {
            files: desired.files.iter().map(|file| (file.path.clone(), file.content.sha256())).collect(),
            elsewhere: desired
                .elsewhere
                .iter()
                .map(|file| managed(file, false))
                .chain(desired.units().map(|file| managed(file, true)))
                .collect(),
            settings: desired.kernel.iter().filter_map(|wanted| setting(&wanted.path)).collect(),
            accounts: desired.accounts.iter().map(|account| account.name.clone()).collect(),
            enabled: desired.deferred.iter().filter_map(enabled).collect(),
            mounts: desired.deferred.iter().filter_map(mount).collect(),
            blocks_metadata: desired.blocked.contains(&CloudService::MetadataService),
            blocks_wire_server: desired.blocked.contains(&CloudService::WireServer),
        }
    }

    /// This manifest, of the generation in force, with what an interrupted generation may have left behind.
    #[must_use]
    pub fn merge(mut self, interrupted: Self) -> Self {
        for (path, managed) in interrupted.elsewhere {
            self.elsewhere.entry(path).or_insert(managed);
        }
        for (path, value) in interrupted.settings {
            self.settings.entry(path).or_insert(value);
        }
        for (unit, enabled) in interrupted.enabled {
            self.enabled.entry(unit).or_insert(enabled);
        }
        self.accounts.extend(interrupted.accounts);
        self.mounts.extend(interrupted.mounts);
        self.blocks_metadata |= interrupted.blocks_metadata;
        self.blocks_wire_server |= interrupted.blocks_wire_server;
        self
    }

    /// Whether kiln blocks pods from a service.
    pub fn blocks(&self, service: CloudService) -> bool {
        match service {
            CloudService::MetadataService => self.blocks_metadata,
            CloudService::WireServer => self.blocks_wire_server,
        }
    }

    /// The manifest as a file of the generation's folder.
    pub fn to_file(&self) -> DesiredFile {
        let text = kiln_node_config::canonical::text(self) + "\n";
        DesiredFile::new(layout::MANIFEST, text, 0o600)
    }
}
