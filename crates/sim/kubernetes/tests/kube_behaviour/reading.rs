//! Lists, selectors and tables.

use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::test_server::TestServer;

crate::both!(
    pages_of_a_list_are_consistent,
    label_selectors_filter_lists,
    field_selectors_filter_lists,
    exact_version_lists_the_past_state,
    future_version_is_rejected,
    tables_have_the_columns_of_kubectl,
    metadata_can_be_listed_alone,
    unsupported_media_type_is_not_acceptable,
);

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn pages_of_a_list_are_consistent(g: TestServer) {
    for name in ["a", "b", "c", "d", "e"] {
        g.post(&g.path("secrets"), json!({"metadata": {"name": name}})).await.ok();
    }
    let first = g.get(&g.path("secrets?limit=2")).await.ok();
    assert_eq!((&first["kind"], names(&first)), (&json!("SecretList"), vec!["a", "b"]));
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    assert!(first["items"][0].get("kind").is_none(), "{}", first["items"][0]);
    // Changes in the meantime do not affect the remaining pages.
    g.delete(&g.path("secrets/d"), json!({})).await.ok();
    g.post(&g.path("secrets"), json!({"metadata": {"name": "c2"}})).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = g.get(&g.path(&format!("secrets?limit=2&continue={token}"))).await.ok();
    assert_eq!(names(&second), ["c", "d"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = g.get(&g.path(&format!("secrets?limit=2&continue={token}"))).await.ok();
    assert_eq!(names(&third), ["e"]);
    assert!(third["metadata"]["continue"].as_str().unwrap_or_default().is_empty());
    assert_eq!(g.get(&g.path("secrets?continue=nonsense")).await.error().0, 400);
}

async fn label_selectors_filter_lists(g: TestServer) {
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        g.post(&g.path("secrets"), json!({"metadata": {"name": name, "labels": {"app": app}}})).await.ok();
    }
    for (selector, found) in
        [("app%3Dweb", vec!["a", "c"]), ("app%21%3Dweb", vec!["b"]), ("app+in+(db,x)", vec!["b"]), ("%21app", vec![])]
    {
        let list = g.get(&g.path(&format!("secrets?labelSelector={selector}"))).await.ok();
        assert_eq!(names(&list), found, "{selector}");
    }
    assert_eq!(g.get(&g.path("secrets?labelSelector=a+in+b")).await.error(), (400, "BadRequest"));
}

async fn field_selectors_filter_lists(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    g.pod("b", None, json!({})).await;
    for (selector, found) in [
        (format!("spec.nodeName%3D{node}"), vec!["a"]),
        ("spec.nodeName%3D".to_owned(), vec!["b"]),
        ("metadata.name%3Da".to_owned(), vec!["a"]),
        ("status.phase%21%3DPending".to_owned(), vec![]),
    ] {
        let list = g.get(&g.path(&format!("pods?fieldSelector={selector}"))).await.ok();
        assert_eq!(names(&list), found, "{selector}");
    }
    let reply = g.get(&g.path("pods?fieldSelector=spec.image%3Da")).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert!(reply.message().contains("field label not supported"), "{}", reply.message());
}

async fn exact_version_lists_the_past_state(g: TestServer) {
    g.config_map("a", "1").await;
    let then = g.get(&g.path("secrets")).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    g.post(&g.path("secrets"), json!({"metadata": {"name": "late"}})).await.ok();
    let path = g.path(&format!("secrets?resourceVersion={then}&resourceVersionMatch=Exact"));
    let list = g.get(&path).await.ok();
    assert_eq!(names(&list), Vec::<&str>::new());
    assert_eq!(list["metadata"]["resourceVersion"], json!(then));
    assert_eq!(names(&g.get(&g.path("secrets")).await.ok()), ["late"]);
}

async fn future_version_is_rejected(g: TestServer) {
    let reply = g.get(&g.path("configmaps?resourceVersion=999999999999")).await;
    assert_eq!(reply.error(), (504, "Timeout"));
    assert!(reply.message().starts_with("Timeout: Too large resource version: 999999999999"), "{}", reply.message());
    assert_eq!(reply.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

pub(crate) async fn get_as(g: &TestServer, path: &str, accept: &str) -> (u16, Value) {
    let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
    let response = g.client.send(request).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap())
}

pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn tables_have_the_columns_of_kubectl(g: TestServer) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    let columns = |table: &Value| -> Vec<String> {
        let list = table["columnDefinitions"].as_array().unwrap();
        list.iter().map(|column| format!("{}/{}", column["name"].as_str().unwrap(), column["priority"])).collect()
    };
    let (_, pods) = get_as(&g, &g.path("pods"), TABLE).await;
    assert_eq!(pods["kind"], "Table");
    assert_eq!(
        columns(&pods),
        [
            "Name/0",
            "Ready/0",
            "Status/0",
            "Restarts/0",
            "Age/0",
            "IP/1",
            "Node/1",
            "Nominated Node/1",
            "Readiness Gates/1"
        ]
    );
    let cells = pods["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..4], [json!("a"), json!("0/1"), json!("Pending"), json!("0")]);
    assert_eq!(cells[5..8], [json!("<none>"), json!(node), json!("<none>")]);
    assert_eq!(pods["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, one) = get_as(&g, &format!("/api/v1/nodes/{node}"), TABLE).await;
    assert_eq!(
        columns(&one),
        [
            "Name/0",
            "Status/0",
            "Roles/0",
            "Age/0",
            "Version/0",
            "Internal-IP/1",
            "External-IP/1",
            "OS-Image/1",
            "Kernel-Version/1",
            "Container-Runtime/1",
        ]
    );
    let cells = one["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!(node), json!("Ready"), json!("<none>")]);
    for path in [
        g.path("configmaps"),
        g.path("secrets"),
        g.path("events"),
        "/api/v1/namespaces".to_owned(),
        g.group_path("coordination.k8s.io", "leases"),
        g.group_path("policy", "poddisruptionbudgets"),
    ] {
        let (code, table) = get_as(&g, &path, TABLE).await;
        assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{path}");
    }
}

async fn metadata_can_be_listed_alone(g: TestServer) {
    g.post(&g.path("secrets"), json!({"metadata": {"name": "a"}, "stringData": {"k": "secret"}})).await.ok();
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = get_as(&g, &g.path("secrets"), accept).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert!(list["items"][0].get("data").is_none());
}

async fn unsupported_media_type_is_not_acceptable(g: TestServer) {
    let (code, status) = get_as(&g, &g.path("configmaps"), "text/html").await;
    assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")));
}
