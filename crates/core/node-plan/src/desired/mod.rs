//! The desired state of one machine: files, kernel settings, accounts, and work that is deferred until the kubelet runs.
//!
//! Each module renders one part of the spec into a [`Draft`], which also collects what the machine cannot do.

mod baseline;
mod bridge;
mod content;
mod draft;
mod flags;
mod join;
mod kernel;
mod kubelet;
mod mtu;
mod network;
mod os;
mod platform;
mod providers;
mod quote;
mod registries;
mod runtime;

use std::collections::BTreeSet;

use kiln_node_config::spec::Spec;
use kiln_node_config::{NodeConfig, Violation};

use crate::cloud_service::CloudService;
use crate::facts::Facts;
use crate::file::{AffectedUnit, DesiredFile, FileContent};
use crate::layout;
use draft::Draft;

pub(crate) use bridge::{rendered as rendered_cni, template as cni_template};
pub use content::is_reserved;
pub(crate) use kernel::path_of;
pub use platform::{LOCAL_NVME, TEMPORARY_DISKS, choose_temporary_disk};

/// The desired state that a NodeConfig describes for one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Files of the generation's folder, with relative paths, sorted. The plan adds [`layout::MANIFEST`].
    pub files: Vec<DesiredFile>,
    /// Files outside it, with absolute paths, sorted.
    pub elsewhere: Vec<DesiredFile>,
    /// Blocks in files that other programs write too.
    pub blocks: Vec<Block>,
    /// Settings of the running kernel, in the order of writing.
    pub kernel: Vec<Setting>,
    /// Services of the cloud that pods without the host network cannot reach.
    pub blocked: BTreeSet<CloudService>,
    /// None if the platform chooses it.
    pub host_name: Option<String>,
    pub accounts: Vec<Account>,
    pub deferred: Vec<Deferred>,
    pub kernel_arguments: Vec<String>,
    /// Whether kilnd reports to the wire server that the machine is provisioned; none if it depends on the image.
    pub report_ready: Option<bool>,
    pub joined: bool,
    /// Fields that this version does not know. They are kept and have no effect.
    pub unknown: Vec<String>,
    /// What a person should know about this machine and this document. They do not prevent anything.
    pub warnings: Vec<String>,
}

/// A block that kiln manages in a file of another program, between two marker lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub path: String,
    /// Empty to remove the block.
    pub text: String,
    pub affects: Vec<AffectedUnit>,
}

/// A setting of the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// A file below `/proc/sys` or `/sys`.
    pub path: String,
    pub value: String,
    /// Whether the kernel may lack it for now, because a module of the document may add it.
    pub optional: bool,
    /// The kernel module that provides it, if it is not part of every kernel.
    pub module: Option<&'static str>,
}

/// A login account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub ssh_keys: Vec<String>,
    /// Supplementary groups, sorted.
    pub groups: Vec<String>,
    pub shell: String,
    pub sudo: bool,
}

/// Work that is deferred until the kubelet runs: at a first boot none of it may delay the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// A unit file. One daemon-reload follows all of them.
    Unit(DesiredFile),
    Enabled {
        unit: String,
        enabled: bool,
    },
    /// Grow the root partition and file system to the size of the disk.
    GrowRoot,
    /// A swap file of this size; 0 for none.
    Swap {
        path: String,
        mib: u64,
    },
    /// Mount a disk, and format it if it has no file system.
    Mount(Mount),
}

/// A disk and its mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub device: String,
    pub path: String,
    pub filesystem: String,
    /// Whether the kubelet or the runtime keeps its data there and has to wait for the mount.
    pub early: bool,
}

/// A document that this machine cannot apply, with every reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct IncompatibleConfig(pub Vec<Violation>);

impl Desired {
    /// Renders a document for a machine.
    pub fn render(config: &NodeConfig, facts: &Facts) -> Result<Self, IncompatibleConfig> {
        config.check_values().map_err(|invalid| IncompatibleConfig(invalid.0))?;
        let mut draft = Draft::new(config, facts);
        draft.file(DesiredFile::plain(layout::DOCUMENT, config.to_json()));
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

    /// The unit files among the deferred work.
    pub fn units(&self) -> impl Iterator<Item = &DesiredFile> {
        self.deferred.iter().filter_map(|deferred| match deferred {
            Deferred::Unit(file) => Some(file),
            _ => None,
        })
    }

    /// Every file outside the generation's folder, including unit files.
    pub fn outside(&self) -> impl Iterator<Item = &DesiredFile> {
        self.elsewhere.iter().chain(self.units())
    }

    /// A file of the generation's folder by its relative path.
    pub fn file(&self, path: &str) -> Option<&DesiredFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The text of a file of the generation's folder; none for secrets and links.
    pub fn text(&self, path: &str) -> Option<&str> {
        match &self.file(path)?.content {
            FileContent::Bytes(bytes) | FileContent::Seed(bytes) => std::str::from_utf8(bytes).ok(),
            FileContent::Secret(_) | FileContent::Link(_) => None,
        }
    }
}

/// The kubelet's default data folder.
const KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The kubelet's data folder.
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
