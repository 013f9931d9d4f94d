//! Connecting to Azure and to the cluster.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{AzureJson, Cloud, Environment, Login, LoginChoice, LoginError, choose, discover};
use kiln_azure::wire::{HttpOptions, RecordError, RecordFile, Recorder, http_client};
use kiln_azure::{Azure, AzureOptions};
use kiln_kubernetes::{Cluster, ClusterOptions, Namespace, WallClock};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::common::Common;
use crate::failure::Failure;

/// The endpoint of a resource manager other than Azure's own.
const ARM_ENDPOINT: &str = "KILN_ARM_ENDPOINT";
/// Certificates to trust in addition to the system's.
const CA_FILE: &str = "KILN_CA_FILE";
/// The host of the metadata service, as Azure's SDKs name it.
const METADATA_HOST: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
const SUBSCRIPTION: &str = "AZURE_SUBSCRIPTION_ID";
const RESOURCE_GROUP: &str = "AZURE_RESOURCE_GROUP";

/// Azure, or another factory, and the cluster.
#[derive(Debug)]
pub(crate) struct Connection<F> {
    pub(crate) factory: F,
    pub(crate) cluster: Cluster,
    pub(crate) namespace: Namespace,
    pub(crate) resource_group: String,
    /// The node that kiln runs on, in a pod.
    pub(crate) own_node: Option<String>,
    /// The image of the pods that inspect nodes; in a pod kiln's own image.
    pub(crate) pod_image: Option<String>,
    /// The secret to pull it with.
    pub(crate) pod_pull_secret: Option<String>,
    /// Who started this, for journals and tags.
    pub(crate) who: String,
}

/// The program's clock.
pub(crate) type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Connects to the cluster of a factory whose pools are in this resource group.
pub(crate) async fn connect<F>(
    (factory, resource_group): (F, String),
    common: &Common,
    environment: &Environment,
    now: &Now,
) -> Result<Connection<F>, Failure> {
    let cluster = cluster(common, environment, now).await?;
    let namespace = match (&common.namespace, environment.get("POD_NAMESPACE")) {
        (Some(namespace), _) => namespace.clone(),
        (None, Some(text)) => text.parse().map_err(|error| Failure::input(format_args!("POD_NAMESPACE: {error}")))?,
        (None, None) => "default".parse().map_err(Failure::failed)?,
    };
    let pull_secret =
        common.pod_pull_secret.clone().or_else(|| environment.get("POD_PULL_SECRET").map(ToOwned::to_owned));
    Ok(Connection {
        factory,
        cluster,
        namespace,
        resource_group,
        own_node: environment.get("NODE_ID").map(ToOwned::to_owned),
        pod_image: common.pod_image.clone().or_else(|| environment.get("POD_IMAGE").map(ToOwned::to_owned)),
        pod_pull_secret: pull_secret,
        who: who(environment),
    })
}

/// Connects to a resource group of Azure; with its name.
pub(crate) async fn azure(common: &Common, environment: &Environment, now: &Now) -> Result<(Azure, String), Failure> {
    let metadata_base = match environment.get(METADATA_HOST) {
        Some(text) => Some(text.parse().map_err(|error| Failure::input(format_args!("{METADATA_HOST}: {error}")))?),
        None => None,
    };
    let options = HttpOptions { ca_file: environment.get(CA_FILE).map(Into::into), metadata_base };
    let http = http_client(&options).map_err(|error| Failure::chain(2, &error))?;
    let cloud = match environment.get(ARM_ENDPOINT) {
        Some(text) => {
            let url = text.parse().map_err(|error| Failure::input(format_args!("{ARM_ENDPOINT}: {error}")))?;
            Some(discover(http.as_ref(), &url).await.map_err(|error| login_failure(1, &error))?)
        }
        None => None,
    };
    let known = Known::find(common, environment)?;
    let login = known.login(cloud, environment)?;
    let subscription = known.subscription(common, environment)?;
    let resource_group = known.resource_group(common, environment)?;
    let credential = login.credential(&http).map_err(|error| Failure::chain(2, &error))?;
    let scope = Scope::new(&subscription, &resource_group).map_err(Failure::input)?;
    let jitter = Jitter::new(spread(now.as_ref()()));
    let recorder = match &common.record {
        Some(folder) => Some(recorder(folder, now.as_ref()())?),
        None => None,
    };
    let options = AzureOptions { cloud: login.cloud, credential, http, jitter, recorder };
    let azure = Azure::new(scope, options);
    let azure = match &common.gallery_resource_group {
        Some(group) => {
            let subscription = common.gallery_subscription.as_ref().map_or(&*subscription, |id| id.as_str());
            azure.with_galleries(Scope::new(subscription, group).map_err(Failure::input)?)
        }
        None => azure,
    };
    Ok((azure, resource_group))
}

/// Creates the recording of this command and names it.
fn recorder(folder: &Path, now: Timestamp) -> Result<Arc<dyn Recorder>, Failure> {
    let name = format!("azure-{}-{}.jsonl", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id());
    let warn =
        |error: &RecordError| eprintln!("warning: {}; the run continues", kiln_types::error_chain::to_line(error));
    let file = RecordFile::create(folder, &name, warn).map_err(|error| Failure::chain(2, &error))?;
    eprintln!("recording Azure's answers in `{}`; look through it before you share it", file.path.display());
    Ok(Arc::new(file))
}

/// The contents of `azure.json`, if it is used.
struct Known {
    json: Option<AzureJson>,
    /// The login that does not come from the file.
    choice: Option<LoginChoice>,
}

impl Known {
    /// In a pod with workload identity or a managed identity the file only supplies defaults; in other pods it also has the credentials.
    fn find(common: &Common, environment: &Environment) -> Result<Self, Failure> {
        let workload = environment.get(Environment::FEDERATED_TOKEN_FILE).is_some();
        let choice = match common.managed_identity() {
            Some(identity) => Some(LoginChoice::Managed(identity)),
            None if common.in_cluster => workload.then_some(LoginChoice::Workload),
            None => Some(LoginChoice::Automatic),
        };
        let wanted = common.in_cluster && (choice.is_none() || common.azure_json.exists());
        let json = if wanted {
            let read = AzureJson::read(&common.azure_json, common.azure_stack.as_deref());
            Some(read.map_err(|error| unread_file(&error))?)
        } else {
            None
        };
        Ok(Self { json, choice })
    }

    fn login(&self, cloud: Option<Cloud>, environment: &Environment) -> Result<Login, Failure> {
        if let (Some(json), None) = (&self.json, &self.choice) {
            let cloud = cloud.unwrap_or_else(|| json.cloud.clone());
            return Ok(Login { cloud, identity: json.identity.clone() });
        }
        let cloud = cloud.or_else(|| self.json.as_ref().map(|json| json.cloud.clone()));
        let choice = self.choice.clone().unwrap_or_default();
        choose(&choice, None, cloud, environment).map_err(|error| login_failure(2, &error))
    }

    fn subscription(&self, common: &Common, environment: &Environment) -> Result<String, Failure> {
        let given = common.subscription.as_ref().map(|id| id.as_str().to_owned());
        let json = || self.json.as_ref().map(|json| json.subscription.clone());
        let variable = || environment.get(SUBSCRIPTION).map(ToOwned::to_owned);
        given
            .or_else(json)
            .or_else(variable)
            .ok_or_else(|| missing("the subscription", "`--subscription GUID`", SUBSCRIPTION, "subscriptionId", common))
    }

    fn resource_group(&self, common: &Common, environment: &Environment) -> Result<String, Failure> {
        let given = common.resource_group.clone();
        let json = || self.json.as_ref().map(|json| json.resource_group.clone());
        let variable = || environment.get(RESOURCE_GROUP).map(ToOwned::to_owned);
        given.or_else(json).or_else(variable).ok_or_else(|| {
            missing("the resource group", "`--resource-group NAME`", RESOURCE_GROUP, "resourceGroup", common)
        })
    }
}

/// The failure to read `azure.json`. A pod may have another identity.
fn unread_file(error: &LoginError) -> Failure {
    let failure = Failure::chain(2, error);
    match error {
        LoginError::Read { .. } => {
            failure.hint("mount the file, or log in with workload identity or `--managed-identity`")
        }
        _ => failure,
    }
}

fn login_failure(code: u8, error: &LoginError) -> Failure {
    let failure = Failure::chain(code, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn missing(what: &str, option: &str, variable: &str, field: &str, common: &Common) -> Failure {
    let file =
        if common.in_cluster { &format!(", or put `{field}` into `{}`", common.azure_json.display()) } else { "" };
    Failure::input(format_args!("{what} is not known: use {option}, or set `{variable}`{file}"))
}

async fn cluster(common: &Common, environment: &Environment, now: &Now) -> Result<Cluster, Failure> {
    cluster_of(cluster_config(common, environment).await?, now)
}

/// The configuration of the cluster's client.
pub(crate) async fn cluster_config(common: &Common, environment: &Environment) -> Result<kube::Config, Failure> {
    pod_or_file(common.in_cluster, common.kubeconfig.as_deref(), common.context.clone(), environment).await
}

/// The configuration of this pod's service account if `in_cluster` is set and no kubeconfig is named, else that of the kubeconfig.
pub(crate) async fn pod_or_file(
    in_cluster: bool,
    kubeconfig: Option<&Path>,
    context: Option<String>,
    environment: &Environment,
) -> Result<kube::Config, Failure> {
    if kubeconfig.is_none() && in_cluster && environment.get("KUBECONFIG").is_none() {
        return kube::Config::incluster().map_err(|error| {
            Failure::chain(2, &error).hint("`--in-cluster` works only in pods; use `--kubeconfig` elsewhere")
        });
    }
    config_of(kubeconfig, context).await
}

/// The configuration from this kubeconfig, or from kubectl's.
pub(crate) async fn config_of(kubeconfig: Option<&Path>, context: Option<String>) -> Result<kube::Config, Failure> {
    let chosen = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    match kubeconfig {
        Some(path) => from_file(Kubeconfig::read_from(path), &chosen).await,
        None => from_file(Kubeconfig::read(), &chosen)
            .await
            .map_err(|failure| failure.hint("use `--kubeconfig FILE`, or set `KUBECONFIG`")),
    }
}

/// Clock and randomness for the cluster's client.
pub(crate) fn cluster_options(now: &Now) -> ClusterOptions {
    let clock = now.clone();
    ClusterOptions { jitter: Jitter::new(spread(now.as_ref()())), clock: WallClock::new(move || clock.as_ref()()) }
}

/// The cluster of a configuration.
pub(crate) fn cluster_of(config: kube::Config, now: &Now) -> Result<Cluster, Failure> {
    let client = kiln_kubernetes::connect(config).map_err(|error| Failure::chain(2, &error))?;
    Ok(Cluster::new(client, cluster_options(now)))
}

async fn from_file(
    read: Result<Kubeconfig, KubeconfigError>,
    options: &KubeConfigOptions,
) -> Result<kube::Config, Failure> {
    let read = read.map_err(|error| Failure::chain(2, &error))?;
    let has_proxy = read.clusters.iter().any(|named| named.cluster.as_ref().is_some_and(|c| c.proxy_url.is_some()));
    let config = kube::Config::from_custom_kubeconfig(read, options).await;
    let mut config = config.map_err(|error| Failure::chain(2, &error))?;
    if !has_proxy {
        // A proxy in the environment is meant for Azure. The API server is behind a proxy only if its kubeconfig has one.
        config.proxy_url = None;
    }
    Ok(config)
}

/// Random numbers to spread the retries of many clients. They only need to differ between processes.
fn spread(seed: Timestamp) -> impl Fn() -> f64 + Send + Sync + 'static {
    let state = AtomicU64::new(seed.as_microsecond().unsigned_abs() ^ (u64::from(std::process::id()) << 32));
    move || {
        let number = kiln_types::hash::SplitMix64::new(state.fetch_add(1, Ordering::Relaxed)).next_u64();
        f64::from(u32::try_from(number >> 32).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
    }
}

/// The name of the pod, or the user and host name.
pub(crate) fn who(environment: &Environment) -> String {
    if let (Some(namespace), Some(pod)) = (environment.get("POD_NAMESPACE"), environment.get("POD_NAME")) {
        return format!("pod {namespace}/{pod}");
    }
    let user = environment.get("USER").or_else(|| environment.get("LOGNAME")).unwrap_or("unknown");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => user.to_owned(),
        host => format!("{user}@{host}"),
    }
}
