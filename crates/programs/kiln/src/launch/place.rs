//! Which Azure, and which cluster.

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

#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Resource group of the machines [env: `AZURE_RESOURCE_GROUP`] [default: that of the settings]
    #[arg(short = 'g', long, value_name = "NAME", global = true, help_heading = "Azure")]
    resource_group: Option<String>,
    /// Subscription of the resource group, a GUID [env: `AZURE_SUBSCRIPTION_ID`]
    #[arg(short = 's', long, value_name = "GUID", global = true, help_heading = "Azure")]
    subscription: Option<Subscription>,
    /// Run as a pod: the pod's service account, and azure.json or workload identity
    #[arg(long, global = true, help_heading = "Azure")]
    in_cluster: bool,
    /// Cloud provider's file, with --in-cluster
    #[arg(long, value_name = "FILE", default_value = AZURE_JSON, global = true, help_heading = "Azure")]
    pub(super) azure_json: PathBuf,

    /// Cluster to look into [default: as kubectl finds it]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Kubernetes")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    context: Option<String>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t, global = true, help_heading = "Output")]
    pub(super) output: Output,
    /// The time to begin at, to rehearse against the embedded Azure
    #[arg(long, value_name = "TIME", global = true, hide = true)]
    pub(super) now: Option<Timestamp>,
}

impl Place {
    fn common(&self) -> Common {
        Common {
            resource_group: self.resource_group.clone(),
            subscription: self.subscription.clone(),
            in_cluster: self.in_cluster,
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

    /// The resource group that the options and the environment name.
    pub(super) async fn azure(&self, environment: &Environment, now: &Now) -> Result<Azure, Failure> {
        Ok(connect::azure(&self.common(), environment, now).await?.0)
    }

    /// The resource group that machines of these inputs are made in. One that is named otherwise by an option is a mistake: the node would
    /// be told of another group than its own.
    pub(super) async fn azure_of(
        &self,
        inputs: &Resolved,
        environment: &Environment,
        now: &Now,
    ) -> Result<Azure, Failure> {
        let mut common = self.common();
        let (group, subscription) = (inputs.text("resourceGroup"), inputs.text("subscriptionId"));
        let differs = |given: Option<&str>, said: &str| {
            given.is_some_and(|given| !said.is_empty() && !given.eq_ignore_ascii_case(said))
        };
        if differs(common.resource_group.as_deref(), group) {
            let given = common.resource_group.unwrap_or_default();
            return Err(Failure::input(format_args!("`--resource-group {given}`, and the settings say `{group}`")));
        }
        if common.resource_group.is_none() && !group.is_empty() {
            common.resource_group = Some(group.to_owned());
        }
        if common.subscription.is_none() && !subscription.is_empty() {
            let parsed: Result<Subscription, String> = subscription.parse();
            common.subscription = Some(parsed.map_err(|why| Failure::input(format_args!("`subscriptionId`: {why}")))?);
        }
        Ok(connect::azure(&common, environment, now).await?.0)
    }

    /// How the cluster is reached.
    pub(super) async fn cluster(&self, environment: &Environment) -> Result<kube::Config, Failure> {
        connect::cluster_config(&self.common(), environment).await
    }

    /// Whether somebody said where the cluster is.
    pub(super) fn names_cluster(&self, environment: &Environment) -> bool {
        self.kubeconfig.is_some() || self.in_cluster || environment.get("KUBECONFIG").is_some()
    }
}
