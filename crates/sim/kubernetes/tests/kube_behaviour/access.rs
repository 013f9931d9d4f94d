//! Authentication and discovery.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::test_server::TestServer;

crate::both!(wrong_token_is_unauthorized, discovery_lists_groups_resources_and_subresources, version_is_served,);

async fn wrong_token_is_unauthorized(g: TestServer) {
    let nodes: Api<Node> = Api::all(g.unauthenticated_client().await);
    let error = nodes.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (401, "Unauthorized", "Unauthorized"));
}

async fn discovery_lists_groups_resources_and_subresources(g: TestServer) {
    let groups = g.get("/apis").await.ok();
    for wanted in ["apps", "policy", "coordination.k8s.io", "events.k8s.io"] {
        let found = groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == wanted).unwrap();
        assert_eq!(found["preferredVersion"]["groupVersion"], json!(format!("{wanted}/v1")));
    }
    let core = g.get("/api/v1").await.ok();
    let find = |name: &str| -> Value {
        core["resources"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    let eviction = find("pods/eviction");
    assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
    assert_eq!(find("nodes")["namespaced"], false);
    assert_eq!(find("nodes")["shortNames"], json!(["no"]));
    for verb in ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] {
        assert!(find("pods")["verbs"].as_array().unwrap().contains(&json!(verb)), "{verb}");
    }
    let documents = g.get("/openapi/v3").await.ok();
    let at = documents["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = g.get(at).await.ok();
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    let kind = &patch["x-kubernetes-group-version-kind"];
    assert_eq!((&kind["version"], &kind["kind"]), (&json!("v1"), &json!("Pod")));
    assert!(patch["parameters"].as_array().unwrap().iter().any(|one| one["name"] == "fieldValidation"));
}

async fn version_is_served(g: TestServer) {
    let version = g.client.apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
    assert!(version.minor.trim_end_matches('+').parse::<u32>().unwrap() >= 33, "{version:?}");
}
