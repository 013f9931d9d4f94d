//! Drift names exactly what moved: every field, from every kind of source that may set it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{TOKEN, inputs, layer, least, place, strongest};
use kiln_bootstrap::drift::{PROGRAM, Record, highest};
use kiln_bootstrap::{Field, Form, Kind, Layer, Place, resolve};
use serde_json::{Value, json};

/// Two values that a field may have, one pair or more.
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
        _ => match field.form {
            Form::Text => one(json!("one"), json!("two")),
            Form::Bool => one(json!(false), json!(true)),
            Form::Int => one(json!(41), json!(42)),
            Form::List => one(json!(["a"]), json!(["a", "b"])),
            Form::Map => one(json!({"a": "1"}), json!({"a": "2"})),
        },
    }
}

/// Whether a field is a secret that is rotated: another value of it is no other node.
pub(crate) fn is_rotated(field: &Field) -> bool {
    field.secret && !field.name.contains("Proxy")
}

/// Other values around the field: some rules only act with them.
fn surroundings() -> Vec<Vec<(&'static str, Value)>> {
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

fn layers(around: &[(&'static str, Value)], name: &str, kind: Kind, value: &Value) -> Vec<Layer> {
    let base =
        least().into_iter().filter(|(other, _)| !around.iter().any(|(a, _)| a == other)).chain(around.iter().cloned());
    let mut layers: Vec<Layer> =
        base.filter(|(other, _)| *other != name).map(|(other, value)| strongest(other, value)).collect();
    layers.push(layer(kind, name, value.clone()));
    layers
}

#[test]
fn a_field_that_moves_at_any_source_is_named_with_its_place_and_what_follows_and_nothing_else() {
    let mut checked = 0;
    let mut witnessed: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for field in Field::all().iter().filter(|field| field.is_input()) {
        for kind in field.kinds {
            for around in surroundings() {
                for (a, b) in pairs(field) {
                    let record =
                        |value: &Value| Record::of(&resolve(&layers(&around, field.name, *kind, value))).unwrap();
                    let (before, after) = (record(&a), record(&b));
                    let moved = before.drift(&after);
                    checked += 1;
                    if is_rotated(field) {
                        assert_eq!(moved, [], "{}", field.name);
                        continue;
                    }
                    assert_eq!(moved.len(), 1, "{} by {kind}: {moved:?}", field.name);
                    let moved = &moved[0];
                    assert_eq!(
                        (moved.field.as_str(), moved.kind, &moved.place),
                        (field.name, *kind, &place(*kind, field.name))
                    );
                    let really: Vec<&String> = before
                        .variables
                        .iter()
                        .filter(|(name, text)| after.variables[*name] != **text && *name != field.name)
                        .map(|(name, _)| name)
                        .collect();
                    assert_eq!(moved.computed.iter().collect::<Vec<_>>(), really, "{} by {kind}", field.name);
                    witnessed.entry(field.name).or_default().extend(moved.computed.iter().cloned());
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
        assert_eq!(witnessed[field.name], declared, "what follows from {} is what its row says", field.name);
    }
}

/// Inputs that no record is made without: a node without them is refused before anybody asks what moved.
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
fn a_value_that_is_taken_away_is_named_with_what_stands_now_and_so_is_one_that_comes() {
    let (mut checked, mut without) = (0, BTreeSet::new());
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        let base = least().into_iter().filter(|(name, _)| *name != field.name);
        let base: Vec<Layer> = base.map(|(name, value)| strongest(name, value)).collect();
        let resolved = resolve(&base);
        let Ok(unset) = Record::of(&resolved) else {
            without.insert(field.name);
            continue;
        };
        let now = resolved.get(field.name).unwrap();
        for kind in field.kinds {
            for value in pairs(field).into_iter().flat_map(|(a, b)| [a, b]) {
                let mut layers = base.clone();
                layers.push(layer(*kind, field.name, value.clone()));
                let set = Record::of(&resolve(&layers)).unwrap();
                let really: Vec<&String> = set
                    .variables
                    .iter()
                    .filter(|(name, text)| unset.variables[*name] != **text && *name != field.name)
                    .map(|(name, _)| name)
                    .collect();
                let (gone, come) = (set.drift(&unset), unset.drift(&set));
                if value == now.value && really.is_empty() {
                    assert_eq!((gone, come), (vec![], vec![]), "{} by {kind}", field.name);
                    continue;
                }
                for (moved, kind, place) in [(&gone, now.kind, &now.place), (&come, *kind, &place(*kind, field.name))] {
                    assert_eq!(moved.len(), 1, "{} by {kind}: {moved:?}", field.name);
                    let moved = &moved[0];
                    assert_eq!((moved.field.as_str(), moved.kind, &moved.place), (field.name, kind, place));
                    assert_eq!(moved.computed.iter().collect::<Vec<_>>(), really, "{} by {kind}", field.name);
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "{checked}");
    assert_eq!(without, NEEDED.into());
}

#[test]
fn a_security_group_that_nobody_sets_any_more_is_named_and_not_the_digits_that_it_follows_now() {
    let record = |more: &[(&'static str, Value)]| Record::of(&inputs(more)).unwrap();
    let moved = record(&[("securityGroup", json!("mine"))]).drift(&record(&[]));
    assert_eq!((moved.len(), moved[0].field.as_str(), moved[0].kind), (1, "securityGroup", Kind::Computed));
    assert_eq!((&moved[0].from, moved[0].place.to_string().as_str()), (&json!("mine"), "clusterId"));
    assert_eq!(moved[0].computed, ["NetworkSecurityGroup"]);
    let moved = record(&[("clusterId", json!("12345678"))]).drift(&record(&[]));
    assert_eq!((moved.len(), moved[0].field.as_str()), (1, "clusterId"));
    assert!(moved[0].computed.contains(&"NetworkSecurityGroup".to_owned()), "{moved:?}");
}

#[test]
fn what_another_kiln_computes_from_the_same_inputs_is_named_as_its_doing() {
    let now = Record::of(&inputs(&[])).unwrap();
    for name in now.variables.keys() {
        for hash in [now.hash.as_str(), "of-before"] {
            let mut then = now.clone();
            then.variables.insert(name.clone(), "as it was".to_owned());
            (then.hash, then.version) = (hash.to_owned(), Some("0.0.9".to_owned()));
            // A record that is stored is read again.
            let then: Record = serde_json::from_str(&serde_json::to_string(&then).unwrap()).unwrap();
            let moved = then.drift(&now);
            assert_eq!((moved.len(), moved[0].field.as_str()), (1, PROGRAM), "{name}: {moved:?}");
            assert_eq!((&moved[0].from, moved[0].to.as_str()), (&json!("0.0.9"), now.version.as_deref()));
            assert_eq!((&moved[0].place, &moved[0].computed), (&Place::Program, &vec![name.clone()]));
            assert_eq!(moved[0].effect, Field::named(name).unwrap().effect, "{name}");
        }
    }
    let mut other = now.clone();
    other.version = None;
    assert_eq!(other.drift(&now), [], "another version that computes the same is no drift");
    other.hash = "of-before".to_owned();
    let moved = other.drift(&now);
    assert_eq!((moved.len(), &moved[0].from, highest(&moved)), (1, &Value::Null, kiln_node_config::Effect::None));
}

#[test]
fn what_another_kiln_computes_stands_beside_the_inputs_that_moved_too() {
    let now = Record::of(&inputs(&[("maxPods", json!(30))])).unwrap();
    let mut then = Record::of(&inputs(&[])).unwrap();
    then.variables.insert("CNIPluginsURL".to_owned(), "https://elsewhere/cni.tgz".to_owned());
    // A field that this kiln does not have any more, and digits that were computed otherwise.
    then.variables.insert("Withdrawn".to_owned(), "1".to_owned());
    then.inputs.get_mut("clusterId").unwrap().value = json!("00000000");
    let moved = then.drift(&now);
    let named: Vec<(&str, Vec<&str>)> =
        moved.iter().map(|moved| (moved.field.as_str(), moved.computed.iter().map(String::as_str).collect())).collect();
    assert_eq!(named, [("maxPods", vec!["KubeletFlags"]), (PROGRAM, vec!["clusterId", "CNIPluginsURL", "Withdrawn"])]);
    assert!(moved[1].needs_new_node());
}

#[test]
fn a_rotated_token_is_no_drift() {
    let record = |token: &str| Record::of(&inputs(&[("bootstrapToken", json!(token))])).unwrap();
    let (old, new) = (record(TOKEN), record("fedcba.fedcba9876543210"));
    assert_eq!(old.hash, new.hash);
    assert_eq!(old.drift(&new), []);
    let stored = serde_json::to_string(&old).unwrap();
    assert!(!stored.contains("0123456789abcdef"));
    assert_eq!(serde_json::from_str::<Record>(&stored).unwrap(), old);
}

#[test]
fn another_source_that_says_the_same_is_no_drift() {
    let base = inputs(&[("networkPolicy", json!("cilium"))]);
    let mut all: Vec<Layer> = least().into_iter().map(|(name, value)| strongest(name, value)).collect();
    all.push(layer(Kind::Detected, "networkPolicy", json!("cilium")));
    assert_eq!(Record::of(&base).unwrap().drift(&Record::of(&resolve(&all)).unwrap()), []);
}

#[test]
fn the_effect_says_whether_a_new_document_will_do() {
    let drift = |name: &'static str, value: Value| {
        Record::of(&inputs(&[])).unwrap().drift(&Record::of(&inputs(&[(name, value)])).unwrap())
    };
    assert!(!drift("maxPods", json!(30))[0].needs_new_node());
    assert!(!drift("labels", json!({"a": "b"}))[0].needs_new_node());
    assert!(!drift("tags", json!({"a": "b"}))[0].needs_new_node());
    assert!(drift("vmSize", json!("standard_d4_v2"))[0].needs_new_node());
    assert!(drift("DisableSSH", json!(true))[0].needs_new_node());
    let both = Record::of(&inputs(&[]))
        .unwrap()
        .drift(&Record::of(&inputs(&[("maxPods", json!(30)), ("zone", json!("1"))])).unwrap());
    assert_eq!((both.len(), highest(&both)), (2, kiln_node_config::Effect::Replace));
}

#[test]
fn another_proxy_is_drift_and_another_password_for_it_is_not() {
    let record = |proxy: &str| Record::of(&inputs(&[("HTTPProxyURLs", json!(proxy))])).unwrap();
    let old = record("http://me:hunter2@proxy:3128");
    assert_eq!(old.drift(&record("http://me:hunter3@proxy:3128")), []);
    assert_eq!(old.drift(&record("http://proxy:3128")), []);
    let moved = old.drift(&record("http://other:3128"));
    assert_eq!((moved.len(), moved[0].field.as_str(), moved[0].needs_new_node()), (1, "HTTPProxyURLs", false));
    let stored = serde_json::to_string(&old).unwrap();
    assert!(!stored.contains("hunter2") && !stored.contains("proxy:3128"), "{stored}");
}
