//! One step of a plan.

use std::fmt;

use crate::cloud_service::CloudService;
use crate::desired::{Account, Mount, Setting};
use crate::file::{DesiredFile, FileState};

/// One step. Its `Display` form is what `kilnd plan` and the log show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copies a file to [`crate::layout::before`].
    BackUp {
        path: String,
    },
    /// Writes the generation's folder, with its manifest ([`super::Plan::folder`]).
    WriteGeneration,
    /// Writes a file outside the generation's folder.
    WriteFile(DesiredFile),
    /// Restores what was at the path before kiln.
    RestoreFile {
        path: String,
        before: FileState,
    },
    /// Rewrites a file that kiln shares with other programs; owner and permissions stay.
    EditFile {
        path: String,
        /// The whole new text.
        text: String,
    },
    SetKernel(Setting),
    /// Blocks or unblocks pods without the host network.
    BlockService {
        service: CloudService,
        block: bool,
    },
    SetHostName {
        name: String,
    },
    SetAccount(Account),
    /// Disables an account that kiln managed. Its files stay.
    RetireAccount {
        name: String,
    },
    /// Points the link at the new generation.
    SwitchGeneration,
    DaemonReload,
    Enable {
        unit: String,
        enabled: bool,
    },
    Stop {
        unit: String,
    },
    /// Deletes a file that a service wrote for itself.
    DeleteFile {
        path: String,
    },
    Start {
        unit: String,
    },
    Reload {
        unit: String,
    },
    Restart {
        unit: String,
    },
    GrowRoot,
    /// Resizes a swap file; 0 removes it.
    Swap {
        path: String,
        mib: u64,
    },
    Mount(Mount),
    Reboot,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BackUp { path } => write!(f, "back up {path}"),
            Self::WriteGeneration => f.write_str("write the generation"),
            Self::WriteFile(file) => write!(f, "write {}", file.path),
            Self::RestoreFile { path, before: FileState::Absent } => write!(f, "remove {path}"),
            Self::RestoreFile { path, .. } => write!(f, "restore {path}"),
            Self::EditFile { path, .. } => write!(f, "edit {path}"),
            Self::SetKernel(setting) => write!(f, "set {} to {}", setting.path, setting.value),
            Self::BlockService { service, block: true } => write!(f, "block pods from the {service}"),
            Self::BlockService { service, block: false } => write!(f, "allow pods to reach the {service}"),
            Self::SetHostName { name } => write!(f, "set the host name to {name}"),
            Self::SetAccount(account) => write!(f, "set up the account {}", account.name),
            Self::RetireAccount { name } => write!(f, "retire the account {name}"),
            Self::SwitchGeneration => f.write_str("switch to the generation"),
            Self::DaemonReload => f.write_str("reload systemd"),
            Self::Enable { unit, enabled: true } => write!(f, "enable {unit}"),
            Self::Enable { unit, enabled: false } => write!(f, "disable {unit}"),
            Self::Stop { unit } => write!(f, "stop {unit}"),
            Self::DeleteFile { path } => write!(f, "delete {path}"),
            Self::Start { unit } => write!(f, "start {unit}"),
            Self::Reload { unit } => write!(f, "reload {unit}"),
            Self::Restart { unit } => write!(f, "restart {unit}"),
            Self::GrowRoot => f.write_str("grow the root file system"),
            Self::Swap { path, mib: 0 } => write!(f, "remove the swap file {path}"),
            Self::Swap { path, mib } => write!(f, "create the swap file {path} of {mib} MiB"),
            Self::Mount(mount) => write!(f, "mount {} on {}", mount.device, mount.path),
            Self::Reboot => f.write_str("reboot the machine"),
        }
    }
}
