//! The ways to prove who asks.

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
use super::renewing::Renewing;

/// An application with a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePrincipal {
    pub tenant: String,
    pub client_id: String,
    pub secret: Secret,
}

/// Which of a machine's identities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagedIdentity {
    System,
    /// One that was given to it, by its client id.
    ClientId(String),
    /// One that was given to it, by its resource id.
    ResourceId(String),
}

impl ManagedIdentity {
    /// Tells the two kinds of id apart.
    pub fn of(id: String) -> Self {
        if id.starts_with('/') { Self::ResourceId(id) } else { Self::ClientId(id) }
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// An application with a secret.
    ServicePrincipal(ServicePrincipal),
    /// The machine that we run on.
    Managed(ManagedIdentity),
    /// A Kubernetes service account that the directory trusts.
    Workload {
        tenant: String,
        client_id: String,
        /// The file with the service account's token; it is read again as the token changes.
        token_file: PathBuf,
    },
    /// Whoever is logged in to `az`.
    AzureCli {
        /// The directory, where it is not the default.
        tenant: Option<String>,
    },
}

impl Identity {
    /// Its kind, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ServicePrincipal(_) => "a service principal",
            Self::Managed(_) => "a managed identity",
            Self::Workload { .. } => "a workload identity",
            Self::AzureCli { .. } => "the login of `az`",
        }
    }
}

/// Who asks, and which cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub cloud: Cloud,
    /// Who asks.
    pub identity: Identity,
}

impl Login {
    /// The credential. What can be wrong with its parts is found here, before anything is started.
    pub fn credential(&self, http: &Arc<dyn HttpClient>) -> Result<Arc<Renewing>, LoginError> {
        self.credential_running(http, &new_executor())
    }

    /// The same, with somebody else to run `az` where that is asked.
    pub fn credential_running(
        &self,
        http: &Arc<dyn HttpClient>,
        programs: &Arc<dyn Executor>,
    ) -> Result<Arc<Renewing>, LoginError> {
        let (login, http, programs) = (self.clone(), http.clone(), programs.clone());
        Renewing::new(move || login.build(&http, &programs))
            .map(Arc::new)
            .map_err(|error| LoginError::Credential { identity: self.identity.kind(), problem: error.to_string() })
    }

    fn build(
        &self,
        http: &Arc<dyn HttpClient>,
        programs: &Arc<dyn Executor>,
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
                executor: Some(programs.clone()),
                ..AzureCliCredentialOptions::default()
            }))?,
        })
    }
}
