//! The same question as [`crate::drift`], asked of documents: a value that is changed where a person writes it moves that input alone,
//! and the answer names the place.

use std::collections::BTreeMap;

use kiln_bootstrap::drift::Record;
use kiln_bootstrap::sources::{self, Fact};
use kiln_bootstrap::{Document, Field, Kind, Layer, Place, resolve};
use serde_json::{Value, json};

use crate::common::{least, strongest};
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

/// Every way to write a field's value at a kind of source: the layers, and the end of the place that must be named. An argument speaks
/// for the strongest kind.
fn ways(field: &'static Field, kind: Kind, value: &Value) -> Vec<(Vec<Layer>, String)> {
    let mut ways = written(field, kind, value);
    if field.strongest() == Some(kind) {
        let argument = format!("{}={}", field.name, text(value));
        ways.push((sources::arguments(&[argument]).unwrap(), format!("--set {}", field.name)));
    }
    ways
}

/// Every document that says it.
fn written(field: &'static Field, kind: Kind, value: &Value) -> Vec<(Vec<Layer>, String)> {
    let name = field.name;
    match kind {
        Kind::Settings => {
            let layer = sources::settings(&document(&json!({name: value}))).unwrap();
            vec![(vec![layer], format!("f.yaml:1 {name}"))]
        }
        Kind::Environment => {
            let layer =
                |variable: &str| sources::environment(&BTreeMap::from([(variable.to_owned(), text(value))])).unwrap();
            // A variable that is empty is not set.
            let set = field.reads.iter().filter(|_| !text(value).is_empty());
            set.map(|variable| (vec![layer(variable)], format!("${variable}"))).collect()
        }
        Kind::Detected => {
            let fact = Fact { field: name, text: text(value), call: "GET /there".to_owned() };
            vec![(vec![sources::detected(&[fact]).unwrap()], "GET /there".to_owned())]
        }
        Kind::NodePool => {
            let (object, place) = annotated("NodePool", name, value);
            let (own, path) = pool(name, value);
            let mut ways = vec![
                (vec![sources::node_pool(&object).unwrap()], place),
                (vec![sources::node_pool(&document(&own)).unwrap()], format!("f.yaml:1 {path}")),
            ];
            let (object, place) = annotated("NodeClaim", name, value);
            ways.push((vec![sources::node_claim(&object).unwrap()], place));
            if let Some((own, path)) = claim(name, &own, &path) {
                ways.push((vec![sources::node_claim(&document(&own)).unwrap()], format!("f.yaml:1 {path}")));
            }
            ways
        }
        Kind::NodeClass => {
            let (object, place) = annotated("AKSNodeClass", name, value);
            let mut ways = vec![(sources::node_class(&object, "amd64").unwrap(), place)];
            if let Some((own, path)) = class(name, value) {
                ways.push((sources::node_class(&document(&own), "amd64").unwrap(), format!("f.yaml:1 {path}")));
            }
            ways
        }
        Kind::Hardcoded(_) | Kind::Computed => Vec::new(),
    }
}

/// An object that says it in an annotation.
fn annotated(kind: &str, name: &str, value: &Value) -> (Document, String) {
    let key = format!("bootstrap.kiln.dev/{name}");
    let object = json!({"kind": kind, "metadata": {"annotations": {key.clone(): text(value)}}});
    (document(&object), format!("f.yaml:1 metadata.annotations.{key}"))
}

/// The claim of a pool: it has itself what the pool has in its template. The pool's name is none of it.
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

/// A pool that says it where pools say it.
fn pool(name: &str, value: &Value) -> (Value, String) {
    let spec = |spec: Value| json!({"kind": "NodePool", "spec": {"template": {"spec": spec}}});
    let requirement =
        |key: &str, value: &Value| spec(json!({"requirements": [{"key": key, "operator": "In", "values": [value]}]}));
    let settled = "spec.template.spec.requirements[0]".to_owned();
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
        "arch" => (requirement("kubernetes.io/arch", value), settled),
        "vmSize" => (requirement("node.kubernetes.io/instance-type", value), settled),
        "zone" => (requirement("topology.kubernetes.io/zone", value), settled),
        "capacityType" => (requirement("karpenter.sh/capacity-type", value), settled),
        other => panic!("a pool has no place for {other}"),
    }
}

/// A class that says it where classes say it; what has no place there is written as an annotation only.
fn class(name: &str, value: &Value) -> Option<(Value, String)> {
    let spec = |path: &str, value: Value| {
        // All of kubelet, so that the server would add nothing.
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
fn a_value_that_is_changed_in_any_document_moves_that_input_alone_and_names_the_place() {
    let mut checked = BTreeMap::<(&str, Kind), usize>::new();
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        for kind in field.kinds {
            for (a, b) in pairs(field) {
                let record = |layers: &[Layer]| {
                    let base = least().into_iter().filter(|(name, _)| *name != field.name);
                    let mut all: Vec<Layer> = base.map(|(name, value)| strongest(name, value)).collect();
                    // What a class's other parts say must not come between.
                    all.extend(layers.iter().cloned());
                    Record::of(&resolve(&all)).unwrap()
                };
                for ((before, _), (after, place)) in ways(field, *kind, &a).into_iter().zip(ways(field, *kind, &b)) {
                    let moved = record(&before).drift(&record(&after));
                    let names: Vec<&str> = moved.iter().map(|moved| moved.field.as_str()).collect();
                    assert_eq!(names, [field.name], "{kind}, {place}");
                    assert_eq!(moved[0].kind, *kind, "{}", field.name);
                    assert_eq!(moved[0].place.to_string(), place, "{}", field.name);
                    *checked.entry((field.name, *kind)).or_default() += 1;
                }
            }
        }
    }
    for field in Field::all().iter().filter(|field| field.is_input() && !is_rotated(field)) {
        for kind in field.kinds {
            // Its other value is nothing, and a variable that says nothing is not set: the next test takes the variable away.
            let silent = (field.name, *kind) == ("networkPluginMode", Kind::Environment);
            let least = match kind {
                Kind::NodePool => 4,
                Kind::NodeClass => 2,
                _ if field.strongest() == Some(*kind) => 2,
                _ => 1,
            };
            let ways = checked.get(&(field.name, *kind)).copied().unwrap_or_default();
            assert!(silent || ways >= least, "{} by {kind}: {ways}", field.name);
        }
    }
}

#[test]
fn a_mode_that_the_environment_says_moves_when_the_variable_comes_and_goes() {
    let field = Field::named("networkPluginMode").unwrap();
    let record = |said: Option<&str>| {
        let mut all: Vec<Layer> = least().into_iter().map(|(name, value)| strongest(name, value)).collect();
        let fact = Fact { field: field.name, text: String::new(), call: "GET /there".to_owned() };
        all.push(sources::detected(&[fact]).unwrap());
        let variables = said.map(|mode| (field.reads[0].to_owned(), mode.to_owned()));
        all.push(sources::environment(&variables.into_iter().collect()).unwrap());
        Record::of(&resolve(&all)).unwrap()
    };
    let (found, told) = (record(None), record(Some("overlay")));
    for (moved, kind, place) in [
        (found.drift(&told), Kind::Environment, "$NETWORK_PLUGIN_MODE"),
        (told.drift(&found), Kind::Detected, "GET /there"),
    ] {
        assert_eq!((moved.len(), moved[0].field.as_str(), moved[0].kind), (1, field.name, kind), "{moved:?}");
        assert_eq!(moved[0].place.to_string(), place);
    }
    assert_eq!(found.drift(&record(Some(""))), [], "a variable that says nothing is not set");
}

#[test]
fn what_was_found_for_a_class_moves_what_was_found() {
    let class = |version: &str, image: &str| {
        let object =
            json!({"kind": "AKSNodeClass", "status": {"kubernetesVersion": version, "images": [{"id": image}]}});
        let mut all: Vec<Layer> = least()
            .into_iter()
            .filter(|(name, _)| !["kubernetesVersion", "imageId"].contains(name))
            .map(|(name, value)| strongest(name, value))
            .collect();
        all.extend(sources::node_class(&document(&object), "amd64").unwrap());
        Record::of(&resolve(&all)).unwrap()
    };
    let moved = class("1.33.7", "/a").drift(&class("1.33.8", "/a"));
    assert_eq!((moved.len(), moved[0].field.as_str(), moved[0].kind), (1, "kubernetesVersion", Kind::Detected));
    assert!(matches!(&moved[0].place, Place::File { path, .. } if path == "status.kubernetesVersion"));
    let moved = class("1.33.7", "/a").drift(&class("1.33.7", "/b"));
    assert_eq!((moved.len(), moved[0].field.as_str(), moved[0].needs_new_node()), (1, "imageId", true));
}
