//! Identities and their credentials.

use std::path::PathBuf;
use std::sync::Arc;

use azure_core::credentials::{Secret as AzureSecret, TokenCredential};
use azure_core::http::{ClientOptions, HttpClient, Transport};
use azure_identity::{
    AzureCliCredential, AzureCliCredentialOptions, ClientAssertionCredentialOptions, ClientSecretCredential,
    ClientSecretCredentialOptions, Executor, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions, new_executor,
};
use kiln_types::Secret;

use super::cloud::Cloud;
use super::error::LoginError;
use super::renewing::RenewingCredential;

/// An application with a client secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePrincipal {
    pub tenant: String,
    pub client_id: String,
    pub secret: Secret,
}

/// An identity of the machine that kiln runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagedIdentity {
    System,
    ClientId(String),
    ResourceId(String),
}

impl ManagedIdentity {
    /// Distinguishes resource ids, which start with a slash, from client ids.
    pub fn from_id(id: String) -> Self {
        if id.starts_with('/') { Self::ResourceId(id) } else { Self::ClientId(id) }
    }
}

/// The identity that kiln uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    ServicePrincipal(ServicePrincipal),
    /// An identity of this machine.
    Managed(ManagedIdentity),
    /// A Kubernetes service account that the tenant trusts.
    Workload {
        tenant: String,
        client_id: String,
        /// The file with the service account's token. It is read again when the token changes.
        token_file: PathBuf,
    },
    /// The account that is logged in to the Azure CLI.
    AzureCli {
        /// The tenant, if not the default one.
        tenant: Option<String>,
    },
}

impl Identity {
    /// Describes the kind of identity, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ServicePrincipal(_) => "a service principal",
            Self::Managed(_) => "a managed identity",
            Self::Workload { .. } => "a workload identity",
            Self::AzureCli { .. } => "the Azure CLI login",
        }
    }
}

/// The identity and the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub cloud: Cloud,
    pub identity: Identity,
}

impl Login {
    /// Creates the credential. Invalid parts are reported here, before the first request.
    pub fn credential(&self, http: &Arc<dyn HttpClient>) -> Result<Arc<RenewingCredential>, LoginError> {
        self.credential_with_executor(http, &new_executor())
    }

    /// Like [`Self::credential`], with another executor for `az`.
    pub fn credential_with_executor(
        &self,
        http: &Arc<dyn HttpClient>,
        executor: &Arc<dyn Executor>,
    ) -> Result<Arc<RenewingCredential>, LoginError> {
        let (login, http, executor) = (self.clone(), http.clone(), executor.clone());
        RenewingCredential::new(move || login.build(&http, &executor))
            .map(Arc::new)
            .map_err(|error| LoginError::Credential { identity: self.identity.kind(), problem: error.to_string() })
    }

    fn build(
        &self,
        http: &Arc<dyn HttpClient>,
        executor: &Arc<dyn Executor>,
    ) -> azure_core::Result<Arc<dyn TokenCredential>> {
        let client_options = ClientOptions {
            transport: Some(Transport::new(http.clone())),
            cloud: Some(self.cloud.configuration()),
            ..ClientOptions::default()
        };
        Ok(match &self.identity {
            Identity::ServicePrincipal(ServicePrincipal { tenant, client_id, secret }) => {
                let options = ClientSecretCredentialOptions { client_options };
                ClientSecretCredential::new(
                    tenant,
                    client_id.clone(),
                    AzureSecret::new(secret.expose().to_owned()),
                    Some(options),
                )?
            }
            Identity::Managed(which) => {
                let user_assigned_id = match which {
                    ManagedIdentity::System => None,
                    ManagedIdentity::ClientId(id) => Some(UserAssignedId::ClientId(id.clone())),
                    ManagedIdentity::ResourceId(id) => Some(UserAssignedId::ResourceId(id.clone())),
                };
                ManagedIdentityCredential::new(Some(ManagedIdentityCredentialOptions {
                    user_assigned_id,
                    client_options,
                }))?
            }
            Identity::Workload { tenant, client_id, token_file } => {
                WorkloadIdentityCredential::new(Some(WorkloadIdentityCredentialOptions {
                    credential_options: ClientAssertionCredentialOptions { client_options },
                    client_id: Some(client_id.clone()),
                    tenant_id: Some(tenant.clone()),
                    token_file_path: Some(token_file.clone()),
                }))?
            }
            Identity::AzureCli { tenant } => AzureCliCredential::new(Some(AzureCliCredentialOptions {
                tenant_id: tenant.clone(),
                executor: Some(executor.clone()),
                ..AzureCliCredentialOptions::default()
            }))?,
        })
    }
}
