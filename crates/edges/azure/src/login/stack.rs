//! `azurestackcloud.json`, the endpoints of an Azure Stack cloud.

use std::path::Path;

use serde::Deserialize;

use super::cloud::Cloud;
use super::error::LoginError;
use super::json::JsonFile;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct StackFile {
    name: String,
    active_directory_endpoint: String,
    resource_manager_endpoint: String,
    service_management_endpoint: String,
}

/// Reads the endpoints of a cloud. The file's other fields (graph, registry, key vault, storage) name services that kiln does not use.
pub fn read_stack_file(path: &Path) -> Result<Cloud, LoginError> {
    let text = std::fs::read_to_string(path).map_err(|source| LoginError::Read { path: path.to_owned(), source })?;
    let file = JsonFile { path, text: &text };
    let stack: StackFile = file.parse()?;
    for (field, value) in [
        ("activeDirectoryEndpoint", &stack.active_directory_endpoint),
        ("resourceManagerEndpoint", &stack.resource_manager_endpoint),
    ] {
        if value.is_empty() {
            return Err(file.error(field, "missing or empty"));
        }
    }
    let audience =
        Some(&stack.service_management_endpoint).filter(|s| !s.is_empty()).unwrap_or(&stack.resource_manager_endpoint);
    // An on-premises directory (AD FS) appends `/adfs` to the endpoint. Only the host is the authority.
    let authority = stack.active_directory_endpoint.trim_end_matches('/').trim_end_matches("/adfs");
    Cloud::custom(&stack.name, authority, &stack.resource_manager_endpoint, audience).map_err(|bad| match &bad {
        super::cloud::BadCloud::Endpoint { endpoint: "the authority", .. } => {
            file.error("activeDirectoryEndpoint", bad.to_string())
        }
        _ => file.error("resourceManagerEndpoint", bad.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Cloud, LoginError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("azurestackcloud.json");
        std::fs::write(&path, text).unwrap();
        read_stack_file(&path)
    }

    #[test]
    fn custom_cloud_is_read_from_its_file() {
        let cloud = read(
            r#"{"name": "AzureStackCloud", "activeDirectoryEndpoint": "https://adfs.local.example/adfs", "graphEndpoint": "https://graph.local.example/",
                "resourceManagerEndpoint": "https://management.local.example/", "serviceManagementEndpoint": "https://management.adfs.example/1234",
                "containerRegistryDNSSuffix": "", "keyVaultDNSSuffix": "v", "storageEndpointSuffix": "s"}"#,
        )
        .unwrap();
        assert_eq!(cloud.authority.as_str(), "https://adfs.local.example/");
        assert_eq!(cloud.arm.as_str(), "https://management.local.example/");
        assert_eq!(cloud.scope(), "https://management.adfs.example/1234/.default");
    }

    #[test]
    fn errors_name_the_position_in_the_file() {
        let error = read("{\n  \"activeDirectoryEndpoint\": \"https://a.example\",\n  \"resourceManagerEndpoint\": \"http://m.example\"\n}").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("azurestackcloud.json:3:3: `resourceManagerEndpoint`"), "{text}");
        let text = read("{}").unwrap_err().to_string();
        assert!(text.contains(":1:1: `activeDirectoryEndpoint`: missing"), "{text}");
    }
}
