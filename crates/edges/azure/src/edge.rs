//! [`Azure`]: the implementation of `Factory`, `Machines` and the other ports of `kiln-types` on ARM. One file per resource type.

mod access;
mod canaries;
mod definitions;
mod factory;
mod image_catalog;
mod instances;
mod machines;
mod pools;
mod publish;
mod resource_group;
mod snapshots;
mod versions;

use std::fmt;
use std::sync::Arc;

use azure_core::http::HttpClient;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_types::{InstanceId, OperationHandle, OperationState, PoolName, SecretBytes};
use serde::Serialize;

use crate::arm::{Api, Arm, ArmOptions, BadResourceId, Call, Error, Handle, Jitter, OperationKind, ResourceId, Scope};
use crate::login::{Cloud, RenewingCredential};
use crate::wire::{Recorder, RecordingClient};

const COMPUTE: &str = "Microsoft.Compute";
const NETWORK: &str = "Microsoft.Network";

/// Dependencies of an [`Azure`] edge.
#[derive(Clone)]
pub struct AzureOptions {
    pub cloud: Cloud,
    pub credential: Arc<RenewingCredential>,
    pub http: Arc<dyn HttpClient>,
    /// Spreads retries over time.
    pub jitter: Jitter,
    /// Receives a copy of each exchange with ARM.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl fmt::Debug for AzureOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureOptions").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}

/// One resource group in Azure. Clones are cheap and share connections and tokens.
#[derive(Debug, Clone)]
pub struct Azure {
    arm: Arm,
    scope: Scope,
    /// The resource group of galleries, image definitions and versions.
    galleries: Scope,
}

impl Azure {
    /// Creates an edge for one resource group.
    pub fn new(scope: Scope, options: AzureOptions) -> Self {
        let http = match options.recorder {
            Some(recorder) => Arc::new(RecordingClient::new(options.http, recorder)),
            None => options.http,
        };
        let arm =
            Arm::new(ArmOptions { cloud: options.cloud, credential: options.credential, http, jitter: options.jitter });
        Self { arm, galleries: scope.clone(), scope }
    }

    /// Uses a gallery in another resource group or subscription of the same tenant.
    #[must_use]
    pub fn with_galleries(mut self, scope: Scope) -> Self {
        self.galleries = scope;
        self
    }

    /// Returns the subscription and resource group.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Waits for an operation that this or another process started.
    pub async fn settle(&self, handle: &OperationHandle) -> Result<(), Error> {
        let handle = Handle::decode(handle)?;
        self.arm.settle(&handle).await?;
        self.check_regions(&handle).await
    }

    /// Polls a stored operation once. Any process may have started it.
    async fn poll(&self, handle: &OperationHandle) -> Result<OperationState, Error> {
        let handle = Handle::decode(handle)?;
        let state = self.arm.poll(&handle).await?;
        if state == OperationState::Succeeded {
            self.check_regions(&handle).await?;
        }
        Ok(state)
    }

    fn scale_set(&self, pool: &PoolName) -> Result<ResourceId, BadResourceId> {
        self.scope.resource(COMPUTE, "virtualMachineScaleSets", pool.as_str())
    }

    fn instance(&self, pool: &PoolName, instance: &InstanceId) -> Result<ResourceId, BadResourceId> {
        self.scale_set(pool)?.child("virtualMachines", instance.as_str())
    }

    /// Creates or replaces a resource. Only for types whose readable fields are all there is; scale sets and instances are excluded.
    async fn put<B: Puttable>(&self, id: &ResourceId, body: &B) -> Result<Handle, Error> {
        self.arm.begin(&Call::put(id.as_str(), B::API, body), OperationKind::Write, id.as_str()).await
    }

    async fn delete(&self, id: &ResourceId, api: Api) -> Result<Handle, Error> {
        self.arm.begin(&Call::delete(id.as_str(), api), OperationKind::Delete, id.as_str()).await
    }
}

/// The body of a resource that may safely be PUT over an existing one, because every field of it can be read.
trait Puttable: Serialize + Sync {
    /// The resource provider.
    const API: Api;
}

impl Puttable for crate::models::gallery::GalleryPut<'_> {
    const API: Api = Api::Gallery;
}

impl Puttable for crate::models::definition::DefinitionPut<'_> {
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

/// Returns a constructor for [`Error::MissingField`] of this resource.
fn missing_field(resource: &ResourceId) -> impl Fn(&'static str) -> Error + '_ {
    move |field| Error::MissingField { resource: resource.to_string(), field }
}

/// Decodes the user data of a scale set or an instance.
fn decode_user_data(resource: &ResourceId, text: Option<String>) -> Result<SecretBytes, Error> {
    let bytes = STANDARD.decode(text.unwrap_or_default());
    bytes.map(SecretBytes::new).map_err(|_| Error::NotBase64 { resource: resource.to_string(), field: "userData" })
}
