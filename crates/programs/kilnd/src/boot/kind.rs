//! What a boot is, decided once by `kilnd identity` and read by everybody after it.

use serde::{Deserialize, Serialize};

/// What a boot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootKind {
    /// The first of a disk that belongs to nobody yet.
    First,
    /// The first of a disk that belonged to another machine.
    Clone,
    /// Not the first on this machine.
    Again,
}

impl BootKind {
    /// The word for it in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Clone => "clone",
            Self::Again => "again",
        }
    }
}

/// What `kilnd identity` found: the content of `layout::BOOT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootRecord {
    /// What this boot is.
    pub kind: BootKind,
    /// This machine's id; absent where the machine does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_id: Option<String>,
    /// The id that the disk carried when this boot began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
}
