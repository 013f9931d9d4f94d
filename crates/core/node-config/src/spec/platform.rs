//! Platform-specific settings of the machine.

use crate::describe::document;

document! {
    /// Platform-specific settings of the machine.
    pub struct Platform {
        /// Host name. If not set, the host name from the platform is used.
        host_name: String = Replace,
        /// Local users.
        users: Vec<User> = None,
        /// Grows the root file system to the size of its disk.
        grow_root: Option<bool> = None,
        /// Temporary disk of the machine.
        temporary_disk: TemporaryDisk,
        /// Reports to the platform that provisioning has finished. If not set, kilnd reports on Azure if no other agent in the image does.
        report_ready: Option<bool> = None,
    }
}

document! {
    /// A local user.
    pub struct User {
        /// Name of the user.
        name: String = None,
        /// SSH public keys of the user.
        ssh_keys: Vec<String> = None,
        /// Supplementary groups.
        groups: Vec<String> = None,
        /// Login shell.
        shell: String = None,
        /// Allows all commands with `sudo` without a password.
        sudo: bool = None,
    }
}

document! {
    /// Temporary disk of the machine, whose data is lost when the machine is deallocated.
    pub struct TemporaryDisk {
        /// Mount point. If not set, the disk is not used.
        mount_path: String = Drain,
        /// File system type.
        filesystem: String = Drain,
        /// Stores the kubelet's data directory on the disk.
        kubelet_root: bool = Replace,
    }
}
