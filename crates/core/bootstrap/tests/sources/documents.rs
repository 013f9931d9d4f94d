//! Like [`crate::drift`], but with values in documents: changing a value in a file, an annotation, a variable or an argument is drift of
//! that input only, and the drift entry has its position.

use std::collections::BTreeMap;

use kiln_bootstrap::drift::Record;
use kiln_bootstrap::sources::{self, Fact};
use kiln_bootstrap::{Document, Field, Source, SourceKind, SourcePosition, resolve};
use serde_json::{Value, json};

use crate::common::{highest, required};
use crate::drift::{is_rotated, pairs};

/// A value as an environment variable, an annotation or an argument writes it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(map) => {
            map.iter().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

fn document(value: &Value) -> Document {
    Document::read("f.yaml", &value.to_string()).unwrap()
}

/// All variants to set a field for a kind of source, as sources and expected position. An argument has the highest kind of its field.
fn variants(field: &'static Field, kind: SourceKind, value: &Value) -> Vec<(Vec<Source>, String)> {
    let mut variants = document_variants(field, kind, value);
    if field.highest_kind() == Some(kind) {
        let argument = format!("{}={}", field.name, text(value));
        variants.push((sources::arguments(&[argument]).unwrap(), format!("--set {}", field.name)));
    }
    variants
}

/// All documents that set the value.
fn document_variants(field: &'static Field, kind: SourceKind, value: &Value) -> Vec<(Vec<Source>, String)> {
    let name = field.name;
    match kind {
        SourceKind::Settings => {
            let source = sources::settings(&document(&json!({name: value}))).unwrap();
            vec![(vec![source], format!("f.yaml:1 {name}"))]
        }
        SourceKind::Environment => {
            let source =
                |variable: &str| sources::environment(&BTreeMap::from([(variable.to_owned(), text(value))])).unwrap();
            // An empty variable counts as not set.
            let set = field.reads.iter().filter(|_| !text(value).is_empty());
            set.map(|variable| (vec![source(variable)], format!("${variable}"))).collect()
        }
        SourceKind::Detected => {
            let fact = Fact { field: name, text: text(value), call: "GET /there".to_owned() };
            vec![(vec![sources::detected(&[fact]).unwrap()], "GET /there".to_owned())]
        }
        SourceKind::NodePool => {
            let (object, position) = annotated("NodePool", name, value);
            let (own, path) = pool(name, value);
            let mut variants = vec![
                (vec![sources::node_pool(&object).unwrap()], position),
                (vec![sources::node_pool(&document(&own)).unwrap()], format!("f.yaml:1 {path}")),
            ];
            let (object, position) = annotated("NodeClaim", name, value);
            variants.push((vec![sources::node_claim(&object).unwrap()], position));
            if let Some((own, path)) = claim(name, &own, &path) {
                variants.push((vec![sources::node_claim(&document(&own)).unwrap()], format!("f.yaml:1 {path}")));
            }
            variants
        }
        SourceKind::NodeClass => {
            let (object, position) = annotated("AKSNodeClass", name, value);
            let mut variants = vec![(sources::node_class(&object, "amd64").unwrap(), position)];
            if let Some((own, path)) = class(name, value) {
                variants.push((sources::node_class(&document(&own), "amd64").unwrap(), format!("f.yaml:1 {path}")));
            }
            variants
        }
        SourceKind::Hardcoded(_) | SourceKind::Computed => Vec::new(),
    }
}

/// An object that sets the field in an annotation.
fn annotated(kind: &str, name: &str, value: &Value) -> (Document, String) {
    let key = format!("bootstrap.kiln.dev/{name}");
    let object = json!({"kind": kind, "metadata": {"annotations": {key.clone(): text(value)}}});
    (document(&object), format!("f.yaml:1 metadata.annotations.{key}"))
}

/// The claim of a pool, with the values of the pool's template. A claim does not set the pool's name.
fn claim(name: &str, pool: &Value, path: &str) -> Option<(Value, String)> {
    if name == "nodePoolName" {
        return None;
    }
    let template = &pool["spec"]["template"];
    let own =
        json!({"kind": "NodeClaim", "metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]});
    let own = without_null(own);
    Some((own, path.strip_prefix("spec.template.")?.to_owned()))
}

fn without_null(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_null(value)))
            .collect(),
        other => other,
    }
}

/// A pool that sets the field in its spec.
fn pool(name: &str, value: &Value) -> (Value, String) {
    let spec = |spec: Value| json!({"kind": "NodePool", "spec": {"template": {"spec": spec}}});
    let requirement =
        |key: &str, value: &Value| spec(json!({"requirements": [{"key": key, "operator": "In", "values": [value]}]}));
    let position = "spec.template.spec.requirements[0]".to_owned();
    match name {
        "nodePoolName" => (json!({"kind": "NodePool", "metadata": {"name": value}}), "metadata.name".to_owned()),
        "labels" => {
            let own = json!({"kind": "NodePool", "spec": {"template": {"metadata": {"labels": value}}}});
            (own, "spec.template.metadata.labels".to_owned())
        }
        "requirementLabels" => {
            let (key, value) = value.as_object().unwrap().iter().next().unwrap();
            (requirement(key, value), "spec.template.spec.requirements".to_owned())
        }
        "taints" | "startupTaints" => {
            let taint = |key: &Value| json!({"key": key, "effect": "NoSchedule"});
            let taints: Vec<Value> = value.as_array().unwrap().iter().map(taint).collect();
            (spec(json!({name: taints})), format!("spec.template.spec.{name}"))
        }
        "arch" => (requirement("kubernetes.io/arch", value), position),
        "vmSize" => (requirement("node.kubernetes.io/instance-type", value), position),
        "zone" => (requirement("topology.kubernetes.io/zone", value), position),
        "capacityType" => (requirement("karpenter.sh/capacity-type", value), position),
        other => panic!("a NodePool cannot set {other}"),
    }
}

/// A class that sets the field in its spec. Fields that its schema does not have are set by annotation only.
fn class(name: &str, value: &Value) -> Option<(Value, String)> {
    let spec = |path: &str, value: Value| {
        // All kubelet defaults are set, so that none are added.
        let mut spec = json!({"kubelet": {"cpuCFSQuota": true, "cpuCFSQuotaPeriod": "100ms", "containerLogMaxSize": "50Mi", "containerLogMaxFiles": 5}});
        let mut at = &mut spec;
        for part in path.split('.') {
            at = &mut at[part];
        }
        *at = value;
        Some((json!({"kind": "AKSNodeClass", "spec": spec}), format!("spec.{path}")))
    };
    let boolean = || json!(value.as_str() == Some("true"));
    match name {
        "vnetSubnetId" => spec("vnetSubnetID", value.clone()),
        "osDiskSizeGb" => spec("osDiskSizeGB", value.clone()),
        "imageFamily" | "fipsMode" | "tags" | "maxPods" => spec(name, value.clone()),
        "encryptionAtHost" => spec("security.encryptionAtHost", value.clone()),
        "trustedLaunch" => {
            let (own, _) = spec("security.trustedLaunch.vtpm", value.clone())?;
            Some((own, "spec.security.trustedLaunch".to_owned()))
        }
        "gpuMode" => spec("gpu.mode", value.clone()),
        "artifactStreaming" => spec("artifactStreaming.enabled", value.clone()),
        "localDnsMode" => spec("localDNS.mode", value.clone()),
        "kubelet.cpuCFSQuota" | "kubelet.failSwapOn" => spec(name, boolean()),
        _ if name.starts_with("kubelet.") => spec(name, value.clone()),
        "THPEnabled" => spec("linuxOSConfig.transparentHugePageEnabled", value.clone()),
        "THPDefrag" => spec("linuxOSConfig.transparentHugePageDefrag", value.clone()),
        "SwapFileSizeMB" => spec("linuxOSConfig.swapFileSize", json!(format!("{value}Mi"))),
        "sysctls" => {
            let number: i64 = value.as_object()?.values().next()?.as_str()?.parse().ok()?;
            spec("linuxOSConfig.sysctls", json!({"vmSwappiness": number}))
        }
        "localDnsVnetOverrides" | "localDnsKubeOverrides" => {
            let zone = json!([{"zone": ".", "protocol": text(value)}]);
            spec(if name.contains("Vnet") { "localDNS.vnetDNSOverrides" } else { "localDNS.kubeDNSOverrides" }, zone)
        }
        _ => None,
    }
}

#[test]
fn changed_value_in_any_document_is_drift_of_that_input_only() {
    let mut checked = BTreeMap::<(&str, SourceKind), usize>::new();
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        for kind in field.kinds {
            for (a, b) in pairs(field) {
                let record = |sources: &[Source]| {
                    let base = required().into_iter().filter(|(name, _)| *name != field.name);
                    let mut all: Vec<Source> = base.map(|(name, value)| highest(name, value)).collect();
                    // The document comes last, so that its other values do not interfere.
                    all.extend(sources.iter().cloned());
                    Record::from_inputs(&resolve(&all)).unwrap()
                };
                for ((before, _), (after, position)) in
                    variants(field, *kind, &a).into_iter().zip(variants(field, *kind, &b))
                {
                    let drifted = record(&before).drift(&record(&after));
                    let names: Vec<&str> = drifted.iter().map(|drifted| drifted.field.as_str()).collect();
                    assert_eq!(names, [field.name], "{kind}, {position}");
                    assert_eq!(drifted[0].kind, *kind, "{}", field.name);
                    assert_eq!(drifted[0].position.to_string(), position, "{}", field.name);
                    *checked.entry((field.name, *kind)).or_default() += 1;
                }
            }
        }
    }
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        for kind in field.kinds {
            // The second value is empty, and an empty variable counts as not set. The next test covers it.
            let exempt = (field.name, *kind) == ("networkPluginMode", SourceKind::Environment);
            let expected = match kind {
                SourceKind::NodePool => 4,
                SourceKind::NodeClass => 2,
                _ if field.highest_kind() == Some(*kind) => 2,
                _ => 1,
            };
            let count = checked.get(&(field.name, *kind)).copied().unwrap_or_default();
            assert!(exempt || count >= expected, "{} by {kind}: {count}", field.name);
        }
    }
}

#[test]
fn setting_and_unsetting_a_variable_is_drift() {
    let field = Field::named("networkPluginMode").unwrap();
    let record = |variable: Option<&str>| {
        let mut all: Vec<Source> = required().into_iter().map(|(name, value)| highest(name, value)).collect();
        let fact = Fact { field: field.name, text: String::new(), call: "GET /there".to_owned() };
        all.push(sources::detected(&[fact]).unwrap());
        let variables = variable.map(|mode| (field.reads[0].to_owned(), mode.to_owned()));
        all.push(sources::environment(&variables.into_iter().collect()).unwrap());
        Record::from_inputs(&resolve(&all)).unwrap()
    };
    let (unset, set) = (record(None), record(Some("overlay")));
    for (drifted, kind, position) in [
        (unset.drift(&set), SourceKind::Environment, "$NETWORK_PLUGIN_MODE"),
        (set.drift(&unset), SourceKind::Detected, "GET /there"),
    ] {
        assert_eq!((drifted.len(), drifted[0].field.as_str(), drifted[0].kind), (1, field.name, kind), "{drifted:?}");
        assert_eq!(drifted[0].position.to_string(), position);
    }
    assert_eq!(unset.drift(&record(Some(""))), [], "an empty variable counts as not set");
}

#[test]
fn changed_class_status_is_drift_of_detected_values() {
    let class = |version: &str, image: &str| {
        let object =
            json!({"kind": "AKSNodeClass", "status": {"kubernetesVersion": version, "images": [{"id": image}]}});
        let mut all: Vec<Source> = required()
            .into_iter()
            .filter(|(name, _)| !["kubernetesVersion", "imageId"].contains(name))
            .map(|(name, value)| highest(name, value))
            .collect();
        all.extend(sources::node_class(&document(&object), "amd64").unwrap());
        Record::from_inputs(&resolve(&all)).unwrap()
    };
    let drifted = class("1.33.7", "/a").drift(&class("1.33.8", "/a"));
    assert_eq!(
        (drifted.len(), drifted[0].field.as_str(), drifted[0].kind),
        (1, "kubernetesVersion", SourceKind::Detected)
    );
    assert!(matches!(&drifted[0].position, SourcePosition::File { path, .. } if path == "status.kubernetesVersion"));
    let drifted = class("1.33.7", "/a").drift(&class("1.33.7", "/b"));
    assert_eq!((drifted.len(), drifted[0].field.as_str(), drifted[0].needs_replacement()), (1, "imageId", true));
}
