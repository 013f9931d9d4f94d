//! What need not be told: `--kubeconfig` and `--azure` look for what no source says.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser};
use jiff::Timestamp;
use kiln_azure::Azure;
use kiln_azure::login::Environment;
use kiln_bootstrap::sources as layers_of;
use kiln_bootstrap::{Layer, Resolved, resolve};
use kiln_engine::detect::{self, AzureJsonFacts, Detected, KarpenterNames, KarpenterObjects, karpenter};
use kiln_kubernetes::Endpoint;
use kiln_prototype::span::Span;

use super::files;
use super::sources::Sources;
use crate::failure::Failure;
use crate::prototype::common::Common;
use crate::prototype::connect::{self, Now};

/// How `kiln prototype` connects when nobody says anything.
#[derive(Debug, Parser)]
struct Connection {
    #[command(flatten)]
    common: Common,
}

/// What was found, and the objects that were named.
type Sourced = (Detected, KarpenterObjects);

/// Where to look.
#[derive(Debug, Clone, Args)]
pub(super) struct Detect {
    /// Look in this cluster for what no source says
    #[arg(long, value_name = "FILE", help_heading = "Detection")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Detection")]
    context: Option<String>,
    /// `NodePool` of that cluster
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Detection")]
    pool: Option<String>,
    /// `AKSNodeClass` of that cluster [default: the one that pool or claim names]
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Detection")]
    class: Option<String>,
    /// `NodeClaim` of that cluster, with its pool and class
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Detection")]
    claim: Option<String>,
    /// Look in Azure too: subnet, security group, identities [login: as for `kiln prototype`]
    #[arg(long, help_heading = "Detection")]
    azure: bool,
    /// Look in what a node knows of its cloud, a copy of its /etc/kubernetes/azure.json
    #[arg(long, value_name = "FILE", help_heading = "Detection")]
    azure_json: Option<PathBuf>,
    /// Trust the API server by a digest: `sha256:…`, of a certificate that it shows or of its key
    #[arg(long, value_name = "PIN", help_heading = "Detection")]
    ca_pin: Option<String>,
    /// How long to look
    #[arg(long, value_name = "TIME", default_value_t = PATIENCE, help_heading = "Detection")]
    timeout: Span,
}

/// A dozen questions take a second or two; a cluster that is away for longer is no reason to keep a person waiting.
const PATIENCE: Span = Span::from_secs(30);

impl Detect {
    /// Whether there is somewhere to look.
    pub(super) fn is_wanted(&self) -> bool {
        self.kubeconfig.is_some() || self.azure || self.azure_json.is_some() || self.ca_pin.is_some()
    }

    /// One value per field; what no source says, as it was found. What was looked for in vain and nobody said is a note.
    pub(super) fn resolve(&self, sources: &Sources, now: &dyn Fn() -> Timestamp) -> Result<Resolved, Failure> {
        let mut layers = sources.layers()?;
        if !self.is_wanted() {
            return Ok(resolve(&layers));
        }
        let (found, objects) = self.look(&resolve(&layers), false, now())?;
        object_layers(&objects, &mut layers)?;
        layers.push(found.layer().map_err(Failure::input)?);
        let resolved = resolve(&layers);
        for miss in found.unmet(&resolved) {
            eprintln!("note: {miss}");
        }
        Ok(resolved)
    }

    /// Looks. A kubeconfig that nobody named is found as kubectl finds it, where the cluster must be asked.
    pub(super) fn look(&self, said: &Resolved, must: bool, begin: Timestamp) -> Result<Sourced, Failure> {
        let environment: Environment =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
        let clock: Now = Arc::new(move || begin);
        let found = runtime.block_on(self.ask(said, must, &environment, &clock));
        runtime.shutdown_background();
        found
    }

    async fn ask(&self, said: &Resolved, must: bool, environment: &Environment, now: &Now) -> Result<Sourced, Failure> {
        let common = self.common(said)?;
        let azure: Option<Azure> =
            if self.azure { Some(connect::azure(&common, environment, now).await?.0) } else { None };
        let cluster = if self.kubeconfig.is_some() || must {
            let config = connect::cluster_config(&common, environment).await?;
            let endpoint = Endpoint::of(&config);
            Some((connect::cluster_of(config, now)?, endpoint))
        } else {
            None
        };
        let known = self
            .azure_json
            .as_deref()
            .map(|path| AzureJsonFacts::read(path.display().to_string(), &files::text(path)?).map_err(Failure::input));
        let known = known.transpose()?;
        // An address alone is asked only with a pin: nobody vouches for whoever answers.
        let address = Some(said.text("clusterEndpoint")).filter(|url| !url.is_empty() && self.ca_pin.is_some());
        let address = address.map(Endpoint::unknown);
        let places = detect::Sources {
            endpoint: cluster.as_ref().map(|(_, endpoint)| endpoint).or(address.as_ref()),
            cluster: cluster.as_ref().map(|(cluster, _)| cluster),
            anonymous: Some(connect::cluster_options(now)),
            pin: self.ca_pin.as_deref(),
            azure: azure.as_ref(),
            azure_json: known.as_ref(),
        };
        let found = tokio::time::timeout(self.timeout.into(), detect::settings(&places)).await;
        let found = found.map_err(|_| self.silence(&places))?;
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

    fn silence<L>(&self, places: &detect::Sources<'_, L>) -> Failure {
        let server = places.endpoint.map_or("Azure", |endpoint| &endpoint.url);
        let failure = Failure::failed(format_args!("{server} did not answer all questions within {}", self.timeout));
        failure.hint("say in the settings what would be looked for, or wait for longer with `--timeout`")
    }

    fn common(&self, said: &Resolved) -> Result<Common, Failure> {
        let text = |field: &str| Some(said.text(field).to_owned()).filter(|text| !text.is_empty());
        let subscription = text("subscriptionId").map(|id| id.parse());
        let subscription =
            subscription.transpose().map_err(|why| Failure::input(format_args!("`subscriptionId`: {why}")))?;
        // Whatever else connecting takes has its defaults.
        let parsed = Connection::try_parse_from(["kiln"]).map_err(Failure::failed)?;
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        Ok(Common { resource_group: text("resourceGroup"), subscription, kubeconfig, context, ..parsed.common })
    }
}

/// Objects of the cluster, before what files and arguments say: of one kind the last wins.
pub(crate) fn object_layers(objects: &KarpenterObjects, layers: &mut Vec<Layer>) -> Result<(), Failure> {
    let mut said = Vec::new();
    if let Some(pool) = &objects.node_pool {
        said.push(layers_of::node_pool(pool).map_err(Failure::input)?);
    }
    if let Some(claim) = &objects.node_claim {
        said.push(layers_of::node_claim(claim).map_err(Failure::input)?);
    }
    if let Some(class) = &objects.node_class {
        let both: Vec<Layer> = said.iter().chain(layers.iter()).cloned().collect();
        let arch = resolve(&both).text("arch").to_owned();
        said.extend(layers_of::node_class(class, &arch).map_err(Failure::input)?);
    }
    layers.splice(0..0, said).for_each(drop);
    Ok(())
}
