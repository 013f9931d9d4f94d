//! `kiln operator`: the controllers of the fleet, as a process.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kiln_azure::login::Environment;
use kiln_engine::operator::{ImageOptions, OperatorEvent, OperatorOptions};
use kiln_engine::{Context, DiscardEvents, Stop as EngineStop};
use kiln_kubernetes::{Cluster, Namespace, Owner, PodInspector};

use crate::answer::Output;
use crate::failure::Failure;
use crate::fleet::{ClusterArgs, time, with_runtime};
use crate::prototype::common::{AZURE_JSON, Common};
use crate::prototype::connect::{self, Now};
use crate::prototype::values::{LogLevel, Subscription};
use crate::prototype::{IMAGE, ids};
use crate::stop::Stop;

const EXAMPLES: &str = "Examples:
  kiln operator --namespace kiln-system
      On a laptop, with kubectl's kubeconfig; one operator at a time acts, others stand by.
  kiln operator --in-cluster --listen 0.0.0.0:9464
      In a pod, as the chart runs it with `operator.enabled=true`.

  kiln operator --images --resource-group prod --subscription 12345678-1234-1234-1234-1234567890ab
      Also runs Prototypes and rollouts with an image version; the Azure options are those of `kiln prototype`.

SIGTERM and SIGINT release the lease and end the process. Nodes in flight stay as they are, and the next operator continues with them.";

/// Shortest lease. The leader renews it several times within its time, and a shorter one changes hands when a request takes long.
const SHORTEST_LEASE: u64 = 5;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Operator {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the lease that the acting operator holds [env: `POD_NAMESPACE`] [default: default]
    #[arg(long, value_name = "NAME", help_heading = "Kubernetes")]
    namespace: Option<Namespace>,
    /// Name of this process among the operators [env: `POD_NAME`] [default: the host name]
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Address of `/metrics`, `/healthz` and `/readyz`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Time without a renewal of the lease after which another operator takes over, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = OperatorOptions::LEASE.as_secs(), value_parser = clap::value_parser!(u64).range(SHORTEST_LEASE..=3600))]
    lease_seconds: u64,
    /// Create a role for each node that lets it read its own `NodeState`; for clusters whose nodes may not read all of them
    #[arg(long, help_heading = "Kubernetes")]
    per_node_read: bool,
    #[command(flatten)]
    images: ImageArgs,
    /// Log messages of at least this level
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value_t, help_heading = "Output")]
    log_level: LogLevel,
}

/// Options for image versions.
#[derive(Debug, Args)]
struct ImageArgs {
    /// Run Prototypes and rollouts with an image version, which needs access to Azure
    #[arg(long, help_heading = "Azure")]
    images: bool,
    /// Resource group of the scale sets [env: `AZURE_RESOURCE_GROUP`]
    #[arg(short = 'g', long, value_name = "NAME", help_heading = "Azure", requires = "images")]
    resource_group: Option<String>,
    /// Subscription of the resource group, a GUID [env: `AZURE_SUBSCRIPTION_ID`]
    #[arg(short = 's', long, value_name = "GUID", help_heading = "Azure", requires = "images")]
    subscription: Option<Subscription>,
    /// Resource group of the gallery [default: the one of the scale sets]
    #[arg(long, value_name = "NAME", help_heading = "Azure", requires = "images")]
    gallery_resource_group: Option<String>,
    /// Subscription of the gallery, in the same tenant [default: the one of the scale sets]
    #[arg(long, value_name = "GUID", help_heading = "Azure", requires = "gallery_resource_group")]
    gallery_subscription: Option<Subscription>,
    /// Log in with a managed identity of this machine: `system`, a client id or a resource id [default: system]
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, default_missing_value = "system", help_heading = "Azure", requires = "images")]
    managed_identity: Option<String>,
    /// Cloud provider's file, for --in-cluster
    #[arg(long, value_name = "FILE", default_value = AZURE_JSON, help_heading = "Azure")]
    azure_json: PathBuf,
    /// Endpoints of an Azure Stack [default: azurestackcloud.json in the directory of azure.json]
    #[arg(long, value_name = "FILE", help_heading = "Azure", requires = "images")]
    azure_stack: Option<PathBuf>,
    /// Image of the pods that inspect nodes [env: `POD_IMAGE`] [default: this version of kiln]
    #[arg(long, value_name = "IMAGE", help_heading = "Azure", requires = "images")]
    pod_image: Option<String>,
    /// Secret in the namespace to pull that image with [env: `POD_PULL_SECRET`]
    #[arg(long, value_name = "NAME", help_heading = "Azure", requires = "images")]
    pod_pull_secret: Option<String>,
}

impl ImageArgs {
    /// The options of `kiln prototype` that select Azure.
    fn common(&self, in_cluster: bool) -> Common {
        Common {
            resource_group: self.resource_group.clone(),
            subscription: self.subscription.clone(),
            gallery_resource_group: self.gallery_resource_group.clone(),
            gallery_subscription: self.gallery_subscription.clone(),
            in_cluster,
            managed_identity: self.managed_identity.clone(),
            azure_json: self.azure_json.clone(),
            azure_stack: self.azure_stack.clone(),
            record: None,
            local: None,
            kubeconfig: None,
            context: None,
            namespace: None,
            pod_image: self.pod_image.clone(),
            pod_pull_secret: self.pod_pull_secret.clone(),
            output: Output::default(),
            log_level: None,
            log_prefix: None,
            log_timestamps: false,
            now: None,
            clock_rate: 1,
        }
    }

    /// Connects to Azure.
    async fn connect(
        &self,
        in_cluster: bool,
        cluster: &Cluster,
        namespace: &Namespace,
        environment: &Environment,
        clock: &Now,
    ) -> Result<ImageOptions, Failure> {
        let (factory, resource_group) = connect::azure(&self.common(in_cluster), environment, clock).await?;
        let own_node = match environment.get("NODE_ID") {
            Some(name) => Some(name.parse().map_err(|error| Failure::input(format_args!("NODE_ID: {error}")))?),
            None => None,
        };
        let image = self.pod_image.clone().or_else(|| environment.get("POD_IMAGE").map(ToOwned::to_owned));
        let secret = self.pod_pull_secret.clone().or_else(|| environment.get("POD_PULL_SECRET").map(ToOwned::to_owned));
        let inspector = PodInspector::new(cluster, namespace, image.unwrap_or_else(|| IMAGE.to_owned()));
        let context = Context {
            factory: Arc::new(factory),
            cluster: cluster.clone(),
            inspector: Arc::new(inspector.pull_secret(secret)),
            namespace: namespace.clone(),
            resource_group,
            clock: clock.clone(),
            ids: ids(clock),
            own_node,
            who: connect::who(environment),
            events: Arc::new(DiscardEvents),
            stop: EngineStop::never(),
        };
        Ok(ImageOptions::new(Arc::new(context)))
    }
}

pub(crate) fn run(arguments: &Operator, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    with_runtime(now, async |clock, environment| {
        let signals = Stop::new()?;
        let mut options = options(arguments, &environment, &clock)?;
        let cluster = arguments.cluster.connect(&environment, &clock).await?;
        if arguments.images.images {
            let in_cluster = arguments.cluster.in_cluster();
            let connected =
                arguments.images.connect(in_cluster, &cluster, &options.namespace, &environment, &clock).await?;
            options.images = Some(connected);
        }
        let (stopper, stop) = EngineStop::pair();
        let stopping = tokio::spawn(stop_on_signal(signals, stopper));
        let result = Box::pin(kiln_engine::operator::run(cluster, options, stop)).await;
        stopping.abort();
        result.map_err(|error| Failure::chain(1, &error))
    })
}

/// The first signal lets the operator release its lease; the second ends the process at once.
async fn stop_on_signal(mut signals: Stop, stopper: kiln_engine::Stopper) {
    signals.next().await;
    stopper.stop();
    signals.next().await;
    std::process::exit(130);
}

fn options(arguments: &Operator, environment: &Environment, clock: &Now) -> Result<OperatorOptions, Failure> {
    let namespace: Namespace = match (&arguments.namespace, environment.get("POD_NAMESPACE")) {
        (Some(namespace), _) => namespace.clone(),
        (None, Some(text)) => text.parse().map_err(|error| Failure::input(format_args!("POD_NAMESPACE: {error}")))?,
        (None, None) => "default".parse().map_err(Failure::failed)?,
    };
    let mut options = OperatorOptions::new(namespace, identity(arguments, environment)?, clock.clone());
    options.listen = Some(arguments.listen);
    options.lease = Duration::from_secs(arguments.lease_seconds);
    options.per_node_read = arguments.per_node_read;
    let (level, clock) = (arguments.log_level, clock.clone());
    options.report = Arc::new(move |event: &OperatorEvent| log(level, clock.as_ref()(), event));
    Ok(options)
}

/// The name in the lease. Two operators with the same name would both believe that they hold it, so the process id is part of it where the name is not that of
/// a pod.
fn identity(arguments: &Operator, environment: &Environment) -> Result<Owner, Failure> {
    let name = match (&arguments.identity, environment.get("POD_NAME")) {
        (Some(name), _) => name.clone(),
        (None, Some(pod)) => pod.to_owned(),
        (None, None) => {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let host = if host.trim().is_empty() { "unknown" } else { host.trim() };
            format!("{host}-{}", std::process::id())
        }
    };
    name.parse().map_err(|error| Failure::input(format_args!("`--identity {name}`: {error}")))
}

fn level(event: &OperatorEvent) -> LogLevel {
    match event {
        OperatorEvent::LostLease { .. }
        | OperatorEvent::WatchFailed { .. }
        | OperatorEvent::Failed { .. }
        | OperatorEvent::Notice { warning: true, .. } => LogLevel::Warning,
        OperatorEvent::Listening(_)
        | OperatorEvent::Standby { .. }
        | OperatorEvent::Leading { .. }
        | OperatorEvent::Notice { .. }
        | OperatorEvent::Stopped => LogLevel::Info,
    }
}

fn log(least: LogLevel, at: Timestamp, event: &OperatorEvent) {
    let level = level(event);
    if level >= least {
        // A closed standard error does not stop the operator.
        let _ = writeln!(std::io::stderr().lock(), "{} {level} {event}", time(at));
    }
}
