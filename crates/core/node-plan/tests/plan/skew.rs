//! Documents of other versions.

use kiln_node_config::{NodeConfig, ParseError};
use kiln_node_plan::{Desired, layout};
use serde_json::json;

use crate::support::{config, facts};

#[test]
fn unknown_fields_are_kept_reported_and_ignored() {
    let plain = Desired::render(&config(json!({})), &facts()).expect("compatible");
    let newer = config(json!({"os": {"colour": "blue"}, "kubelet": {"moods": ["good"]}, "weather": {}}));
    let parsed = NodeConfig::parse(newer.to_json().as_bytes()).expect("reads");
    let desired = Desired::render(&parsed, &facts()).expect("compatible");
    assert_eq!(desired.unknown, ["spec.kubelet.moods", "spec.os.colour", "spec.weather"]);
    assert!(desired.text(layout::DOCUMENT).expect("the document").contains("\"colour\":\"blue\""));
    let rest = |desired: &Desired| {
        let files = desired.files.iter().filter(|file| file.path != layout::DOCUMENT).cloned().collect::<Vec<_>>();
        (files, desired.elsewhere.clone(), desired.deferred.clone())
    };
    assert_eq!(rest(&desired), rest(&plain));
}

#[test]
fn unknown_major_version_is_rejected() {
    let text = config(json!({})).to_json().replace("v1alpha1", "v2");
    assert!(matches!(NodeConfig::parse(text.as_bytes()), Err(ParseError::Unsupported(_))));
}
