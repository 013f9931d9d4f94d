//! The recipe of a pool: image, custom data and extensions of new instances.

use serde::{Deserialize, Serialize};

use crate::image::DefinitionName;
use crate::secret::Secret;
use crate::version::VersionNumber;

/// Custom data without effect, as kamino writes it. Removing custom data altogether would fail on images that wait for some.
pub const NO_OP_CUSTOM_DATA: &str = "#cloud-config\n";

/// The readable part of a recipe. The cloud never returns custom data and protected settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    pub image: ImageSource,
    pub extensions: Vec<Extension>,
}

/// The image that instances are created from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageSource {
    /// The latest usable version of a definition.
    Definition(DefinitionName),
    ExactVersion(DefinitionName, VersionNumber),
    Marketplace(MarketplaceImage),
    /// Another image, by its id.
    Other(String),
}

/// A marketplace image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarketplaceImage {
    pub publisher: String,
    pub offer: String,
    pub sku: String,
    /// A version, or `latest`.
    pub version: String,
}

/// A VM extension, which the cloud's agent installs on each new instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    pub name: String,
    pub publisher: String,
    /// Azure's `type`. Publisher and type identify the extension; its name is arbitrary.
    pub kind: String,
    pub handler_version: Option<String>,
    pub auto_upgrade_minor: bool,
    /// The readable settings, as JSON.
    pub settings: Option<String>,
    /// Whether it may have protected settings, which a restored extension would lack. The cloud does not report it, so this is `true`
    /// unless the publisher is known to use none.
    pub may_have_hidden_settings: bool,
    /// The extensions that run before it.
    pub after: Vec<String>,
    /// Its other readable properties, as a JSON object, to restore them unchanged.
    #[serde(default)]
    pub others: Option<String>,
}

/// An extension of the original recipe, with its protected settings if they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedExtension {
    pub extension: Extension,
    /// As JSON.
    pub protected_settings: Option<Secret>,
}

impl Extension {
    /// Whether it runs a bootstrap script, which instances of a prototype image do not need.
    pub fn is_custom_script(&self) -> bool {
        let publisher = self.publisher.to_ascii_lowercase();
        let kind = self.kind.to_ascii_lowercase();
        matches!(
            (publisher.as_str(), kind.as_str()),
            ("microsoft.azure.extensions", "customscript")
                | ("microsoft.ostcextensions", "customscriptforlinux")
                | ("microsoft.compute", "customscriptextension")
        )
    }
}

impl Extension {
    /// Whether a run removes it and could not restore it: it may have protected settings, and they are not in a key vault, whose reference
    /// the cloud returns.
    pub fn loses_protected_settings(&self) -> bool {
        let in_vault =
            self.others.as_deref().is_some_and(|others| others.contains("\"protectedSettingsFromKeyVault\""));
        self.is_custom_script() && self.may_have_hidden_settings && !in_vault
    }
}

/// Changes of a recipe. `None` keeps a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecipeChange {
    pub image: Option<ImageSource>,
    /// Not yet base64-encoded.
    pub custom_data: Option<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(name: &str, publisher: &str, kind: &str) -> Extension {
        Extension {
            name: name.into(),
            publisher: publisher.into(),
            kind: kind.into(),
            handler_version: None,
            auto_upgrade_minor: true,
            settings: None,
            ..Extension::default()
        }
    }

    #[test]
    fn custom_script_is_recognised_by_publisher_and_type() {
        assert!(extension("vmssCSE", "Microsoft.Azure.Extensions", "CustomScript").is_custom_script());
        assert!(!extension("CustomScript", "Microsoft.AKS", "Compute.AKS.Linux.Billing").is_custom_script());
        assert!(!extension("health", "Microsoft.ManagedServices", "ApplicationHealthLinux").is_custom_script());
    }
}
