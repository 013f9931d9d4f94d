//! What a change costs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What it costs to change a field on a running node, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing: it is read when it is needed.
    None,
    /// A service reads its files again.
    Reload,
    /// A service restarts; pods stay.
    Restart,
    /// The cluster is asked to change the node's object: a node may not do that itself.
    Cluster,
    /// Pods leave first.
    Drain,
    /// The machine restarts, after pods left.
    Reboot,
    /// Only a new node can have it.
    Replace,
}

impl Effect {
    /// All effects, cheapest first.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Reload, Self::Restart, Self::Cluster, Self::Drain, Self::Reboot, Self::Replace];

    /// The word for it in documents.
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
