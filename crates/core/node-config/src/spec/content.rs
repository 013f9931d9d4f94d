//! Files and units.

use crate::describe::document;

document! {
    /// A file.
    pub struct File {
        /// Where.
        path: String = Reload,
        /// What is in it.
        content: String = Reload,
        /// What is in it, base64, where it is no text.
        content_base64: String = Reload,
        /// Its mode in octal, `0644`.
        mode: String = None,
        /// Its owner.
        owner: String = None,
        /// Its group.
        group: String = None,
        /// Units that restart when it changes.
        restarts: Vec<String> = Restart,
        /// Units that read it again when it changes.
        reloads: Vec<String> = Reload,
    }
}

document! {
    /// A unit of systemd.
    pub struct Unit {
        /// Its name.
        name: String = Restart,
        /// What is in it; without it the image's own.
        content: String = Restart,
        /// What is added to it.
        drop_ins: Vec<DropIn> = Restart,
        /// Whether it starts by itself.
        enabled: Option<bool> = None,
        /// Whether it can be started at all.
        masked: bool = Restart,
    }
}

document! {
    /// An addition to a unit.
    pub struct DropIn {
        /// Its file name, `10-limits.conf`.
        name: String = Restart,
        /// What is in it.
        content: String = Restart,
    }
}
