//! Effect of a change on a running node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Effect of changing a field on a running node, least disruptive first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// No side effect.
    None,
    /// A service reloads.
    Reload,
    /// A service restarts; pods keep running.
    Restart,
    /// The cluster changes the Node object, because the node may not do so itself.
    Cluster,
    /// The node is drained first.
    Drain,
    /// The node is drained and rebooted.
    Reboot,
    /// A new node is required.
    Replace,
}

impl Effect {
    /// All effects, least disruptive first.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Reload, Self::Restart, Self::Cluster, Self::Drain, Self::Reboot, Self::Replace];

    /// Returns the name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Reload => "reload",
            Self::Restart => "restart",
            Self::Cluster => "cluster",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
