//! Clouds and their endpoints.

use std::str::FromStr;
use std::sync::Arc;

use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::http::Url;

/// A cloud that is not known, or whose endpoints cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCloud {
    /// The name is none that is built in.
    #[error(
        "cloud `{0}` is not known: AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud, or AzureStackCloud with its file"
    )]
    Name(String),
    /// An endpoint is no URL, or not an encrypted one.
    #[error("{endpoint} `{url}` is not an `https` URL")]
    Endpoint {
        /// Which endpoint.
        endpoint: &'static str,
        url: String,
    },
}

/// Where a cloud logs in, where its resources are managed, and for whom a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloud {
    pub name: String,
    /// Where tokens come from.
    pub authority: Url,
    /// Where resources are managed.
    pub arm: Url,
    /// For whom a token for [`arm`](Self::arm) is.
    pub audience: String,
}

impl Cloud {
    /// A cloud of these endpoints.
    pub fn custom(name: &str, authority: &str, arm: &str, audience: &str) -> Result<Self, BadCloud> {
        Ok(Self {
            name: name.to_owned(),
            authority: https("the authority", authority)?,
            arm: https("the resource manager's endpoint", arm)?,
            audience: audience.to_owned(),
        })
    }

    fn built_in(name: &str, authority: &str, arm: &str) -> Self {
        Self::custom(name, authority, arm, arm).expect("built-in endpoints are URLs")
    }

    /// Azure as most know it.
    pub fn public() -> Self {
        Self::built_in("AzurePublicCloud", "https://login.microsoftonline.com/", "https://management.azure.com/")
    }

    /// Azure for the government of the United States.
    pub fn us_government() -> Self {
        Self::built_in(
            "AzureUSGovernmentCloud",
            "https://login.microsoftonline.us/",
            "https://management.usgovcloudapi.net/",
        )
    }

    /// Azure in China.
    pub fn china() -> Self {
        Self::built_in("AzureChinaCloud", "https://login.chinacloudapi.cn/", "https://management.chinacloudapi.cn/")
    }

    /// The same cloud with another authority.
    pub fn with_authority(self, authority: &str) -> Result<Self, BadCloud> {
        Ok(Self { authority: https("the authority", authority)?, ..self })
    }

    /// What a token is asked for.
    pub fn scope(&self) -> String {
        format!("{}/.default", self.audience.trim_end_matches('/'))
    }

    /// The cloud as the credentials know it.
    pub(crate) fn configuration(&self) -> Arc<CloudConfiguration> {
        let mut custom = CustomConfiguration::default();
        custom.authority_host = self.authority.to_string();
        Arc::new(custom.into())
    }
}

/// Both families of names: those of `azure.json` and those of `az`.
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
    fn clouds_have_their_names_of_both_families_and_their_own_endpoints() {
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
    fn a_token_is_asked_for_the_clouds_own_audience() {
        assert_eq!(Cloud::china().scope(), "https://management.chinacloudapi.cn/.default");
    }

    #[test]
    fn an_endpoint_without_encryption_is_refused() {
        let bad = Cloud::custom("c", "https://login.example", "http://arm.example", "a").unwrap_err();
        assert!(bad.to_string().contains("http://arm.example"), "{bad}");
    }
}
