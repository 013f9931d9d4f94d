//! Arguments of all commands of `kiln prototype`.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_azure::login::{Environment, ManagedIdentity};
use kiln_kubernetes::Namespace;

use super::values::{LogLevel, LogPrefix, Subscription};
use crate::answer::Output;
use crate::local::factory::VARIABLE;

/// The cloud provider's file on the nodes of a self-managed cluster.
pub(crate) const AZURE_JSON: &str = "/etc/kubernetes/azure.json";

/// The value of `--managed-identity` for the system-assigned identity.
const SYSTEM_IDENTITY: &str = "system";

#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Resource group of the scale sets [env: `AZURE_RESOURCE_GROUP`]
    #[arg(short = 'g', long, value_name = "NAME", global = true, help_heading = "Azure")]
    pub(crate) resource_group: Option<String>,
    /// Subscription of the resource group, a GUID [env: `AZURE_SUBSCRIPTION_ID`]
    #[arg(short = 's', long, value_name = "GUID", global = true, help_heading = "Azure")]
    pub(crate) subscription: Option<Subscription>,
    /// Resource group of the gallery [default: the one of the scale sets]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Azure")]
    pub(crate) gallery_resource_group: Option<String>,
    /// Subscription of the gallery, in the same tenant [default: the one of the scale sets]
    #[arg(long, value_name = "GUID", global = true, help_heading = "Azure", requires = "gallery_resource_group")]
    pub(crate) gallery_subscription: Option<Subscription>,
    /// Run as a pod: the pod's service account, and azure.json, workload identity or --managed-identity
    #[arg(long, global = true, help_heading = "Azure")]
    pub(crate) in_cluster: bool,
    /// Log in with a managed identity of this machine: `system`, a client id or a resource id [default: system]
    #[arg(
        long,
        value_name = "ID",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = SYSTEM_IDENTITY,
        global = true,
        help_heading = "Azure"
    )]
    pub(crate) managed_identity: Option<String>,
    /// Cloud provider's file, for --in-cluster
    #[arg(long, value_name = "FILE", default_value = AZURE_JSON, global = true, help_heading = "Azure")]
    pub(crate) azure_json: PathBuf,
    /// Endpoints of an Azure Stack [default: azurestackcloud.json in the directory of azure.json]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Azure")]
    pub(crate) azure_stack: Option<PathBuf>,

    /// Write each request to Azure and its answer to a file in this folder, without names and secrets
    #[arg(long, value_name = "DIR", global = true, help_heading = "Azure")]
    pub(crate) record: Option<PathBuf>,

    /// State folder of `kiln local`, to use its machines instead of Azure [env: `KILN_LOCAL`]
    #[arg(long, value_name = "DIR", global = true, help_heading = "Local", conflicts_with_all = ["resource_group", "subscription", "gallery_resource_group", "in_cluster", "managed_identity", "record"])]
    pub(crate) local: Option<PathBuf>,

    /// Kubeconfig of the cluster [default: kubectl's]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Kubernetes")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    pub(crate) context: Option<String>,
    /// Namespace of lease, journal and saved recipe [env: `POD_NAMESPACE`] [default: default]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    pub(crate) namespace: Option<Namespace>,
    /// Image of the pods that inspect nodes [env: `POD_IMAGE`] [default: this version of kiln]
    #[arg(long, value_name = "IMAGE", global = true, help_heading = "Kubernetes")]
    pub(crate) pod_image: Option<String>,
    /// Secret in the namespace to pull that image with [env: `POD_PULL_SECRET`]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    pub(crate) pod_pull_secret: Option<String>,

    /// Format of the result
    #[arg(long, value_enum, default_value_t, global = true, help_heading = "Output")]
    pub(crate) output: Output,
    /// Log messages of at least this level
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, global = true, help_heading = "Output")]
    pub(crate) log_level: Option<LogLevel>,
    /// Prefix of each log line
    #[arg(long, value_name = "WORD", global = true, help_heading = "Output")]
    pub(crate) log_prefix: Option<LogPrefix>,
    /// Timestamp on each log line
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) log_timestamps: bool,

    /// Start time, to simulate nights with the embedded Azure
    #[arg(long, value_name = "TIME", global = true, hide = true)]
    pub(crate) now: Option<Timestamp>,
    /// Speed-up factor of kiln's clock, to simulate timeouts
    #[arg(long, value_name = "FACTOR", default_value_t = 1, global = true, hide = true)]
    pub(crate) clock_rate: u32,
}

impl Common {
    /// The managed identity to log in with.
    pub(crate) fn managed_identity(&self) -> Option<ManagedIdentity> {
        self.managed_identity.as_ref().map(|id| match id.as_str() {
            SYSTEM_IDENTITY => ManagedIdentity::System,
            id => ManagedIdentity::from_id(id.to_owned()),
        })
    }

    /// The state folder of `kiln local`, if it is to be used. Azure arguments take precedence over the environment variable.
    pub(crate) fn local(&self, environment: &Environment) -> Option<PathBuf> {
        let azure = self.resource_group.is_some()
            || self.subscription.is_some()
            || self.in_cluster
            || self.managed_identity.is_some();
        let variable = || environment.get(VARIABLE).filter(|_| !azure).map(PathBuf::from);
        self.local.clone().or_else(variable)
    }
}
