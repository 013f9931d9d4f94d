//! What every command of `kiln prototype` takes.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_azure::login::Environment;
use kiln_kubernetes::Namespace;

use super::values::{LogLevel, LogPrefix, Subscription};
use crate::answer::Output;
use crate::local::factory::VARIABLE;

/// Where a node of a self-managed cluster keeps what it knows of its cloud.
pub(crate) const AZURE_JSON: &str = "/etc/kubernetes/azure.json";

#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Resource group of the scale sets [env: `AZURE_RESOURCE_GROUP`]
    #[arg(short = 'g', long, value_name = "NAME", global = true, help_heading = "Azure")]
    pub(crate) resource_group: Option<String>,
    /// Subscription of the resource group, a GUID [env: `AZURE_SUBSCRIPTION_ID`]
    #[arg(short = 's', long, value_name = "GUID", global = true, help_heading = "Azure")]
    pub(crate) subscription: Option<Subscription>,
    /// Run as a pod: the pod's service account, and azure.json or workload identity
    #[arg(long, global = true, help_heading = "Azure")]
    pub(crate) in_cluster: bool,
    /// Cloud provider's file, with --in-cluster
    #[arg(long, value_name = "FILE", default_value = AZURE_JSON, global = true, help_heading = "Azure")]
    pub(crate) azure_json: PathBuf,
    /// Endpoints of an Azure Stack [default: azurestackcloud.json beside azure.json]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Azure")]
    pub(crate) azure_stack: Option<PathBuf>,

    /// State folder of `kiln local` instead of Azure: machines on this machine [env: `KILN_LOCAL`]
    #[arg(long, value_name = "DIR", global = true, help_heading = "Local", conflicts_with_all = ["resource_group", "subscription", "in_cluster"])]
    pub(crate) local: Option<PathBuf>,

    /// Cluster to speak to [default: as kubectl finds it]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Kubernetes")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    pub(crate) context: Option<String>,
    /// Namespace of lease, journal and saved recipe [env: `POD_NAMESPACE`] [default: default]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    pub(crate) namespace: Option<Namespace>,
    /// Image of the pods that look into nodes [env: `POD_IMAGE`] [default: kiln of this version]
    #[arg(long, value_name = "IMAGE", global = true, help_heading = "Kubernetes")]
    pub(crate) pod_image: Option<String>,
    /// Secret of the namespace that this image is pulled with [env: `POD_PULL_SECRET`]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    pub(crate) pod_pull_secret: Option<String>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t, global = true, help_heading = "Output")]
    pub(crate) output: Output,
    /// Log from this level on
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, global = true, help_heading = "Output")]
    pub(crate) log_level: Option<LogLevel>,
    /// Word before the level of each log line
    #[arg(long, value_name = "WORD", global = true, help_heading = "Output")]
    pub(crate) log_prefix: Option<LogPrefix>,
    /// Time before each log line
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) log_timestamps: bool,

    /// The time to begin at, to rehearse nights against the embedded Azure
    #[arg(long, value_name = "TIME", global = true, hide = true)]
    pub(crate) now: Option<Timestamp>,
    /// How much faster than the wall's our clock runs, to rehearse what takes patience
    #[arg(long, value_name = "FACTOR", default_value_t = 1, global = true, hide = true)]
    pub(crate) clock_rate: u32,
}

impl Common {
    /// The state folder of the machines on this machine, where they are meant. Who names an Azure means Azure, also inside a world.
    pub(crate) fn local(&self, environment: &Environment) -> Option<PathBuf> {
        let azure = self.resource_group.is_some() || self.subscription.is_some() || self.in_cluster;
        let around = || environment.get(VARIABLE).filter(|_| !azure).map(PathBuf::from);
        self.local.clone().or_else(around)
    }
}
