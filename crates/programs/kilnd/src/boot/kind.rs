//! The kind of a boot, determined once by `kilnd identity`.

use serde::{Deserialize, Serialize};

/// The kind of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootKind {
    /// The disk has no recorded owner.
    First,
    /// The disk was cloned from another machine.
    Clone,
    /// A later boot of the same machine.
    Again,
}

impl BootKind {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Clone => "clone",
            Self::Again => "again",
        }
    }
}

/// The content of `layout::BOOT`, written by `kilnd identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootRecord {
    pub kind: BootKind,
    /// The id of this machine; none if it is unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<String>,
    /// The kernel's id of the boot; empty if it is unreadable. A record of another boot is not used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// The id on the disk when this boot started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
}
