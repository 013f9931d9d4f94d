//! Connection options: Azure and the cluster.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kiln_azure::Azure;
use kiln_azure::login::Environment;
use kiln_bootstrap::Resolved;

use crate::answer::Output;
use crate::failure::Failure;
use crate::prototype::common::{AZURE_JSON, Common};
use crate::prototype::connect::{self, Now};
use crate::prototype::values::Subscription;

/// Options that select the Azure resource group and the cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connection {
    /// Resource group of the machines [env: `AZURE_RESOURCE_GROUP`] [default: `resourceGroup` of the settings]
    #[arg(short = 'g', long, value_name = "NAME", global = true, help_heading = "Azure")]
    resource_group: Option<String>,
    /// Subscription ID of the resource group [env: `AZURE_SUBSCRIPTION_ID`]
    #[arg(short = 's', long, value_name = "GUID", global = true, help_heading = "Azure")]
    subscription: Option<Subscription>,
    /// Run in a pod, with its service account and azure.json or workload identity
    #[arg(long, global = true, help_heading = "Azure")]
    in_cluster: bool,
    /// Configuration file of the cloud provider, with --in-cluster
    #[arg(long, value_name = "FILE", default_value = AZURE_JSON, global = true, help_heading = "Azure")]
    pub(super) azure_json: PathBuf,

    /// Kubeconfig of the cluster [default: as for kubectl]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Kubernetes")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    context: Option<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t, global = true, help_heading = "Output")]
    pub(super) output: Output,
    /// Start time, for use with the embedded Azure
    #[arg(long, value_name = "TIME", global = true, hide = true)]
    pub(super) now: Option<Timestamp>,
}

impl Connection {
    fn common(&self) -> Common {
        Common {
            resource_group: self.resource_group.clone(),
            subscription: self.subscription.clone(),
            gallery_resource_group: None,
            record: None,
            gallery_subscription: None,
            in_cluster: self.in_cluster,
            managed_identity: None,
            azure_json: self.azure_json.clone(),
            azure_stack: None,
            local: None,
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: None,
            pod_image: None,
            pod_pull_secret: None,
            output: self.output,
            log_level: None,
            log_prefix: None,
            log_timestamps: false,
            now: None,
            clock_rate: 1,
        }
    }

    /// Connects to the resource group that options and environment name.
    pub(super) async fn azure(&self, environment: &Environment, now: &Now) -> Result<Azure, Failure> {
        Ok(connect::azure(&self.common(), environment, now).await?.0)
    }

    /// Connects to the resource group of the inputs. A different group in an option is an error, because the node would be configured with
    /// a group other than its own.
    pub(super) async fn azure_for(
        &self,
        inputs: &Resolved,
        environment: &Environment,
        now: &Now,
    ) -> Result<Azure, Failure> {
        let mut common = self.common();
        let (group, subscription) = (inputs.text("resourceGroup"), inputs.text("subscriptionId"));
        let differs = |option: Option<&str>, setting: &str| {
            option.is_some_and(|option| !setting.is_empty() && !option.eq_ignore_ascii_case(setting))
        };
        if differs(common.resource_group.as_deref(), group) {
            let option = common.resource_group.unwrap_or_default();
            let message =
                format_args!("`--resource-group {option}` differs from `resourceGroup: {group}` in the settings");
            return Err(Failure::input(message));
        }
        if common.resource_group.is_none() && !group.is_empty() {
            common.resource_group = Some(group.to_owned());
        }
        if common.subscription.is_none() && !subscription.is_empty() {
            let parsed: Result<Subscription, String> = subscription.parse();
            common.subscription =
                Some(parsed.map_err(|error| Failure::input(format_args!("`subscriptionId`: {error}")))?);
        }
        Ok(connect::azure(&common, environment, now).await?.0)
    }

    /// Returns the configuration of the Kubernetes client.
    pub(super) async fn cluster(&self, environment: &Environment) -> Result<kube::Config, Failure> {
        connect::cluster_config(&self.common(), environment).await
    }

    /// Whether options or environment name a cluster.
    pub(super) fn names_cluster(&self, environment: &Environment) -> bool {
        self.kubeconfig.is_some() || self.in_cluster || environment.get("KUBECONFIG").is_some()
    }
}
