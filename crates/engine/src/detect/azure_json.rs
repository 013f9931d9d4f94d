//! Detecting settings from `azure.json`, the cloud provider's file. Its secrets are not read.

use kiln_aks_formats::go::cluster_id::from_security_group;
use serde::Deserialize;

use super::Detected;

/// A file that cannot be parsed. Only the position is kept, because the parser's message may quote a secret.
#[derive(Debug, thiserror::Error)]
#[error("{file}: line {line}, column {column}: not a valid azure.json")]
pub struct BadAzureJson {
    file: String,
    line: usize,
    column: usize,
}

/// The settings in an `azure.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AzureJsonFacts {
    file: String,
    fields: Fields,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    subscription_id: String,
    resource_group: String,
    vnet_name: String,
    vnet_resource_group: String,
    subnet_name: String,
    security_group_name: String,
    #[serde(rename = "userAssignedIdentityID")]
    user_assigned_identity_id: String,
}

impl AzureJsonFacts {
    /// Parses a file. Its name is used in provenance.
    pub fn read(file: impl Into<String>, text: &str) -> Result<Self, BadAzureJson> {
        let file = file.into();
        match serde_json::from_str(text) {
            Ok(fields) => Ok(Self { file, fields }),
            Err(error) => Err(BadAzureJson { file, line: error.line(), column: error.column() }),
        }
    }

    pub(super) fn add_to(&self, found: &mut Detected) {
        let fields = &self.fields;
        let at = |names: &str| format!("{} {names}", self.file);
        let group = Some(&fields.vnet_resource_group).filter(|name| !name.is_empty()).unwrap_or(&fields.resource_group);
        let parts = [&fields.subscription_id, group, &fields.vnet_name, &fields.subnet_name];
        if parts.iter().all(|part| !part.is_empty()) {
            let [subscription, group, network, subnet] = parts;
            let id = format!(
                "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network/virtualNetworks/{network}/subnets/{subnet}"
            );
            found.fact("vnetSubnetId", id, at("vnetName, subnetName"));
        }
        if !fields.security_group_name.is_empty() {
            let call = at("securityGroupName");
            if let Some(id) = from_security_group(&fields.security_group_name) {
                found.fact("clusterId", id, &call);
            }
            found.fact("securityGroup", &fields.security_group_name, call);
        }
        if !fields.user_assigned_identity_id.is_empty() {
            found.fact("kubeletIdentityClientId", &fields.user_assigned_identity_id, at("userAssignedIdentityID"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn azure_json_has_subnet_security_group_and_identity() {
        let text = r#"{"subscriptionId": "s", "resourceGroup": "g", "vnetName": "n", "subnetName": "x", "aadClientSecret": "hunter2",
            "securityGroupName": "aks-agentpool-46593302-nsg", "userAssignedIdentityID": "i", "vnetResourceGroup": ""}"#;
        let file = AzureJsonFacts::read("azure.json", text).unwrap();
        assert!(!format!("{file:?}").contains("hunter2"));
        let mut found = Detected::default();
        file.add_to(&mut found);
        let facts: Vec<_> =
            found.facts.iter().map(|fact| (fact.field, fact.text.as_str(), fact.call.as_str())).collect();
        assert_eq!(
            facts,
            [
                (
                    "vnetSubnetId",
                    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/x",
                    "azure.json vnetName, subnetName"
                ),
                ("clusterId", "46593302", "azure.json securityGroupName"),
                ("securityGroup", "aks-agentpool-46593302-nsg", "azure.json securityGroupName"),
                ("kubeletIdentityClientId", "i", "azure.json userAssignedIdentityID"),
            ]
        );
    }

    #[test]
    fn damaged_file_never_shows_its_secret() {
        const WHOLE: &str = r#"{"subscriptionId": "s", "resourceGroup": "g", "vnetName": "n", "subnetName": "x",
            "aadClientSecret": "hunter2", "securityGroupName": "aks-agentpool-46593302-nsg", "userAssignedIdentityID": "i"}"#;
        const FIELDS: [&str; 4] = ["vnetSubnetId", "clusterId", "securityGroup", "kubeletIdentityClientId"];
        let (mut read, mut refused) = (0, 0);
        let mut parse = |text: &str| {
            let output = match AzureJsonFacts::read("a.json", text) {
                Ok(file) => {
                    read += 1;
                    let mut found = Detected::default();
                    file.add_to(&mut found);
                    for fact in &found.facts {
                        assert!(FIELDS.contains(&fact.field) && !fact.text.is_empty(), "{text}: {fact:?}");
                        assert!(fact.call.starts_with("a.json "), "{text}: {fact:?}");
                    }
                    format!("{file:?}{:?}", found.facts)
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().starts_with("a.json: line "), "{error}");
                    format!("{error}{error:?}")
                }
            };
            assert!(!output.contains("hunter2"), "{text}: {output}");
        };
        parse(WHOLE);
        for at in 0..WHOLE.len() {
            parse(&WHOLE[..at]);
            parse(&WHOLE[at..]);
            for word in ["", "\"", "\\", "{", "}", "null", "[]", "-1", "1e999", "\0", "\u{feff}", "ö", ", ", "\"a\": "]
            {
                parse(&format!("{}{word}{}", &WHOLE[..at], &WHOLE[at..]));
                parse(&format!("{}{word}{}", &WHOLE[..at], &WHOLE[at + 1..]));
            }
        }
        assert!(read > 500 && refused > 500, "{read} {refused}");
    }

    #[test]
    fn invalid_file_is_named_and_not_shown() {
        let error = AzureJsonFacts::read("a.json", "{\"aadClientSecret\": hunter2}").unwrap_err().to_string();
        assert_eq!(error, "a.json: line 1, column 21: not a valid azure.json");
    }
}
