//! What a control plane is made of.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a control plane is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Run kube-controller-manager: without it no budget has arithmetic and no namespace a service account.
    pub controller_manager: bool,
    /// Run kube-scheduler: without it pods wait until somebody binds them.
    pub scheduler: bool,
    /// More arguments for kube-apiserver; the last of two equal flags counts.
    pub api_server_arguments: Vec<String>,
    /// The folder that holds the control plane's own; none: `$XDG_CACHE_HOME/kiln/run`.
    pub root: Option<PathBuf>,
}

impl Default for Options {
    /// With controllers, without a scheduler.
    fn default() -> Self {
        Self { controller_manager: true, scheduler: false, api_server_arguments: Vec::new(), root: None }
    }
}

impl Options {
    /// etcd and kube-apiserver alone: up soonest, for tests that only store and watch objects.
    pub fn bare() -> Self {
        Self { controller_manager: false, ..Self::default() }
    }

    /// The same with a scheduler.
    #[must_use]
    pub fn with_scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// The same in this folder.
    #[must_use]
    pub fn in_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }
}
