//! Reading and writing the whole document.

use super::config::Configuration;
use super::wire::{Names, Reading, Slot, Written};
use crate::Secret;

/// What could be read of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The configuration, or the part of it before the mistake.
    pub config: Configuration,
    /// The mistake, where there is one. A node goes on with what it has.
    pub problem: Option<ParseProblem>,
    /// Fields that this version does not know, by their paths.
    pub ignored: Vec<String>,
}

/// Where a document stopped making sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}, at `{path}`: {reason}")]
pub struct ParseProblem {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    pub path: String,
    /// What was wrong, without the value.
    pub reason: String,
}

/// A version of the document that no node reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AKSNodeConfig has version `{0}`: v1 is read, and v0 still")]
pub struct VersionError(pub String);

/// Reads a document as a node does: unknown fields are left out, and a mistake keeps what came before it.
pub fn parse(json: &[u8]) -> Parsed {
    let mut config = Configuration::default();
    let mut reading = Reading::default();
    let mut from = serde_json::Deserializer::from_slice(json);
    let read = config.merge(&mut from, &mut reading).and_then(|()| from.end());
    let problem = read.err().map(|error| {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let reason = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        ParseProblem { line: error.line(), column: error.column(), path: reading.place(), reason }
    });
    Parsed { config, problem, ignored: reading.ignored }
}

impl Configuration {
    /// The document, indented by two spaces, with proto names. It may hold secrets.
    pub fn to_json(&self) -> Secret {
        let text = serde_json::to_string_pretty(&Written(self, Names::Snake)).expect("text keys and finite numbers");
        Secret::new(text)
    }

    /// Whether a node reads documents of this version.
    pub fn check_version(&self) -> Result<(), VersionError> {
        match self.version.as_str() {
            "v1" | "v0" => Ok(()),
            other => Err(VersionError(other.to_owned())),
        }
    }

    /// The fields that a producer must fill and this document leaves empty.
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
    fn fields_are_read_by_either_name_and_enumerations_by_name_or_number() {
        let snake = parse(br#"{"version": "v1", "cluster_config": {"vm_type": "VM_TYPE_VMSS"}, "is_vhd": false}"#);
        let camel = parse(br#"{"version": "v1", "clusterConfig": {"vmType": 2}, "isVhd": false}"#);
        assert_eq!(snake, camel);
        assert_eq!(snake.config.cluster_config.as_ref().unwrap().vm_type, VmType::Vmss);
        assert_eq!(snake.config.is_vhd, Some(false));
    }

    #[test]
    fn unset_and_null_are_the_same_and_differ_from_the_zero_value_where_presence_counts() {
        let parsed = parse(br#"{"is_vhd": null, "enable_ssh": false, "cluster_config": {"load_balancer_config": {}}}"#);
        assert_eq!((parsed.config.is_vhd, parsed.config.enable_ssh), (None, Some(false)));
        let balancer = parsed.config.cluster_config.unwrap().load_balancer_config.unwrap();
        assert_eq!(balancer.load_balancer_sku, LoadBalancerSku::Unspecified);
        assert_eq!(balancer.exclude_master_from_standard_load_balancer, None);
    }

    #[test]
    fn unknown_fields_and_words_are_left_out_and_named() {
        let parsed =
            parse(br#"{"new": {"a": [1]}, "cluster_config": {"x": 1, "vm_type": "VM_TYPE_NEW"}, "version": "v1"}"#);
        assert_eq!(parsed.problem, None);
        assert_eq!(parsed.ignored, ["new", "cluster_config.x", "cluster_config.vm_type"]);
        assert_eq!(parsed.config.version, "v1");
    }

    #[test]
    fn a_number_that_is_not_known_survives_the_round_trip() {
        let parsed = parse(br#"{"cluster_config": {"vm_type": 9}}"#);
        assert!(parsed.config.to_json().expose().contains("\"vm_type\": 9"));
    }

    #[test]
    fn a_mistake_keeps_what_came_before_it_and_says_where() {
        let parsed = parse(b"{\"version\": \"v1\",\n \"kubernetes_version\": \"1.33.0\",\n \"cluster_config\": {\"location\": \"eastus\", \"vm_type\": {}}}");
        let problem = parsed.problem.unwrap();
        assert_eq!((problem.path.as_str(), problem.line), ("cluster_config.vm_type", 3));
        assert_eq!(parsed.config.kubernetes_version, "1.33.0");
        assert_eq!(parsed.config.cluster_config.unwrap().location, "eastus");
        let cut = parse(br#"{"version": "v1", "vm_size": "Stand"#);
        assert_eq!(cut.config.version, "v1");
        assert!(cut.problem.is_some());
    }

    #[test]
    fn a_mistake_in_a_secret_does_not_show_it() {
        let parsed = parse(br#"{"auth_config": {"service_principal_secret": 4711}, "x": 1}"#);
        let problem = parsed.problem.unwrap();
        assert_eq!(problem.reason, "expected a text, found a number");
        let held = parse(br#"{"auth_config": {"service_principal_secret": "hunter2"}}"#);
        assert!(!format!("{held:?}").contains("hunter2"));
    }

    #[test]
    fn a_field_that_is_there_twice_is_a_mistake() {
        let parsed = parse(br#"{"vm_size": "a", "vmSize": "b"}"#);
        assert_eq!(parsed.problem.unwrap().reason, "the field is there twice");
        assert_eq!(parsed.config.vm_size, "a");
    }

    #[test]
    fn only_versions_that_nodes_read_pass() {
        assert!(parse(br#"{"version": "v1"}"#).config.check_version().is_ok());
        assert_eq!(parse(b"{}").config.check_version(), Err(VersionError(String::new())));
        assert_eq!(parse(br#"{"version": "v1"}"#).config.missing().len(), 6);
    }

    #[test]
    fn numbers_may_be_written_in_every_way_that_means_a_whole_number() {
        for text in ["5", "5.0", "5e0", "\"5\""] {
            assert_eq!(parse(format!("{{\"cse_timeout\": {text}}}").as_bytes()).config.cse_timeout, Some(5), "{text}");
        }
        for text in ["5.5", "true", "99999999999", "\"x\""] {
            assert!(parse(format!("{{\"cse_timeout\": {text}}}").as_bytes()).problem.is_some(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_document_that_is_cut_anywhere_still_gives_what_came_before(cut in 0_usize..90) {
            let whole = r#"{"version": "v1", "vm_size": "a", "cluster_config": {"location": "b", "vm_type": 2}, "is_kata": true}"#;
            let parsed = parse(&whole.as_bytes()[..cut.min(whole.len())]);
            prop_assert!(parsed.problem.is_some());
            prop_assert_eq!(cut >= 16, parsed.config.version == "v1");
        }
    }
}
