//! One thing to do on a machine.

use std::fmt;

use crate::artifact::Artifact;
use crate::desired::{Account, Mount, Setting};
use crate::manifest::Before;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A copy of what stands at the path goes to [`crate::layout::before`].
    Keep { path: String },
    /// The generation's folder is written, with its manifest ([`super::Plan::folder`]).
    WriteGeneration,
    /// A file elsewhere is written.
    Put(Artifact),
    /// What stood at the path before kiln stands there again.
    PutBack {
        path: String,
        /// What stood there.
        before: Before,
    },
    /// A file that belongs to somebody else is written with kiln's part in it, owner and permissions as they are.
    Edit {
        path: String,
        /// All of its text.
        text: String,
    },
    /// A setting of the kernel is written.
    Set(Setting),
    /// Pods are kept from the metadata service, or no longer.
    BlockMetadata {
        /// Whether they are.
        block: bool,
    },
    /// The machine gets its name.
    HostName { name: String },
    /// An account is made, or made to be like this.
    Account(Account),
    /// An account that kiln looked after may no longer log in. Its files stay.
    Retire { name: String },
    /// The link to the generation in force is turned.
    Flip,
    /// The service manager reads its files again.
    DaemonReload,
    /// A unit starts by itself from now on, or no longer.
    Enable {
        unit: String,
        /// Whether it does.
        enabled: bool,
    },
    /// A unit stops.
    Stop { unit: String },
    /// A file that a service made for itself goes.
    Discard { path: String },
    /// A unit starts.
    Start { unit: String },
    /// A unit reads its files again.
    Reload { unit: String },
    /// A unit restarts.
    Restart { unit: String },
    /// The root file system grows.
    GrowRoot,
    /// A swap file gets this size; 0 for none.
    Swap {
        path: String,
        /// How large.
        mib: u64,
    },
    /// A disk is mounted.
    Mount(Mount),
    /// The machine restarts.
    Reboot,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep { path } => write!(f, "keep a copy of {path}"),
            Self::WriteGeneration => f.write_str("write the generation"),
            Self::Put(file) => write!(f, "write {}", file.path),
            Self::PutBack { path, before: Before::Absent } => write!(f, "remove {path}"),
            Self::PutBack { path, .. } => write!(f, "put back {path}"),
            Self::Edit { path, .. } => write!(f, "edit {path}"),
            Self::Set(setting) => write!(f, "set {} to {}", setting.path, setting.value),
            Self::BlockMetadata { block: true } => f.write_str("keep pods from the metadata service"),
            Self::BlockMetadata { block: false } => f.write_str("let pods reach the metadata service"),
            Self::HostName { name } => write!(f, "name the machine {name}"),
            Self::Account(account) => write!(f, "set up the account {}", account.name),
            Self::Retire { name } => write!(f, "retire the account {name}"),
            Self::Flip => f.write_str("turn to the generation"),
            Self::DaemonReload => f.write_str("have the service manager read its files"),
            Self::Enable { unit, enabled: true } => write!(f, "enable {unit}"),
            Self::Enable { unit, enabled: false } => write!(f, "disable {unit}"),
            Self::Stop { unit } => write!(f, "stop {unit}"),
            Self::Discard { path } => write!(f, "discard {path}"),
            Self::Start { unit } => write!(f, "start {unit}"),
            Self::Reload { unit } => write!(f, "reload {unit}"),
            Self::Restart { unit } => write!(f, "restart {unit}"),
            Self::GrowRoot => f.write_str("grow the root file system"),
            Self::Swap { path, mib: 0 } => write!(f, "remove the swap file {path}"),
            Self::Swap { path, mib } => write!(f, "swap {mib} MiB to {path}"),
            Self::Mount(mount) => write!(f, "mount {} on {}", mount.device, mount.path),
            Self::Reboot => f.write_str("restart the machine"),
        }
    }
}
