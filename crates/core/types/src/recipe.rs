//! What new instances of a pool are made from.

use serde::{Deserialize, Serialize};

use crate::image::DefinitionName;
use crate::secret::SecretText;
use crate::version::VersionNumber;

/// Custom data that asks for nothing; kamino's. None at all would do the same on most images and fail on those that wait for some.
pub const NO_OP_CUSTOM_DATA: &str = "#cloud-config\n";

/// What can be read of a recipe. Custom data and protected settings never can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    pub image: ImageSource,
    /// The extensions, in the order of the recipe.
    pub extensions: Vec<Extension>,
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageSource {
    /// The latest usable version of a line.
    Definition(DefinitionName),
    /// One version of a line.
    ExactVersion(DefinitionName, VersionNumber),
    /// An image of the cloud's market.
    Marketplace(MarketplaceImage),
    /// Anything else, by its id.
    Other(String),
}

/// An image of the cloud's market.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarketplaceImage {
    /// Who publishes it.
    pub publisher: String,
    pub offer: String,
    pub sku: String,
    /// A version, or `latest`.
    pub version: String,
}

/// A program that the cloud's agent installs on each new instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Its name in the recipe.
    pub name: String,
    /// Who publishes it.
    pub publisher: String,
    /// What it is; together with the publisher this says what it does, the name does not.
    pub kind: String,
    pub handler_version: Option<String>,
    /// Whether the agent may take a newer minor version.
    pub auto_upgrade_minor: bool,
    /// Its readable settings, as JSON text.
    pub settings: Option<String>,
    /// Whether it may carry settings that cannot be read, so that a copy of it would not be equal. No cloud says for sure: `true` unless
    /// its publisher is known to use none.
    pub may_have_hidden_settings: bool,
    /// Extensions that run before it.
    pub after: Vec<String>,
    /// What is readable of it besides, as JSON text of an object: what a recipe that is put back must say again.
    #[serde(default)]
    pub others: Option<String>,
}

/// An extension as it is kept for the way back: with the settings that the cloud never shows, where they could be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedExtension {
    /// What can be read.
    pub extension: Extension,
    /// What cannot, as JSON text.
    pub protected_settings: Option<SecretText>,
}

impl Extension {
    /// Whether it runs the recipe's own script: the one thing that a prototype image makes needless.
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

/// What to change in a recipe; what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecipeChange {
    /// Another image.
    pub image: Option<ImageSource>,
    /// Other custom data, not yet encoded.
    pub custom_data: Option<SecretText>,
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
    fn a_script_is_told_by_publisher_and_type_and_not_by_name() {
        assert!(extension("vmssCSE", "Microsoft.Azure.Extensions", "CustomScript").is_custom_script());
        assert!(!extension("CustomScript", "Microsoft.AKS", "Compute.AKS.Linux.Billing").is_custom_script());
        assert!(!extension("health", "Microsoft.ManagedServices", "ApplicationHealthLinux").is_custom_script());
    }
}
