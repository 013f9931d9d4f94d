//! Definitions of custom resources, their scopes and versions.

use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

crate::both!(
    definition_is_established_and_discovered,
    invalid_definition_is_rejected,
    definition_is_deleted_with_its_objects,
    version_without_a_served_flag_is_not_found,
    custom_resource_owns_and_is_owned,
    namespace_is_deleted_with_its_custom_resources,
    cluster_scoped_resource_has_no_namespace,
    versions_share_their_objects,
);

/// The group of a test's own definition, because the real server is shared.
pub(crate) struct Widgets {
    pub(crate) group: String,
    namespace: String,
}

impl Widgets {
    /// Creates the definition of widgets and waits until it is served.
    pub(crate) async fn define(g: &TestServer) -> Self {
        Self::define_with(g, &json!({})).await
    }

    /// The same with a merge patch of the definition.
    pub(crate) async fn define_with(g: &TestServer, change: &Value) -> Self {
        let group = format!("{}.kiln.test", TestServer::unique("g"));
        let mut definition = definition(&group);
        kiln_types::json::merge_patch(&mut definition, change);
        let made = g.post(DEFINITIONS, definition).await;
        assert_eq!(made.code, 201, "{:#}", made.body);
        let widgets = Self { group, namespace: g.namespace.clone() };
        g.until(&widgets.definition(), |reply| is_true(&reply.body, "Established")).await;
        // The real server serves the resource a moment later.
        g.until(&format!("/apis/{}", widgets.group), |reply| reply.code == 200).await;
        let versions = made.body["spec"]["versions"].as_array().unwrap();
        for version in versions.iter().filter(|version| version["served"] == true) {
            let version = version["name"].as_str().unwrap();
            g.until(&format!("/apis/{}/{version}/widgets", widgets.group), |reply| reply.code == 200).await;
        }
        widgets
    }

    pub(crate) fn definition(&self) -> String {
        format!("{DEFINITIONS}/widgets.{}", self.group)
    }

    /// The path of widgets in the test's namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/apis/{}/v1/namespaces/{}/widgets{rest}", self.group, self.namespace)
    }

    pub(crate) fn widget(&self, name: &str, spec: Value) -> Value {
        let version = format!("{}/v1", self.group);
        let mut object = json!({"apiVersion": version, "kind": "Widget", "metadata": {"name": name}});
        object["spec"] = spec;
        object
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|one| one["type"] == condition && one["status"] == "True"))
}

fn schema() -> Value {
    let part = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "n": {"type": "integer", "default": 3}}});
    let condition = json!({"type": "object", "required": ["type", "status"], "properties": {
        "type": {"type": "string"}, "status": {"type": "string"}}});
    json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
            "tags": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"},
                "x-kubernetes-list-type": "set"},
            "at": {"type": "string", "format": "date-time"},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": part},
            "labels": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
            "amount": {"x-kubernetes-int-or-string": true},
            "factor": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 2},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            "optional": {"type": "string", "nullable": true},
            "rule": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                "x-kubernetes-validations": [
                    {"rule": "self.x <= self.y", "message": "x is too large"},
                    {"rule": "self.x == oldSelf.x", "fieldPath": ".x", "reason": "FieldValueForbidden",
                        "message": "x never changes"},
                ]},
        }},
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"},
            "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": condition},
        }},
    }})
}

fn version(name: &str) -> Value {
    json!({
        "name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema()},
        "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.mode"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    })
}

pub(crate) fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version("v1")],
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wdg"], "categories": ["gadgets"]},
        },
    })
}

async fn definition_is_established_and_discovered(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let read = g.get(&widgets.definition()).await.ok();
    assert_eq!(read["metadata"]["generation"], 1);
    assert_eq!(read["spec"]["conversion"], json!({"strategy": "None"}));
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        "shortNames": ["wdg"], "categories": ["gadgets"]});
    assert_eq!((&read["spec"]["names"], &read["status"]["acceptedNames"]), (&names, &names));
    assert_eq!(read["status"]["storedVersions"], json!(["v1"]));
    let condition = |kind: &str| {
        let list = read["status"]["conditions"].as_array().unwrap();
        let found = list.iter().find(|one| one["type"] == kind).unwrap();
        (found["status"].clone(), found["reason"].clone(), found["message"].clone())
    };
    assert_eq!(condition("NamesAccepted"), (json!("True"), json!("NoConflicts"), json!("no conflicts found")));
    let accepted = json!("the initial names have been accepted");
    assert_eq!(condition("Established"), (json!("True"), json!("InitialNamesAccepted"), accepted));

    let group = g.get(&format!("/apis/{}", widgets.group)).await.ok();
    let version = json!({"groupVersion": format!("{}/v1", widgets.group), "version": "v1"});
    assert_eq!(
        (&group["kind"], &group["preferredVersion"], &group["versions"]),
        (&json!("APIGroup"), &version, &json!([version]))
    );
    let list = g.get(&format!("/apis/{}/v1", widgets.group)).await.ok();
    let resources = list["resources"].as_array().unwrap();
    assert_eq!(resources.iter().map(|one| &one["name"]).collect::<Vec<_>>(), ["widgets", "widgets/status"]);
    assert_eq!((&resources[0]["kind"], &resources[0]["shortNames"]), (&json!("Widget"), &json!(["wdg"])));
    assert_eq!(resources[1]["verbs"], json!(["get", "patch", "update"]));
}

async fn invalid_definition_is_rejected(g: TestServer) {
    let group = format!("{}.kiln.test", TestServer::unique("g"));
    for (change, message) in [
        (
            json!({"metadata": {"name": "other"}}),
            "metadata.name: Invalid value: \"other\": must be spec.names.plural+\".\"+spec.group",
        ),
        (json!({"spec": {"scope": "World"}}), "spec.scope: Unsupported value: \"World\""),
        (
            json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
            "must have exactly one version marked as storage version",
        ),
        (
            json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true}]}}),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"x": {"description": "d"}}}}}]}}),
            "properties[x].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [{"rule": "self.x >"}]}}}]}}),
            "x-kubernetes-validations[0].rule: Invalid value",
        ),
    ] {
        let mut definition = definition(&group);
        kiln_types::json::merge_patch(&mut definition, &change);
        let reply = g.post(DEFINITIONS, definition).await;
        assert_eq!(reply.error(), (422, "Invalid"), "{change}: {}", reply.message());
        assert!(reply.message().contains(message), "{message}: {}", reply.message());
    }
}

async fn definition_is_deleted_with_its_objects(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let mut held = widgets.widget("a", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["kiln.dev/x"]);
    g.post(&widgets.path(""), held).await.ok();
    g.post(&widgets.path(""), widgets.widget("b", json!({"size": 1}))).await.ok();
    g.delete(&widgets.definition(), json!({})).await.ok();
    let going = g.get(&widgets.definition()).await.ok();
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    g.until(&widgets.path("/a"), |reply| reply.body["metadata"]["deletionTimestamp"].is_string()).await;
    g.until_gone(&widgets.path("/b")).await;
    g.patch(&widgets.path("/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    g.until_gone(&widgets.definition()).await;
    g.until_gone(&widgets.path("")).await;
    g.until_gone(&format!("/apis/{}", widgets.group)).await;
}

async fn version_without_a_served_flag_is_not_found(g: TestServer) {
    let mut old = version("v1alpha1");
    old["served"] = json!(false);
    old["storage"] = json!(false);
    let widgets = Widgets::define_with(&g, &json!({"spec": {"versions": [old, version("v1")]}})).await;
    assert_eq!(g.get(&widgets.path("").replace("/v1/", "/v1alpha1/")).await.code, 404);
    assert_eq!(g.get(&widgets.path("")).await.code, 200);
}

async fn custom_resource_owns_and_is_owned(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let reference = |owner: &Value| json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]);
    let map = g.config_map("root", "1").await;
    let mut middle = widgets.widget("middle", json!({"size": 1}));
    middle["metadata"]["ownerReferences"] = reference(&map);
    let middle = g.post(&widgets.path(""), middle).await.ok();
    let leaf = json!({"metadata": {"name": "leaf", "ownerReferences": reference(&middle)}});
    g.post(&g.path("secrets"), leaf).await.ok();
    g.delete(&g.path("configmaps/root"), json!({"propagationPolicy": "Background"})).await.ok();
    g.until_gone(&widgets.path("/middle")).await;
    g.until_gone(&g.path("secrets/leaf")).await;
}

async fn namespace_is_deleted_with_its_custom_resources(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let mut held = widgets.widget("a", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["kiln.dev/x"]);
    g.post(&widgets.path(""), held).await.ok();
    g.post(&widgets.path(""), widgets.widget("b", json!({"size": 1}))).await.ok();
    let space = format!("/api/v1/namespaces/{}", g.namespace);
    g.delete(&space, json!({})).await.ok();
    g.until(&widgets.path("/a"), |reply| reply.body["metadata"]["deletionTimestamp"].is_string()).await;
    g.until_gone(&widgets.path("/b")).await;
    assert_eq!(g.get(&space).await.ok()["status"]["phase"], "Terminating");
    g.patch(&widgets.path("/a"), MERGE, json!({"metadata": {"finalizers": null}})).await.ok();
    g.until_gone(&space).await;
}

async fn cluster_scoped_resource_has_no_namespace(g: TestServer) {
    let widgets = Widgets::define_with(&g, &json!({"spec": {"scope": "Cluster"}})).await;
    let path = format!("/apis/{}/v1/widgets", widgets.group);
    let made = g.post(&path, widgets.widget("a", json!({"size": 1}))).await.ok();
    assert!(made["metadata"].get("namespace").is_none(), "{made:#}");
    assert_eq!(g.get(&format!("{path}/a")).await.code, 200);
    assert_eq!(g.get(&widgets.path("/a")).await.code, 404);
}

async fn versions_share_their_objects(g: TestServer) {
    let mut new = version("v2");
    new["storage"] = json!(false);
    let widgets = Widgets::define_with(&g, &json!({"spec": {"versions": [version("v1"), new]}})).await;
    g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1}))).await.ok();
    let second = widgets.path("/a").replace("/v1/", "/v2/");
    let read = g.get(&second).await.ok();
    assert_eq!(read["apiVersion"], json!(format!("{}/v2", widgets.group)));
    g.patch(&second, MERGE, json!({"spec": {"size": 2}})).await.ok();
    let read = g.get(&widgets.path("/a")).await.ok();
    assert_eq!((&read["apiVersion"], &read["spec"]["size"]), (&json!(format!("{}/v1", widgets.group)), &json!(2)));
    let group = g.get(&format!("/apis/{}", widgets.group)).await.ok();
    assert_eq!(group["preferredVersion"]["version"], "v2");
}
