//! What a document asks for on one machine: files, settings, accounts, and work that can wait until the kubelet runs.

mod content;
mod draft;
mod flags;
mod join;
mod kernel;
mod kubelet;
mod network;
mod os;
mod platform;
mod providers;
mod quote;
mod registries;
mod runtime;

use kiln_node_config::spec::Spec;
use kiln_node_config::{NodeConfig, Violation};

use crate::artifact::{Affect, Artifact, Content};
use crate::facts::Facts;
use crate::layout;
use draft::Draft;

/// What a document asks for on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Files of the generation's folder, by their paths in it, sorted. [`layout::MANIFEST`] comes with the plan.
    pub files: Vec<Artifact>,
    /// Files elsewhere, by absolute paths, sorted.
    pub elsewhere: Vec<Artifact>,
    /// Parts of files that belong to others.
    pub blocks: Vec<Block>,
    /// Settings of the running kernel, in the order in which they are written.
    pub kernel: Vec<Setting>,
    /// Whether pods are kept from the metadata service.
    pub block_metadata: bool,
    /// The host name, where it is not the platform's.
    pub host_name: Option<String>,
    /// Accounts of people.
    pub accounts: Vec<Account>,
    /// What can wait until the kubelet runs.
    pub late: Vec<Late>,
    /// Arguments that the kernel is to be started with.
    pub kernel_arguments: Vec<String>,
    /// Whether the node tells the platform that it has started.
    pub report_ready: bool,
    /// Whether the node has joined already.
    pub joined: bool,
    /// Fields that this version does not know. They are kept and do nothing.
    pub unknown: Vec<String>,
}

/// A part of a file that belongs to somebody else, between two lines that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub path: String,
    /// What stands between the lines; nothing removes them too.
    pub text: String,
    /// Who must hear of a change.
    pub affects: Vec<Affect>,
}

/// A setting of the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file that it is read and written by, below `/proc/sys` or `/sys`.
    pub path: String,
    pub value: String,
    /// Whether a kernel without it is fine for now: a module that the document loads may bring it.
    pub optional: bool,
}

/// An account of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// Public keys that may log in.
    pub ssh_keys: Vec<String>,
    /// Groups besides its own, sorted.
    pub groups: Vec<String>,
    pub shell: String,
    /// Whether it may do everything.
    pub sudo: bool,
}

/// What can wait until the kubelet runs, and what must not be done before it at a first boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Late {
    /// A file that the service manager reads: one reload follows all of them.
    Unit(Artifact),
    /// Whether a unit starts by itself.
    Enabled {
        unit: String,
        /// Whether it does.
        enabled: bool,
    },
    /// The root file system grows to its disk.
    GrowRoot,
    /// A swap file of this size; 0 for none.
    Swap {
        path: String,
        /// How large.
        mib: u64,
    },
    /// A disk is mounted, and gets a file system where it has none.
    Mount(Mount),
}

/// A disk that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub device: String,
    pub path: String,
    /// Its file system.
    pub filesystem: String,
    /// Whether the kubelet or the runtime lives on it and must not start before it is there.
    pub early: bool,
}

/// Why a document does not fit a machine: every reason at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Unfit(pub Vec<Violation>);

impl Desired {
    /// What a document asks for.
    pub fn of(config: &NodeConfig, facts: &Facts) -> Result<Self, Unfit> {
        config.check_values().map_err(|invalid| Unfit(invalid.0))?;
        let mut draft = Draft::new(config, facts);
        draft.file(Artifact::plain(layout::DOCUMENT, config.to_json()));
        draft.fstab("");
        kubelet::render(&mut draft);
        join::render(&mut draft);
        providers::render(&mut draft);
        flags::render(&mut draft);
        runtime::render(&mut draft);
        registries::render(&mut draft);
        network::render(&mut draft);
        kernel::render(&mut draft);
        os::render(&mut draft);
        platform::render(&mut draft);
        content::render(&mut draft);
        draft.done()
    }

    /// Every file of the service manager that waits.
    pub fn units(&self) -> impl Iterator<Item = &Artifact> {
        self.late.iter().filter_map(|late| match late {
            Late::Unit(artifact) => Some(artifact),
            _ => None,
        })
    }

    /// Every file outside the generation's folder, units too.
    pub fn outside(&self) -> impl Iterator<Item = &Artifact> {
        self.elsewhere.iter().chain(self.units())
    }

    /// The file of the generation's folder with that path.
    pub fn file(&self, path: &str) -> Option<&Artifact> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The text of a file of the generation's folder. Secrets and links have none.
    pub fn text(&self, path: &str) -> Option<&str> {
        match &self.file(path)?.content {
            Content::Bytes(bytes) | Content::Seed(bytes) => std::str::from_utf8(bytes).ok(),
            Content::Secret(_) | Content::Link(_) => None,
        }
    }
}

/// The kubelet's folder where nobody says another.
const KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The kubelet's folder.
pub(crate) fn kubelet_root(spec: &Spec) -> String {
    let disk = &spec.platform.temporary_disk;
    if !spec.kubelet.root.is_empty() {
        spec.kubelet.root.clone()
    } else if disk.kubelet_root && !disk.mount_path.is_empty() {
        format!("{}/kubelet", disk.mount_path.trim_end_matches('/'))
    } else {
        KUBELET_ROOT.to_owned()
    }
}
