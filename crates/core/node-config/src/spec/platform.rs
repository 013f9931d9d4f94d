//! What a node does for its platform.

use crate::describe::document;

document! {
    /// What a node does for its platform.
    pub struct Platform {
        /// The host name, where it is not the platform's. A node's name never changes.
        host_name: String = Replace,
        /// Users.
        users: Vec<User> = None,
        /// Whether the root file system grows to its disk.
        grow_root: Option<bool> = None,
        /// The disk that does not survive the machine.
        temporary_disk: TemporaryDisk,
        /// Whether the node tells the platform that it has started; where nothing else on the image does.
        report_ready: Option<bool> = None,
    }
}

document! {
    /// A user.
    pub struct User {
        /// The name.
        name: String = None,
        /// Public keys that may log in.
        ssh_keys: Vec<String> = None,
        /// Groups besides its own.
        groups: Vec<String> = None,
        /// The shell.
        shell: String = None,
        /// Whether it may do everything.
        sudo: bool = None,
    }
}

document! {
    /// The disk that does not survive the machine.
    pub struct TemporaryDisk {
        /// Where it is mounted; unused without it.
        mount_path: String = Drain,
        /// Its file system.
        filesystem: String = Drain,
        /// Whether the kubelet's files live there.
        kubelet_root: bool = Replace,
    }
}
