//! `azure.json`, the cloud provider configuration on the nodes of a self-managed cluster.

use std::path::{Path, PathBuf};

use kiln_types::Secret;
use serde::Deserialize;

use super::cloud::Cloud;
use super::credential::{Identity, ManagedIdentity, ServicePrincipal};
use super::error::LoginError;
use super::json::JsonFile;
use super::stack::read_stack_file;

/// The client id that selects a managed identity.
const MANAGED: &str = "msi";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    cloud: Option<String>,
    tenant_id: Option<String>,
    subscription_id: Option<String>,
    resource_group: Option<String>,
    aad_client_id: Option<String>,
    aad_client_secret: Option<String>,
    use_managed_identity_extension: Option<bool>,
    #[serde(rename = "userAssignedIdentityID")]
    user_assigned_identity_id: Option<String>,
}

/// The parsed contents of an `azure.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AzureJson {
    pub cloud: Cloud,
    pub identity: Identity,
    pub subscription: String,
    pub resource_group: String,
}

impl AzureJson {
    /// Reads a file. For `AzureStackCloud` the endpoints are read from `stack_file`, by default `azurestackcloud.json` in the same folder.
    pub fn read(path: &Path, stack_file: Option<&Path>) -> Result<Self, LoginError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| LoginError::Read { path: path.to_owned(), source })?;
        let file = JsonFile { path, text: &text };
        let fields: Fields = file.parse()?;
        let require = |field: &str, value: &Option<String>| {
            let value = value.as_deref().unwrap_or_default();
            if value.is_empty() { Err(file.error(field, "missing or empty")) } else { Ok(value.to_owned()) }
        };
        let cloud_name = fields.cloud.clone().unwrap_or_default();
        let cloud = if cloud_name.eq_ignore_ascii_case("AzureStackCloud") {
            let default: PathBuf = path.with_file_name("azurestackcloud.json");
            read_stack_file(stack_file.unwrap_or(&default))?
        } else {
            cloud_name.parse().map_err(|bad: super::cloud::BadCloud| file.error("cloud", bad.to_string()))?
        };
        let client_id = fields.aad_client_id.clone().unwrap_or_default();
        let managed = fields.use_managed_identity_extension == Some(true) || client_id.eq_ignore_ascii_case(MANAGED);
        let identity = if managed {
            let client_id = fields.user_assigned_identity_id.clone().filter(|id| !id.is_empty());
            Identity::Managed(client_id.map_or(ManagedIdentity::System, ManagedIdentity::from_id))
        } else {
            Identity::ServicePrincipal(ServicePrincipal {
                tenant: require("tenantId", &fields.tenant_id)?,
                client_id: require("aadClientId", &fields.aad_client_id)?,
                secret: Secret::new(require("aadClientSecret", &fields.aad_client_secret)?),
            })
        };
        Ok(Self {
            cloud,
            identity,
            subscription: require("subscriptionId", &fields.subscription_id)?,
            resource_group: require("resourceGroup", &fields.resource_group)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINCIPAL: &str = r#"{
  "cloud": "AzurePublicCloud",
  "tenantId": "t",
  "subscriptionId": "s",
  "resourceGroup": "g",
  "aadClientId": "app",
  "aadClientSecret": "hunter2",
  "useManagedIdentityExtension": false,
  "vmType": "vmss"
}"#;

    fn read(text: &str) -> Result<AzureJson, LoginError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("azure.json");
        std::fs::write(&path, text).unwrap();
        AzureJson::read(&path, None)
    }

    #[test]
    fn service_principal_is_read_and_its_secret_is_not_printed() {
        let json = read(PRINCIPAL).unwrap();
        let Identity::ServicePrincipal(principal) = &json.identity else { panic!("{json:?}") };
        assert_eq!((principal.tenant.as_str(), principal.secret.expose()), ("t", "hunter2"));
        assert!(!format!("{json:?}").contains("hunter2"));
    }

    #[test]
    fn client_id_msi_selects_the_managed_identity() {
        let json =
            read(r#"{"subscriptionId":"s","resourceGroup":"g","aadClientId":"msi","aadClientSecret":"msi"}"#).unwrap();
        assert_eq!(json.identity, Identity::Managed(ManagedIdentity::System));
        let json = read(
            r#"{"subscriptionId":"s","resourceGroup":"g","useManagedIdentityExtension":true,"userAssignedIdentityID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}"#,
        )
        .unwrap();
        assert_eq!(
            json.identity,
            Identity::Managed(ManagedIdentity::ClientId("6ba7b810-9dad-11d1-80b4-00c04fd430c8".into()))
        );
    }

    #[test]
    fn identity_can_be_selected_by_resource_id() {
        let id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i";
        let json = read(&format!(
            r#"{{"subscriptionId":"s","resourceGroup":"g","aadClientId":"msi","userAssignedIdentityID":"{id}"}}"#
        ));
        assert_eq!(json.unwrap().identity, Identity::Managed(ManagedIdentity::ResourceId(id.into())));
    }

    #[test]
    fn errors_name_file_line_column_and_field() {
        for (from, to, expected) in [
            ("\"hunter2\"", "\"\"", "azure.json:7:3: `aadClientSecret`: missing or empty"),
            ("\"AzurePublicCloud\"", "\"AzureMoonCloud\"", "azure.json:2:3: `cloud`: unknown cloud `AzureMoonCloud`"),
            ("\"hunter2\"", "{\"x\": 12345}", "azure.json:7:21: `aadClientSecret`: expected a string"),
            ("\"g\",", "\"g\"", "azure.json:6:3: "),
            ("  \"resourceGroup\": \"g\",\n", "", "azure.json:1:1: `resourceGroup`: missing or empty"),
        ] {
            let text = read(&PRINCIPAL.replace(from, to)).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}\nexpected: {expected}");
        }
    }

    #[test]
    fn invalid_values_are_not_printed_because_they_may_be_secrets() {
        let text = read(&PRINCIPAL.replace("\"hunter2\"", "424242")).unwrap_err();
        assert!(!format!("{text} {text:?}").contains("424242"), "{text}");
    }
}
