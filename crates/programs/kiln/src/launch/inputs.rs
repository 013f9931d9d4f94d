//! Inputs of a machine: the sources of `kiln bootstrap`, objects of the cluster, and detected values.

use std::path::PathBuf;

use clap::Args;
use kiln_azure::Azure;
use kiln_azure::login::Environment;
use kiln_bootstrap::images::Cache;
use kiln_bootstrap::{Resolved, Source, resolve};
use kiln_engine::detect::{self, AzureJsonFacts, KarpenterNames, KarpenterObjects, Sources as Detection, karpenter};
use kiln_engine::launch::{Chosen, choose};
use kiln_kubernetes::{Cluster, Endpoint};

use super::BootstrapperKind;
use super::connection::Connection;
use crate::bootstrap::detect::add_objects;
use crate::bootstrap::sources::Sources;
use crate::failure::Failure;
use crate::prototype::connect::{Now, cluster_of, cluster_options};

#[derive(Debug, Args)]
pub(super) struct Inputs {
    #[command(flatten)]
    sources: Sources,
    /// Read this `NodePool` from the cluster
    #[arg(long, value_name = "NAME", help_heading = "Sources")]
    pool: Option<String>,
    /// Read this `AKSNodeClass` from the cluster [default: the class of the pool or claim]
    #[arg(long, value_name = "NAME", help_heading = "Sources")]
    class: Option<String>,
    /// Read this `NodeClaim` from the cluster, with its pool and class
    #[arg(long, value_name = "NAME", help_heading = "Sources")]
    claim: Option<String>,
    /// Detect missing values in the cluster and in Azure
    #[arg(long, help_heading = "Sources")]
    detect: bool,
    /// Trust the API server by the digest of its certificate or key: `sha256:…`
    #[arg(long, value_name = "PIN", help_heading = "Sources", requires = "detect")]
    ca_pin: Option<String>,
    /// How the node is bootstrapped
    #[arg(long, value_enum, default_value_t, help_heading = "Machine")]
    pub(super) bootstrapper: BootstrapperKind,
    /// Cache file for lists of image versions, which are valid for three days
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    image_cache: Option<PathBuf>,
}

/// Resolved inputs and the selected image.
pub(super) struct ResolvedInputs {
    pub(super) inputs: Resolved,
    pub(super) image: Chosen,
    pub(super) azure: Option<Azure>,
}

impl Inputs {
    /// Resolves all sources and selects the image.
    pub(super) async fn resolve(
        &self,
        connection: &Connection,
        environment: &Environment,
        now: &Now,
    ) -> Result<ResolvedInputs, Failure> {
        let mut sources = self.sources.read()?;
        let cluster = self.cluster(connection, environment, now).await?;
        let objects = self.objects(cluster.as_ref().map(|(cluster, _)| cluster)).await?;
        add_objects(&objects, &mut sources)?;
        let mut inputs = resolve(&sources);
        let mut azure = None;
        if self.detect {
            let edge = connection.azure_for(&inputs, environment, now).await?;
            inputs = self.detect(connection, cluster.as_ref(), &edge, sources, &inputs, now).await?;
            azure = Some(edge);
        }
        let image = self.image(connection, &inputs, &mut azure, environment, now).await?;
        Ok(ResolvedInputs { inputs, image, azure })
    }

    async fn cluster(
        &self,
        connection: &Connection,
        environment: &Environment,
        now: &Now,
    ) -> Result<Option<(Cluster, Endpoint)>, Failure> {
        let named = self.pool.is_some() || self.class.is_some() || self.claim.is_some();
        if !(named || self.detect && connection.names_cluster(environment)) {
            return Ok(None);
        }
        let config = connection.cluster(environment).await?;
        let endpoint = Endpoint::from_config(&config);
        Ok(Some((cluster_of(config, now)?, endpoint)))
    }

    async fn objects(&self, cluster: Option<&Cluster>) -> Result<KarpenterObjects, Failure> {
        let names = KarpenterNames {
            node_pool: self.pool.clone(),
            node_class: self.class.clone(),
            node_claim: self.claim.clone(),
        };
        match cluster {
            Some(cluster) if names != KarpenterNames::default() => {
                karpenter(cluster, &names).await.map_err(|error| Failure::chain(1, &error))
            }
            _ => Ok(KarpenterObjects::default()),
        }
    }

    async fn detect(
        &self,
        connection: &Connection,
        cluster: Option<&(Cluster, Endpoint)>,
        azure: &Azure,
        mut sources: Vec<Source>,
        set: &Resolved,
        now: &Now,
    ) -> Result<Resolved, Failure> {
        let file = std::fs::read_to_string(&connection.azure_json).ok();
        let name = connection.azure_json.display().to_string();
        let file = file.map(|text| AzureJsonFacts::read(name, &text)).transpose().map_err(Failure::input)?;
        let unknown = Some(set.text("clusterEndpoint")).filter(|url| !url.is_empty()).map(Endpoint::untrusted);
        let found = detect::settings(&Detection {
            endpoint: cluster.map(|(_, endpoint)| endpoint).or(unknown.as_ref()),
            cluster: cluster.map(|(cluster, _)| cluster),
            anonymous: Some(cluster_options(now)),
            pin: self.ca_pin.as_deref(),
            azure: Some(azure),
            azure_json: file.as_ref(),
        })
        .await;
        sources.push(found.to_source().map_err(Failure::input)?);
        let resolved = resolve(&sources);
        for miss in found.unmet(&resolved) {
            super::show::note(&miss.to_string());
        }
        Ok(resolved)
    }

    async fn image(
        &self,
        connection: &Connection,
        inputs: &Resolved,
        azure: &mut Option<Azure>,
        environment: &Environment,
        now: &Now,
    ) -> Result<Chosen, Failure> {
        let named = inputs.text("imageId");
        // An ID with a version needs no request to Azure.
        if named.parse::<kiln_aks_formats::image::ImageId>().is_ok_and(|id| id.version != "latest") {
            return Ok(Chosen { id: named.to_owned(), by: "imageId".to_owned() });
        }
        let edge = match azure.take() {
            Some(edge) => edge,
            None => connection.azure_for(inputs, environment, now).await?,
        };
        let mut cache = self.read_cache()?;
        let before = cache.clone();
        let chosen = choose(&edge, inputs, &mut cache, now.as_ref()().as_second())
            .await
            .map_err(|error| Failure::chain(1, &error))?;
        if cache != before {
            self.write_cache(&cache)?;
        }
        *azure = Some(edge);
        Ok(chosen)
    }

    /// Reads the cache. A missing or corrupt cache counts as empty, because it only costs another request.
    fn read_cache(&self) -> Result<Cache, Failure> {
        let Some(path) = &self.image_cache else { return Ok(Cache::default()) };
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Cache::default()),
            Err(error) => Err(Failure::file(path, error)),
        }
    }

    fn write_cache(&self, cache: &Cache) -> Result<(), Failure> {
        let Some(path) = &self.image_cache else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut file, cache)?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(|error| Failure::file(path, error))
    }
}
