//! Options of a control plane.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Options of a control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Run kube-controller-manager. Without it budgets have no status and namespaces no service account.
    pub controller_manager: bool,
    /// Run kube-scheduler. Without it pods stay pending until they are bound.
    pub scheduler: bool,
    /// More arguments for kube-apiserver; the last of two equal flags wins.
    pub api_server_arguments: Vec<String>,
    /// More arguments for kube-controller-manager.
    #[serde(default)]
    pub controller_manager_arguments: Vec<String>,
    /// The parent folder; `$XDG_CACHE_HOME/kiln/run` by default.
    pub root: Option<PathBuf>,
}

impl Default for Options {
    /// With controllers, without a scheduler.
    fn default() -> Self {
        Self {
            controller_manager: true,
            scheduler: false,
            api_server_arguments: Vec::new(),
            controller_manager_arguments: Vec::new(),
            root: None,
        }
    }
}

impl Options {
    /// Only etcd and kube-apiserver, which start fastest: for tests that only store and watch objects.
    pub fn bare() -> Self {
        Self { controller_manager: false, ..Self::default() }
    }

    /// Enables the scheduler.
    #[must_use]
    pub fn with_scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// Gives every node a range of pod addresses, of 256 addresses each for IPv4.
    #[must_use]
    pub fn with_pod_ranges(mut self, cluster: &str) -> Self {
        let arguments = ["--allocate-node-cidrs=true".to_owned(), format!("--cluster-cidr={cluster}")];
        self.controller_manager_arguments.extend(arguments);
        self
    }

    /// Sets the parent folder.
    #[must_use]
    pub fn in_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }
}
