//! Azure clouds and their endpoints.

use std::str::FromStr;
use std::sync::Arc;

use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::http::Url;

/// An unknown cloud, or an endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCloud {
    #[error(
        "unknown cloud `{0}`; expected `AzurePublicCloud`, `AzureUSGovernmentCloud`, `AzureChinaCloud` or `AzureStackCloud`"
    )]
    Name(String),
    #[error("{endpoint} `{url}` is not an `https` URL")]
    Endpoint { endpoint: &'static str, url: String },
}

/// The endpoints of a cloud, and the audience of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloud {
    pub name: String,
    /// The endpoint that issues tokens.
    pub authority: Url,
    /// The endpoint of Azure Resource Manager.
    pub arm: Url,
    /// The audience of tokens for [`arm`](Self::arm).
    pub audience: String,
}

impl Cloud {
    /// Creates a cloud with these endpoints.
    pub fn custom(name: &str, authority: &str, arm: &str, audience: &str) -> Result<Self, BadCloud> {
        Ok(Self {
            name: name.to_owned(),
            authority: https("the authority", authority)?,
            arm: https("the Resource Manager endpoint", arm)?,
            audience: audience.to_owned(),
        })
    }

    fn built_in(name: &str, authority: &str, arm: &str) -> Self {
        Self::custom(name, authority, arm, arm).expect("built-in endpoints are URLs")
    }

    /// Azure's public cloud.
    pub fn public() -> Self {
        Self::built_in("AzurePublicCloud", "https://login.microsoftonline.com/", "https://management.azure.com/")
    }

    /// Azure US Government.
    pub fn us_government() -> Self {
        Self::built_in(
            "AzureUSGovernmentCloud",
            "https://login.microsoftonline.us/",
            "https://management.usgovcloudapi.net/",
        )
    }

    /// Azure operated by 21Vianet in China.
    pub fn china() -> Self {
        Self::built_in("AzureChinaCloud", "https://login.chinacloudapi.cn/", "https://management.chinacloudapi.cn/")
    }

    /// Replaces the authority.
    pub fn with_authority(self, authority: &str) -> Result<Self, BadCloud> {
        Ok(Self { authority: https("the authority", authority)?, ..self })
    }

    /// Returns the OAuth scope of tokens for ARM.
    pub fn scope(&self) -> String {
        format!("{}/.default", self.audience.trim_end_matches('/'))
    }

    /// Returns the configuration for `azure_identity`.
    pub(crate) fn configuration(&self) -> Arc<CloudConfiguration> {
        let mut custom = CustomConfiguration::default();
        custom.authority_host = self.authority.to_string();
        Arc::new(custom.into())
    }
}

/// Accepts the names that `azure.json` uses and those of the Azure CLI.
impl FromStr for Cloud {
    type Err = BadCloud;

    fn from_str(name: &str) -> Result<Self, BadCloud> {
        match name.to_ascii_lowercase().as_str() {
            "" | "azurepubliccloud" | "azurecloud" | "public" => Ok(Self::public()),
            "azureusgovernmentcloud" | "azureusgovernment" => Ok(Self::us_government()),
            "azurechinacloud" => Ok(Self::china()),
            _ => Err(BadCloud::Name(name.to_owned())),
        }
    }
}

fn https(endpoint: &'static str, url: &str) -> Result<Url, BadCloud> {
    let refuse = || BadCloud::Endpoint { endpoint, url: url.to_owned() };
    let parsed = Url::parse(url).map_err(|_| refuse())?;
    if parsed.scheme() == "https" && parsed.has_host() { Ok(parsed) } else { Err(refuse()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_names_of_azure_json_and_azure_cli_are_accepted() {
        for (name, arm) in [
            ("AzurePublicCloud", "https://management.azure.com/"),
            ("AzureCloud", "https://management.azure.com/"),
            ("AZUREUSGOVERNMENTCLOUD", "https://management.usgovcloudapi.net/"),
            ("AzureUSGovernment", "https://management.usgovcloudapi.net/"),
            ("AzureChinaCloud", "https://management.chinacloudapi.cn/"),
        ] {
            assert_eq!(name.parse::<Cloud>().unwrap().arm.as_str(), arm);
        }
        assert_eq!("AzureGermanCloud".parse::<Cloud>(), Err(BadCloud::Name("AzureGermanCloud".into())));
    }

    #[test]
    fn token_scope_uses_the_audience_of_the_cloud() {
        assert_eq!(Cloud::china().scope(), "https://management.chinacloudapi.cn/.default");
    }

    #[test]
    fn endpoints_must_use_https() {
        let bad = Cloud::custom("c", "https://login.example", "http://arm.example", "a").unwrap_err();
        assert!(bad.to_string().contains("http://arm.example"), "{bad}");
    }
}
