//! Files and systemd units.

use crate::describe::document;

document! {
    /// A file on the node.
    pub struct File {
        /// Absolute path of the file.
        path: String = Reload,
        /// Content as text.
        content: String = Reload,
        /// Content in base64, for binary files. Mutually exclusive with `content`.
        content_base64: String = Reload,
        /// File mode in octal, such as `0644`.
        mode: String = None,
        /// Owner of the file.
        owner: String = None,
        /// Group of the file.
        group: String = None,
        /// Units that restart when the file changes.
        restarts: Vec<String> = Restart,
        /// Units that reload when the file changes.
        reloads: Vec<String> = Reload,
    }
}

document! {
    /// A systemd unit.
    pub struct Unit {
        /// Name of the unit, such as `example.service`.
        name: String = Restart,
        /// Content of the unit file. If not set, the unit of the image is used.
        content: String = Restart,
        /// Drop-in files of the unit.
        drop_ins: Vec<DropIn> = Restart,
        /// Enables or disables the unit.
        enabled: Option<bool> = None,
        /// Masks the unit, so that it cannot be started.
        masked: bool = Restart,
    }
}

document! {
    /// A drop-in file of a systemd unit.
    pub struct DropIn {
        /// File name, such as `10-limits.conf`.
        name: String = Restart,
        /// Content of the drop-in file.
        content: String = Restart,
    }
}
