//! Drift reports exactly the changed field, for every field and every kind of source that may set it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{TOKEN, highest, inputs, position, required, source};
use kiln_bootstrap::drift::{PROGRAM, Record, highest_effect};
use kiln_bootstrap::{Field, Source, SourceKind, SourcePosition, ValueType, resolve};
use serde_json::{Value, json};

/// Pairs of different valid values for a field.
pub(crate) fn pairs(field: &Field) -> Vec<(Value, Value)> {
    let one = |a: Value, b: Value| vec![(a, b)];
    match field.name {
        "kubernetesVersion" => vec![(json!("1.33.7"), json!("1.35.5")), (json!("1.33.7"), json!("1.29.2"))],
        "clusterEndpoint" => one(json!("https://a.hcp.eastus.azmk8s.io"), json!("https://b.hcp.eastus.azmk8s.io:8443")),
        "vnetSubnetId" => one(
            json!(crate::common::SUBNET),
            json!("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/t"),
        ),
        "arch" => one(json!("amd64"), json!("arm64")),
        "vmSize" => vec![
            (json!("standard_d2_v2"), json!("standard_nc6s_v3")),
            (json!("standard_d2_v2"), json!("standard_d4_v2")),
        ],
        "imageFamily" => one(json!("Ubuntu2204"), json!("AzureLinux")),
        "gpuMode" => one(json!("Driver"), json!("None")),
        "networkPlugin" => one(json!("azure"), json!("none")),
        "networkPluginMode" => one(json!("overlay"), json!("")),
        "networkDataplane" => one(json!("cilium"), json!("azure")),
        "fipsMode" => one(json!("Disabled"), json!("FIPS")),
        "capacityType" => one(json!("on-demand"), json!("spot")),
        "localDnsMode" => one(json!("Disabled"), json!("Required")),
        "credentialFrom" => one(json!("attestedIdentity"), json!("managedIdentity")),
        "kubelet.cpuCFSQuota" | "kubelet.failSwapOn" => one(json!("true"), json!("false")),
        "kubelet.cpuCFSQuotaPeriod" => one(json!("100ms"), json!("200ms")),
        "caBundle" => one(json!(crate::common::ca()), json!("Yg==")),
        "customCaCerts" => vec![(json!(["a"]), json!(["a", "b"])), (json!([]), json!(["a"]))],
        _ => match field.value_type {
            ValueType::Text => one(json!("one"), json!("two")),
            ValueType::Bool => one(json!(false), json!(true)),
            ValueType::Int => one(json!(41), json!(42)),
            ValueType::List => one(json!(["a"]), json!(["a", "b"])),
            ValueType::Map => one(json!({"a": "1"}), json!({"a": "2"})),
        },
    }
}

/// Whether a field is a secret that is rotated, so that a changed value is not drift.
pub(crate) fn is_rotated(field: &Field) -> bool {
    field.secret && !field.name.contains("Proxy")
}

/// Values of other fields. Some rules apply only in combination with them.
fn contexts() -> Vec<Vec<(&'static str, Value)>> {
    vec![
        vec![],
        vec![
            ("imageFamily", json!("Ubuntu")),
            ("kubernetesVersion", json!("1.34.1")),
            ("artifactStreaming", json!(true)),
            ("vmSize", json!("standard_nc6s_v3")),
        ],
        vec![("networkPluginMode", json!("")), ("networkDataplane", json!("azure"))],
        vec![("imageFamily", json!("Ubuntu")), ("fipsMode", json!("FIPS"))],
    ]
}

fn sources(around: &[(&'static str, Value)], name: &str, kind: SourceKind, value: &Value) -> Vec<Source> {
    let base = required()
        .into_iter()
        .filter(|(other, _)| !around.iter().any(|(a, _)| a == other))
        .chain(around.iter().cloned());
    let mut sources: Vec<Source> =
        base.filter(|(other, _)| *other != name).map(|(other, value)| highest(other, value)).collect();
    sources.push(source(kind, name, value.clone()));
    sources
}

#[test]
fn changed_field_is_the_only_drift_and_lists_its_dependents() {
    let mut checked = 0;
    let mut witnessed: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for field in Field::all().iter().filter(|field| field.is_input()) {
        for kind in field.kinds {
            for around in contexts() {
                for (a, b) in pairs(field) {
                    let record = |value: &Value| {
                        Record::from_inputs(&resolve(&sources(&around, field.name, *kind, value))).unwrap()
                    };
                    let (before, after) = (record(&a), record(&b));
                    let drifted = before.drift(&after);
                    checked += 1;
                    if is_rotated(field) {
                        assert_eq!(drifted, [], "{}", field.name);
                        continue;
                    }
                    assert_eq!(drifted.len(), 1, "{} by {kind}: {drifted:?}", field.name);
                    let drifted = &drifted[0];
                    assert_eq!(
                        (drifted.field.as_str(), drifted.kind, &drifted.position),
                        (field.name, *kind, &position(*kind, field.name))
                    );
                    let changed: Vec<&String> = before
                        .variables
                        .iter()
                        .filter(|(name, text)| after.variables[*name] != **text && *name != field.name)
                        .map(|(name, _)| name)
                        .collect();
                    assert_eq!(drifted.computed.iter().collect::<Vec<_>>(), changed, "{} by {kind}", field.name);
                    witnessed.entry(field.name).or_default().extend(drifted.computed.iter().cloned());
                }
            }
        }
    }
    assert!(checked > 400, "{checked}");
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        let secret = |name: &str| Field::named(name).unwrap().secret;
        let variables = field
            .dependents()
            .into_iter()
            .filter(|name| Field::named(name).unwrap().variable.is_some() && !secret(name));
        let declared: BTreeSet<String> = variables.map(str::to_owned).collect();
        assert_eq!(witnessed[field.name], declared, "dependents of {} differ from the table", field.name);
    }
}

/// Inputs that a record requires.
const NEEDED: [&str; 8] = [
    "caBundle",
    "clusterEndpoint",
    "kubernetesVersion",
    "location",
    "resourceGroup",
    "subscriptionId",
    "tenantId",
    "vnetSubnetId",
];

#[test]
fn setting_and_unsetting_a_field_is_drift() {
    let (mut checked, mut without) = (0, BTreeSet::new());
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        let base = required().into_iter().filter(|(name, _)| *name != field.name);
        let base: Vec<Source> = base.map(|(name, value)| highest(name, value)).collect();
        let resolved = resolve(&base);
        let Ok(unset) = Record::from_inputs(&resolved) else {
            without.insert(field.name);
            continue;
        };
        let now = resolved.get(field.name).unwrap();
        for kind in field.kinds {
            for value in pairs(field).into_iter().flat_map(|(a, b)| [a, b]) {
                let mut sources = base.clone();
                sources.push(source(*kind, field.name, value.clone()));
                let set = Record::from_inputs(&resolve(&sources)).unwrap();
                let changed: Vec<&String> = set
                    .variables
                    .iter()
                    .filter(|(name, text)| unset.variables[*name] != **text && *name != field.name)
                    .map(|(name, _)| name)
                    .collect();
                let (redrifted, added) = (set.drift(&unset), unset.drift(&set));
                if value == now.value && changed.is_empty() {
                    assert_eq!((redrifted, added), (vec![], vec![]), "{} by {kind}", field.name);
                    continue;
                }
                for (drifted, kind, position) in
                    [(&redrifted, now.kind, &now.position), (&added, *kind, &position(*kind, field.name))]
                {
                    assert_eq!(drifted.len(), 1, "{} by {kind}: {drifted:?}", field.name);
                    let drifted = &drifted[0];
                    assert_eq!((drifted.field.as_str(), drifted.kind, &drifted.position), (field.name, kind, position));
                    assert_eq!(drifted.computed.iter().collect::<Vec<_>>(), changed, "{} by {kind}", field.name);
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
    assert_eq!(without, NEEDED.into());
}

#[test]
fn unset_security_group_is_reported_instead_of_the_cluster_id() {
    let record = |more: &[(&'static str, Value)]| Record::from_inputs(&inputs(more)).unwrap();
    let drifted = record(&[("securityGroup", json!("mine"))]).drift(&record(&[]));
    assert_eq!((drifted.len(), drifted[0].field.as_str(), drifted[0].kind), (1, "securityGroup", SourceKind::Computed));
    assert_eq!((&drifted[0].from, drifted[0].position.to_string().as_str()), (&json!("mine"), "clusterId"));
    assert_eq!(drifted[0].computed, ["NetworkSecurityGroup"]);
    let drifted = record(&[("clusterId", json!("12345678"))]).drift(&record(&[]));
    assert_eq!((drifted.len(), drifted[0].field.as_str()), (1, "clusterId"));
    assert!(drifted[0].computed.contains(&"NetworkSecurityGroup".to_owned()), "{drifted:?}");
}

#[test]
fn changes_by_a_different_kiln_version_are_reported_as_such() {
    let now = Record::from_inputs(&inputs(&[])).unwrap();
    for name in now.variables.keys() {
        for hash in [now.hash.as_str(), "old-hash"] {
            let mut then = now.clone();
            then.variables.insert(name.clone(), "old value".to_owned());
            (then.hash, then.version) = (hash.to_owned(), Some("0.0.9".to_owned()));
            // Records survive serialization.
            let then: Record = serde_json::from_str(&serde_json::to_string(&then).unwrap()).unwrap();
            let drifted = then.drift(&now);
            assert_eq!((drifted.len(), drifted[0].field.as_str()), (1, PROGRAM), "{name}: {drifted:?}");
            assert_eq!((&drifted[0].from, drifted[0].to.as_str()), (&json!("0.0.9"), now.version.as_deref()));
            assert_eq!((&drifted[0].position, &drifted[0].computed), (&SourcePosition::Program, &vec![name.clone()]));
            assert_eq!(drifted[0].effect, Field::named(name).unwrap().effect, "{name}");
        }
    }
    let mut other = now.clone();
    other.version = None;
    assert_eq!(other.drift(&now), [], "a different version that computes the same values is not drift");
    other.hash = "old-hash".to_owned();
    let drifted = other.drift(&now);
    assert_eq!(
        (drifted.len(), &drifted[0].from, highest_effect(&drifted)),
        (1, &Value::Null, kiln_node_config::Effect::None)
    );
}

#[test]
fn changes_by_a_different_kiln_version_are_reported_after_changed_inputs() {
    let now = Record::from_inputs(&inputs(&[("maxPods", json!(30))])).unwrap();
    let mut then = Record::from_inputs(&inputs(&[])).unwrap();
    then.variables.insert("CNIPluginsURL".to_owned(), "https://elsewhere/cni.tgz".to_owned());
    // A field that no longer exists, and a cluster ID that was computed differently.
    then.variables.insert("Withdrawn".to_owned(), "1".to_owned());
    then.inputs.get_mut("clusterId").unwrap().value = json!("00000000");
    let drifted = then.drift(&now);
    let named: Vec<(&str, Vec<&str>)> = drifted
        .iter()
        .map(|drifted| (drifted.field.as_str(), drifted.computed.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(named, [("maxPods", vec!["KubeletFlags"]), (PROGRAM, vec!["clusterId", "CNIPluginsURL", "Withdrawn"])]);
    assert!(drifted[1].needs_replacement());
}

#[test]
fn rotated_token_is_not_drift() {
    let record = |token: &str| Record::from_inputs(&inputs(&[("bootstrapToken", json!(token))])).unwrap();
    let (old, new) = (record(TOKEN), record("fedcba.fedcba9876543210"));
    assert_eq!(old.hash, new.hash);
    assert_eq!(old.drift(&new), []);
    let stored = serde_json::to_string(&old).unwrap();
    assert!(!stored.contains("0123456789abcdef"));
    assert_eq!(serde_json::from_str::<Record>(&stored).unwrap(), old);
}

#[test]
fn same_value_from_a_different_source_is_not_drift() {
    let base = inputs(&[("networkPolicy", json!("cilium"))]);
    let mut all: Vec<Source> = required().into_iter().map(|(name, value)| highest(name, value)).collect();
    all.push(source(SourceKind::Detected, "networkPolicy", json!("cilium")));
    assert_eq!(Record::from_inputs(&base).unwrap().drift(&Record::from_inputs(&resolve(&all)).unwrap()), []);
}

#[test]
fn effect_tells_whether_a_new_node_is_needed() {
    let drift = |name: &'static str, value: Value| {
        Record::from_inputs(&inputs(&[])).unwrap().drift(&Record::from_inputs(&inputs(&[(name, value)])).unwrap())
    };
    assert!(!drift("maxPods", json!(30))[0].needs_replacement());
    assert!(!drift("labels", json!({"a": "b"}))[0].needs_replacement());
    assert!(!drift("tags", json!({"a": "b"}))[0].needs_replacement());
    assert!(drift("vmSize", json!("standard_d4_v2"))[0].needs_replacement());
    assert!(drift("DisableSSH", json!(true))[0].needs_replacement());
    let both = Record::from_inputs(&inputs(&[]))
        .unwrap()
        .drift(&Record::from_inputs(&inputs(&[("maxPods", json!(30)), ("zone", json!("1"))])).unwrap());
    assert_eq!((both.len(), highest_effect(&both)), (2, kiln_node_config::Effect::Replace));
}

#[test]
fn changed_proxy_address_is_drift_and_changed_proxy_password_is_not() {
    let record = |proxy: &str| Record::from_inputs(&inputs(&[("HTTPProxyURLs", json!(proxy))])).unwrap();
    let old = record("http://me:hunter2@proxy:3128");
    assert_eq!(old.drift(&record("http://me:hunter3@proxy:3128")), []);
    assert_eq!(old.drift(&record("http://proxy:3128")), []);
    let drifted = old.drift(&record("http://other:3128"));
    assert_eq!((drifted.len(), drifted[0].field.as_str(), drifted[0].needs_replacement()), (1, "HTTPProxyURLs", false));
    let stored = serde_json::to_string(&old).unwrap();
    assert!(!stored.contains("hunter2") && !stored.contains("proxy:3128"), "{stored}");
}
