//! Options for detection: `--kubeconfig` and `--azure` detect values that no source sets.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser};
use jiff::Timestamp;
use kiln_azure::Azure;
use kiln_azure::login::Environment;
use kiln_bootstrap::{Resolved, Source, resolve, sources};
use kiln_engine::detect::{self, AzureJsonFacts, Detected, KarpenterNames, KarpenterObjects, karpenter};
use kiln_kubernetes::Endpoint;
use kiln_prototype::span::Span;

use super::files;
use super::sources::Sources;
use crate::failure::Failure;
use crate::prototype::common::Common;
use crate::prototype::connect::{self, Now};

/// Connection options of `kiln prototype` with their defaults.
#[derive(Debug, Parser)]
struct Connection {
    #[command(flatten)]
    common: Common,
}

/// Options of detection.
#[derive(Debug, Clone, Args)]
pub(super) struct Detect {
    /// Detect missing values in the cluster of this kubeconfig
    #[arg(long, value_name = "FILE", help_heading = "Detection")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Detection")]
    context: Option<String>,
    /// Read this `NodePool` from the cluster
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Detection")]
    pool: Option<String>,
    /// Read this `AKSNodeClass` from the cluster [default: the class of the pool or claim]
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Detection")]
    class: Option<String>,
    /// Read this `NodeClaim` from the cluster, with its pool and class
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Detection")]
    claim: Option<String>,
    /// Detect subnet, security group and identities in Azure [login: as for `kiln prototype`]
    #[arg(long, help_heading = "Detection")]
    azure: bool,
    /// Detect values in a copy of a node's /etc/kubernetes/azure.json
    #[arg(long, value_name = "FILE", help_heading = "Detection")]
    azure_json: Option<PathBuf>,
    /// Trust the API server by the digest of its certificate or key: `sha256:…`
    #[arg(long, value_name = "PIN", help_heading = "Detection")]
    ca_pin: Option<String>,
    /// Time limit of detection
    #[arg(long, value_name = "TIME", default_value_t = DEFAULT_TIMEOUT, help_heading = "Detection")]
    timeout: Span,
}

/// Detection needs about a dozen requests, which take a second or two.
const DEFAULT_TIMEOUT: Span = Span::from_secs(30);

impl Detect {
    /// Whether an option enables detection.
    pub(super) fn is_enabled(&self) -> bool {
        self.kubeconfig.is_some() || self.azure || self.azure_json.is_some() || self.ca_pin.is_some()
    }

    /// Resolves sources and detected values. Prints a note for each value that was neither set nor found.
    pub(super) fn resolve(&self, sources: &Sources, now: &dyn Fn() -> Timestamp) -> Result<Resolved, Failure> {
        let mut all = sources.read()?;
        if !self.is_enabled() {
            return Ok(resolve(&all));
        }
        let (found, objects) = self.detect(&resolve(&all), false, now())?;
        add_objects(&objects, &mut all)?;
        all.push(found.to_source().map_err(Failure::input)?);
        let resolved = resolve(&all);
        for miss in found.unmet(&resolved) {
            eprintln!("note: {miss}");
        }
        Ok(resolved)
    }

    /// Detects values and reads the named objects. `needs_cluster` falls back to the default kubeconfig of kubectl.
    pub(super) fn detect(
        &self,
        set: &Resolved,
        needs_cluster: bool,
        begin: Timestamp,
    ) -> Result<(Detected, KarpenterObjects), Failure> {
        let environment: Environment =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
        let clock: Now = Arc::new(move || begin);
        let detected = runtime.block_on(self.request(set, needs_cluster, &environment, &clock));
        runtime.shutdown_background();
        detected
    }

    async fn request(
        &self,
        set: &Resolved,
        needs_cluster: bool,
        environment: &Environment,
        now: &Now,
    ) -> Result<(Detected, KarpenterObjects), Failure> {
        let common = self.common(set)?;
        let azure: Option<Azure> =
            if self.azure { Some(connect::azure(&common, environment, now).await?.0) } else { None };
        let cluster = if self.kubeconfig.is_some() || needs_cluster {
            let config = connect::cluster_config(&common, environment).await?;
            let endpoint = Endpoint::from_config(&config);
            Some((connect::cluster_of(config, now)?, endpoint))
        } else {
            None
        };
        let known = self
            .azure_json
            .as_deref()
            .map(|path| AzureJsonFacts::read(path.display().to_string(), &files::text(path)?).map_err(Failure::input));
        let known = known.transpose()?;
        // Without a kubeconfig, only a pin proves the identity of the API server.
        let address = Some(set.text("clusterEndpoint")).filter(|url| !url.is_empty() && self.ca_pin.is_some());
        let address = address.map(Endpoint::untrusted);
        let inputs = detect::Sources {
            endpoint: cluster.as_ref().map(|(_, endpoint)| endpoint).or(address.as_ref()),
            cluster: cluster.as_ref().map(|(cluster, _)| cluster),
            anonymous: Some(connect::cluster_options(now)),
            pin: self.ca_pin.as_deref(),
            azure: azure.as_ref(),
            azure_json: known.as_ref(),
        };
        let found = tokio::time::timeout(self.timeout.into(), detect::settings(&inputs)).await;
        let found = found.map_err(|_| self.timeout_failure(&inputs))?;
        let names = KarpenterNames {
            node_pool: self.pool.clone(),
            node_class: self.class.clone(),
            node_claim: self.claim.clone(),
        };
        let objects = match &cluster {
            Some((cluster, _)) if names != KarpenterNames::default() => {
                karpenter(cluster, &names).await.map_err(|error| Failure::chain(1, &error))?
            }
            _ => KarpenterObjects::default(),
        };
        Ok((found, objects))
    }

    fn timeout_failure<L>(&self, inputs: &detect::Sources<'_, L>) -> Failure {
        let server = inputs.endpoint.map_or("Azure", |endpoint| &endpoint.url);
        let failure = Failure::failed(format_args!("{server} did not respond to all requests within {}", self.timeout));
        failure.hint("set the missing fields in the settings, or increase `--timeout`")
    }

    fn common(&self, set: &Resolved) -> Result<Common, Failure> {
        let text = |field: &str| Some(set.text(field).to_owned()).filter(|text| !text.is_empty());
        let subscription = text("subscriptionId").map(|id| id.parse());
        let subscription =
            subscription.transpose().map_err(|error| Failure::input(format_args!("`subscriptionId`: {error}")))?;
        // All other connection options have defaults.
        let parsed = Connection::try_parse_from(["kiln"]).map_err(Failure::failed)?;
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        Ok(Common { resource_group: text("resourceGroup"), subscription, kubeconfig, context, ..parsed.common })
    }
}

/// Adds objects of the cluster before all other sources, because the last source of a kind wins.
pub(crate) fn add_objects(objects: &KarpenterObjects, all: &mut Vec<Source>) -> Result<(), Failure> {
    let mut from_cluster = Vec::new();
    if let Some(pool) = &objects.node_pool {
        from_cluster.push(sources::node_pool(pool).map_err(Failure::input)?);
    }
    if let Some(claim) = &objects.node_claim {
        from_cluster.push(sources::node_claim(claim).map_err(Failure::input)?);
    }
    if let Some(class) = &objects.node_class {
        let both: Vec<Source> = from_cluster.iter().chain(all.iter()).cloned().collect();
        let arch = resolve(&both).text("arch").to_owned();
        from_cluster.extend(sources::node_class(class, &arch).map_err(Failure::input)?);
    }
    all.splice(0..0, from_cluster).for_each(drop);
    Ok(())
}
