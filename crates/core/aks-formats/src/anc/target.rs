//! Azure cloud and environment of a node.

use serde::Deserialize;

use super::config::Configuration;

const CUSTOM: &str = "akscustom";

impl Configuration {
    fn cloud_name(&self) -> &str {
        self.custom_cloud_config.as_ref().map_or("", |cloud| &cloud.custom_cloud_env_name)
    }

    /// `IS_CUSTOM_CLOUD`.
    pub fn is_custom_cloud(&self) -> bool {
        self.cloud_name().eq_ignore_ascii_case(CUSTOM)
    }

    /// `TARGET_ENVIRONMENT`, from the name of a custom cloud or from the region.
    pub fn target_environment(&self) -> &'static str {
        if self.is_custom_cloud() {
            return CUSTOM;
        }
        let location = self.cluster_config.as_ref().map_or("", |cluster| &cluster.location);
        let region = location.to_lowercase().replace(' ', "");
        if region.starts_with("china") {
            "AzureChinaCloud"
        } else if region == "germanynortheast" || region == "germanycentral" {
            "AzureGermanCloud"
        } else if region.starts_with("usgov") || region.starts_with("usdod") {
            "AzureUSGovernmentCloud"
        } else {
            "AzurePublicCloud"
        }
    }

    /// `TARGET_CLOUD`.
    pub fn target_cloud(&self) -> &'static str {
        if self.is_custom_cloud() { "AzureStackCloud" } else { self.target_environment() }
    }

    /// `ARM_RESOURCE_ENDPOINT`. A custom cloud defines it in its environment JSON; it is empty if that cannot be parsed.
    pub fn arm_resource_endpoint(&self) -> String {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CloudEnvironment {
            resource_manager_endpoint: String,
        }
        match self.target_environment() {
            CUSTOM => {
                let json = self.custom_cloud_config.as_ref().map_or("", |cloud| &cloud.custom_env_json_content);
                serde_json::from_str::<CloudEnvironment>(json)
                    .map_or_else(|_| String::new(), |d| d.resource_manager_endpoint)
            }
            "AzureChinaCloud" => "https://management.chinacloudapi.cn/".to_owned(),
            "AzureUSGovernmentCloud" => "https://management.usgovcloudapi.net/".to_owned(),
            _ => "https://management.azure.com/".to_owned(),
        }
    }

    /// `AZURE_ENVIRONMENT_FILEPATH`.
    pub fn azure_environment_filepath(&self) -> String {
        if self.is_custom_cloud() { format!("/etc/kubernetes/{CUSTOM}.json") } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;

    #[test]
    fn cloud_follows_the_region() {
        for (region, cloud) in [
            ("China East 2", "AzureChinaCloud"),
            ("germanycentral", "AzureGermanCloud"),
            ("usgovvirginia", "AzureUSGovernmentCloud"),
            ("eastus", "AzurePublicCloud"),
        ] {
            let config = parse(format!("{{\"cluster_config\": {{\"location\": \"{region}\"}}}}").as_bytes()).config;
            assert_eq!((config.target_environment(), config.target_cloud()), (cloud, cloud));
        }
    }

    #[test]
    fn custom_cloud_defines_its_endpoint() {
        let config = parse(br#"{"custom_cloud_config": {"custom_cloud_env_name": "akscustom", "custom_env_json_content": "{\"resourceManagerEndpoint\":\"https://x/\"}"}}"#).config;
        assert_eq!((config.target_environment(), config.target_cloud()), ("akscustom", "AzureStackCloud"));
        assert_eq!(config.arm_resource_endpoint(), "https://x/");
        assert_eq!(config.azure_environment_filepath(), "/etc/kubernetes/akscustom.json");
    }
}
