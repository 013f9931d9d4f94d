//! An extension of a scale set.

use kiln_types::{Extension, SavedExtension, Secret};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::or_default;

#[derive(Deserialize)]
pub(crate) struct ExtensionModel {
    name: String,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    #[serde(default, deserialize_with = "or_default")]
    publisher: String,
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    kind: String,
    type_handler_version: Option<String>,
    auto_upgrade_minor_version: Option<bool>,
    settings: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    provision_after_extensions: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Extensions that are known to have no protected settings. ARM never returns protected settings, so any other extension may have some.
const OPEN_EXTENSIONS: &[(&str, &str)] = &[
    ("microsoft.aks", "compute.aks.linux.billing"),
    ("microsoft.aks", "compute.aks-engine.linux.billing"),
    ("microsoft.managedservices", "applicationhealthlinux"),
];

const FROM_VAULT: &str = "protectedSettingsFromKeyVault";

/// Writable fields that kiln saves as they are. All other fields of a response are read-only.
const OTHERS: [&str; 4] = ["enableAutomaticUpgrade", "forceUpdateTag", FROM_VAULT, "suppressFailures"];

impl ExtensionModel {
    pub(crate) fn read(self) -> Extension {
        let mut p = self.properties;
        let known = (p.publisher.to_ascii_lowercase(), p.kind.to_ascii_lowercase());
        let open =
            OPEN_EXTENSIONS.iter().any(|(publisher, kind)| (*publisher, *kind) == (known.0.as_str(), known.1.as_str()));
        p.rest.retain(|name, value| OTHERS.contains(&name.as_str()) && !value.is_null());
        Extension {
            name: self.name,
            publisher: p.publisher,
            kind: p.kind,
            handler_version: p.type_handler_version,
            auto_upgrade_minor: p.auto_upgrade_minor_version.unwrap_or(false),
            settings: p.settings.filter(|s| !s.is_null()).map(|s| s.to_string()),
            may_have_hidden_settings: !open || p.rest.contains_key(FROM_VAULT),
            after: p.provision_after_extensions,
            others: (!p.rest.is_empty()).then(|| Value::Object(p.rest).to_string()),
        }
    }
}

/// The body of an extension. It has no `Debug` implementation because protected settings are secret.
#[derive(Serialize)]
pub(crate) struct ExtensionPut {
    name: String,
    properties: PutProperties,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PutProperties {
    publisher: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    type_handler_version: Option<String>,
    auto_upgrade_minor_version: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protected_settings: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    provision_after_extensions: Vec<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl ExtensionPut {
    /// Creates the copy for a canary: without an order, because preceding extensions may be missing, and without automatic upgrades.
    pub(crate) fn for_canary(extension: &Extension) -> Self {
        Self {
            name: extension.name.clone(),
            properties: PutProperties {
                publisher: extension.publisher.clone(),
                kind: extension.kind.clone(),
                type_handler_version: extension.handler_version.clone(),
                auto_upgrade_minor_version: extension.auto_upgrade_minor,
                settings: extension.settings.as_deref().and_then(|s| serde_json::from_str(s).ok()),
                protected_settings: None,
                provision_after_extensions: Vec::new(),
                others: Map::new(),
            },
        }
    }

    /// Creates the body of a saved extension. An error names the field that is not valid JSON.
    pub(crate) fn from_saved(saved: &SavedExtension) -> Result<Self, &'static str> {
        let extension = &saved.extension;
        let json = |text: Option<&str>, field| text.map(serde_json::from_str::<Value>).transpose().map_err(|_| field);
        let secret = saved.protected_settings.as_ref();
        let others = match json(extension.others.as_deref(), "others")? {
            None => Map::new(),
            Some(Value::Object(others)) => others,
            Some(_) => return Err("others"),
        };
        let Self { name, properties } = Self::for_canary(extension);
        let properties = PutProperties {
            settings: json(extension.settings.as_deref(), "settings")?,
            protected_settings: json(secret.map(Secret::expose), "protectedSettings")?,
            provision_after_extensions: extension.after.clone(),
            others,
            ..properties
        };
        Ok(Self { name, properties })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Extension {
        serde_json::from_value::<ExtensionModel>(value).unwrap().read()
    }

    #[test]
    fn saved_extension_is_restored_with_its_hidden_settings() {
        let mut model = json!({"name": "script", "properties": {
            "publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.0",
            "autoUpgradeMinorVersion": true, "settings": {"fileUris": []}, "provisionAfterExtensions": ["first"],
            "enableAutomaticUpgrade": false, "forceUpdateTag": "7", "suppressFailures": true,
        }});
        let mut shown = model.clone();
        shown["properties"]["provisioningState"] = json!("Succeeded");
        shown["id"] = json!("/subscriptions/s/x");
        let saved = SavedExtension {
            extension: read(shown),
            protected_settings: Some(Secret::new(r#"{"commandToExecute":"join"}"#)),
        };
        let put =
            serde_json::to_value(ExtensionPut::from_saved(&saved).unwrap_or_else(|field| panic!("{field}"))).unwrap();
        model["properties"]["protectedSettings"] = json!({"commandToExecute": "join"});
        assert_eq!(put, model);
    }

    #[test]
    fn invalid_settings_are_named_but_not_printed() {
        let saved = SavedExtension {
            extension: read(json!({"name": "x", "properties": {}})),
            protected_settings: Some(Secret::new("hunter2")),
        };
        assert_eq!(ExtensionPut::from_saved(&saved).err(), Some("protectedSettings"));
    }

    #[test]
    fn hidden_settings_are_recognized_by_publisher_type_and_key_vault() {
        let hides = |publisher: &str, kind: &str, vault: Value| {
            read(json!({"name": "x", "properties": {"publisher": publisher, "type": kind, (FROM_VAULT): vault}}))
                .may_have_hidden_settings
        };
        assert!(hides("Microsoft.Azure.Extensions", "CustomScript", Value::Null));
        assert!(!hides("Microsoft.AKS", "Compute.AKS.Linux.Billing", Value::Null));
        assert!(hides("Microsoft.AKS", "Compute.AKS.Linux.Billing", json!({"secretUrl": "https://v/s"})));
    }
}
