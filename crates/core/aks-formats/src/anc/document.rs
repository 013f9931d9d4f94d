//! Parsing and serialization of the document.

use super::config::Configuration;
use super::wire::{AsJson, FieldNames, ReadState, WireValue as _};
use crate::Secret;

/// Result of parsing a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The configuration, up to the first error.
    pub config: Configuration,
    /// The first error. A node continues with the fields before it.
    pub error: Option<ParseError>,
    /// Paths of unknown fields.
    pub ignored: Vec<String>,
}

/// Position and reason of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}, at `{path}`: {reason}")]
pub struct ParseError {
    /// Starts at 1.
    pub line: usize,
    /// Starts at 1.
    pub column: usize,
    pub path: String,
    /// Never contains the value, which may be secret.
    pub reason: String,
}

/// An unsupported version of the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported AKSNodeConfig version `{0}`; expected `v1` or `v0`")]
pub struct VersionError(pub String);

/// Parses a document like the node controller: unknown fields are skipped, and fields before an error are kept.
pub fn parse(json: &[u8]) -> Parsed {
    let mut config = Configuration::default();
    let mut reading = ReadState::default();
    let mut from = serde_json::Deserializer::from_slice(json);
    let read = config.merge(&mut from, &mut reading).and_then(|()| from.end());
    let error = read.err().map(|error| {
        let text = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        let reason = text.strip_suffix(&position).unwrap_or(&text).to_owned();
        ParseError { line: error.line(), column: error.column(), path: reading.current_path(), reason }
    });
    Parsed { config, error, ignored: reading.ignored }
}

impl Configuration {
    /// Serializes the document with proto names, indented by two spaces. It may contain secrets.
    pub fn to_json(&self) -> Secret {
        let text =
            serde_json::to_string_pretty(&AsJson(self, FieldNames::Snake)).expect("string keys and finite numbers");
        Secret::new(text)
    }

    /// Checks that the version is supported.
    pub fn check_version(&self) -> Result<(), VersionError> {
        match self.version.as_str() {
            "v1" | "v0" => Ok(()),
            other => Err(VersionError(other.to_owned())),
        }
    }

    /// Returns the required fields that are empty.
    pub fn missing(&self) -> Vec<&'static str> {
        let cluster = self.cluster_config.clone().unwrap_or_default();
        let network = cluster.cluster_network_config.clone().unwrap_or_default();
        let subscription = self.auth_config.as_ref().map_or("", |auth| &auth.subscription_id);
        let server = self.api_server_config.as_ref().map_or("", |server| &server.api_server_name);
        [
            ("version", self.version.as_str()),
            ("auth_config.subscription_id", subscription),
            ("cluster_config.resource_group", &cluster.resource_group),
            ("cluster_config.location", &cluster.location),
            ("cluster_config.cluster_network_config.vnet_name", &network.vnet_name),
            ("cluster_config.cluster_network_config.route_table", &network.route_table),
            ("api_server_config.api_server_name", server),
        ]
        .into_iter()
        .filter(|(_, text)| text.is_empty())
        .map(|(path, _)| path)
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::enums::{LoadBalancerSku, VmType};
    use super::*;

    #[test]
    fn fields_have_two_names_and_enumerations_have_names_and_numbers() {
        let snake = parse(br#"{"version": "v1", "cluster_config": {"vm_type": "VM_TYPE_VMSS"}, "is_vhd": false}"#);
        let camel = parse(br#"{"version": "v1", "clusterConfig": {"vmType": 2}, "isVhd": false}"#);
        assert_eq!(snake, camel);
        assert_eq!(snake.config.cluster_config.as_ref().unwrap().vm_type, VmType::Vmss);
        assert_eq!(snake.config.is_vhd, Some(false));
    }

    #[test]
    fn null_means_unset_and_differs_from_false() {
        let parsed = parse(br#"{"is_vhd": null, "enable_ssh": false, "cluster_config": {"load_balancer_config": {}}}"#);
        assert_eq!((parsed.config.is_vhd, parsed.config.enable_ssh), (None, Some(false)));
        let balancer = parsed.config.cluster_config.unwrap().load_balancer_config.unwrap();
        assert_eq!(balancer.load_balancer_sku, LoadBalancerSku::Unspecified);
        assert_eq!(balancer.exclude_master_from_standard_load_balancer, None);
    }

    #[test]
    fn unknown_fields_and_values_are_skipped_and_listed() {
        let parsed =
            parse(br#"{"new": {"a": [1]}, "cluster_config": {"x": 1, "vm_type": "VM_TYPE_NEW"}, "version": "v1"}"#);
        assert_eq!(parsed.error, None);
        assert_eq!(parsed.ignored, ["new", "cluster_config.x", "cluster_config.vm_type"]);
        assert_eq!(parsed.config.version, "v1");
    }

    #[test]
    fn unknown_enumeration_number_survives_a_round_trip() {
        let parsed = parse(br#"{"cluster_config": {"vm_type": 9}}"#);
        assert!(parsed.config.to_json().expose().contains("\"vm_type\": 9"));
    }

    #[test]
    fn fields_before_an_error_are_kept() {
        let parsed = parse(b"{\"version\": \"v1\",\n \"kubernetes_version\": \"1.33.0\",\n \"cluster_config\": {\"location\": \"eastus\", \"vm_type\": {}}}");
        let error = parsed.error.unwrap();
        assert_eq!((error.path.as_str(), error.line), ("cluster_config.vm_type", 3));
        assert_eq!(parsed.config.kubernetes_version, "1.33.0");
        assert_eq!(parsed.config.cluster_config.unwrap().location, "eastus");
        let cut = parse(br#"{"version": "v1", "vm_size": "Stand"#);
        assert_eq!(cut.config.version, "v1");
        assert!(cut.error.is_some());
    }

    #[test]
    fn error_in_a_secret_does_not_show_it() {
        let parsed = parse(br#"{"auth_config": {"service_principal_secret": 4711}, "x": 1}"#);
        let error = parsed.error.unwrap();
        assert_eq!(error.reason, "expected a string, found a number");
        let parsed = parse(br#"{"auth_config": {"service_principal_secret": "hunter2"}}"#);
        assert!(!format!("{parsed:?}").contains("hunter2"));
    }

    #[test]
    fn duplicate_field_is_an_error() {
        let parsed = parse(br#"{"vm_size": "a", "vmSize": "b"}"#);
        assert_eq!(parsed.error.unwrap().reason, "duplicate field");
        assert_eq!(parsed.config.vm_size, "a");
    }

    #[test]
    fn unsupported_versions_are_rejected() {
        assert!(parse(br#"{"version": "v1"}"#).config.check_version().is_ok());
        assert_eq!(parse(b"{}").config.check_version(), Err(VersionError(String::new())));
        assert_eq!(parse(br#"{"version": "v1"}"#).config.missing().len(), 6);
    }

    #[test]
    fn integers_may_have_a_zero_fraction_an_exponent_or_quotes() {
        for text in ["5", "5.0", "5e0", "\"5\""] {
            assert_eq!(parse(format!("{{\"cse_timeout\": {text}}}").as_bytes()).config.cse_timeout, Some(5), "{text}");
        }
        for text in ["5.5", "true", "99999999999", "\"x\""] {
            assert!(parse(format!("{{\"cse_timeout\": {text}}}").as_bytes()).error.is_some(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn truncated_document_keeps_the_fields_before_the_cut(cut in 0_usize..90) {
            let whole = r#"{"version": "v1", "vm_size": "a", "cluster_config": {"location": "b", "vm_type": 2}, "is_kata": true}"#;
            let parsed = parse(&whole.as_bytes()[..cut.min(whole.len())]);
            prop_assert!(parsed.error.is_some());
            prop_assert_eq!(cut >= 16, parsed.config.version == "v1");
        }
    }
}
