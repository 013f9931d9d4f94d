//! The engine's verbs, on ARM.

mod access;
mod canaries;
mod factory;
mod image_catalog;
mod instances;
mod lines;
mod machines;
mod pools;
mod publish;
mod resource_group;
mod snapshots;
mod versions;

use std::fmt;
use std::sync::Arc;

use azure_core::http::HttpClient;
use kiln_types::{InstanceId, OperationHandle, PoolName};
use serde::Serialize;

use crate::arm::{Api, Arm, ArmOptions, BadResourceId, Call, Error, Handle, Jitter, Kind, ResourceId, Scope};
use crate::login::{Cloud, Renewing};
use crate::wire::{Recorder, Recording};

const COMPUTE: &str = "Microsoft.Compute";
const NETWORK: &str = "Microsoft.Network";

/// What an edge to Azure is made of.
#[derive(Clone)]
pub struct AzureOptions {
    pub cloud: Cloud,
    /// Who asks.
    pub credential: Arc<Renewing>,
    /// What carries the requests.
    pub http: Arc<dyn HttpClient>,
    /// What spreads the retries.
    pub jitter: Jitter,
    /// Who gets a copy of what is said to ARM.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl fmt::Debug for AzureOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureOptions").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}

/// One resource group of Azure. It is cheap to clone; clones share connections and tokens.
#[derive(Debug, Clone)]
pub struct Azure {
    arm: Arm,
    scope: Scope,
}

impl Azure {
    /// An edge to one resource group.
    pub fn new(scope: Scope, options: AzureOptions) -> Self {
        let http = match options.recorder {
            Some(recorder) => Arc::new(Recording::new(options.http, recorder)),
            None => options.http,
        };
        let arm =
            Arm::new(ArmOptions { cloud: options.cloud, credential: options.credential, http, jitter: options.jitter });
        Self { arm, scope }
    }

    /// The resource group.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Waits for an operation's end, begun by this process or another.
    pub async fn settle(&self, handle: &OperationHandle) -> Result<(), Error> {
        self.arm.settle(&Handle::read(handle)?).await
    }

    fn scale_set(&self, pool: &PoolName) -> Result<ResourceId, BadResourceId> {
        self.scope.resource(COMPUTE, "virtualMachineScaleSets", pool.as_str())
    }

    fn instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<ResourceId, BadResourceId> {
        self.scale_set(pool)?.child("virtualMachines", instance.as_str())
    }

    /// Puts a resource of a kind that may be put whether it exists or not. Scale sets and their instances are no such kind.
    async fn put<B: Puttable>(&self, id: &ResourceId, body: &B) -> Result<Handle, Error> {
        self.arm.begin(&Call::put(id.as_str(), B::API, body), Kind::Write, id.as_str()).await
    }

    async fn delete(&self, id: &ResourceId, api: Api) -> Result<Handle, Error> {
        self.arm.begin(&Call::delete(id.as_str(), api), Kind::Delete, id.as_str()).await
    }
}

/// The body of a resource that may be put whether it exists or not: all that can be read of it is all that there is.
trait Puttable: Serialize + Sync {
    /// The provider's version.
    const API: Api;
}

impl Puttable for crate::models::gallery::GalleryPut<'_> {
    const API: Api = Api::Gallery;
}

impl Puttable for crate::models::line::DefinitionPut<'_> {
    const API: Api = Api::Gallery;
}

impl Puttable for crate::models::version::VersionPut<'_> {
    const API: Api = Api::Gallery;
}

impl Puttable for crate::models::snapshot::SnapshotPut<'_> {
    const API: Api = Api::Disk;
}

impl Puttable for crate::models::machine::InterfacePut<'_> {
    const API: Api = Api::Network;
}

impl Puttable for crate::models::machine::MachinePut<'_> {
    const API: Api = Api::Compute;
}

/// A resource that lacks what every such resource has.
fn lacking(resource: &ResourceId) -> impl Fn(&'static str) -> Error + '_ {
    move |field| Error::Lacks { resource: resource.to_string(), field }
}
