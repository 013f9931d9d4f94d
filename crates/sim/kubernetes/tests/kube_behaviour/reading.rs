//! Lists, selectors, tables.

use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::ground::Ground;

crate::both!(
    a_list_comes_in_pages_that_fit_together,
    labels_select,
    fields_select,
    an_exact_version_shows_what_was,
    a_version_to_come_is_refused,
    a_table_has_the_columns_that_people_know,
    metadata_alone_can_be_had,
    what_is_not_json_is_not_given,
);

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn a_list_comes_in_pages_that_fit_together(g: Ground) {
    for name in ["a", "b", "c", "d", "e"] {
        g.post(&g.path("secrets"), json!({"metadata": {"name": name}})).await.ok();
    }
    let first = g.get(&g.path("secrets?limit=2")).await.ok();
    assert_eq!((&first["kind"], names(&first)), (&json!("SecretList"), vec!["a", "b"]));
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    assert!(first["items"][0].get("kind").is_none(), "{}", first["items"][0]);
    // What happens meanwhile is not in the pages to come.
    g.delete(&g.path("secrets/d"), json!({})).await.ok();
    g.post(&g.path("secrets"), json!({"metadata": {"name": "c2"}})).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = g.get(&g.path(&format!("secrets?limit=2&continue={token}"))).await.ok();
    assert_eq!(names(&second), ["c", "d"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = g.get(&g.path(&format!("secrets?limit=2&continue={token}"))).await.ok();
    assert_eq!(names(&third), ["e"]);
    assert!(third["metadata"]["continue"].as_str().unwrap_or_default().is_empty());
    assert_eq!(g.get(&g.path("secrets?continue=nonsense")).await.refused().0, 400);
}

async fn labels_select(g: Ground) {
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        g.post(&g.path("secrets"), json!({"metadata": {"name": name, "labels": {"app": app}}})).await.ok();
    }
    for (selector, found) in
        [("app%3Dweb", vec!["a", "c"]), ("app%21%3Dweb", vec!["b"]), ("app+in+(db,x)", vec!["b"]), ("%21app", vec![])]
    {
        let list = g.get(&g.path(&format!("secrets?labelSelector={selector}"))).await.ok();
        assert_eq!(names(&list), found, "{selector}");
    }
    assert_eq!(g.get(&g.path("secrets?labelSelector=a+in+b")).await.refused(), (400, "BadRequest"));
}

async fn fields_select(g: Ground) {
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
    let said = g.get(&g.path("pods?fieldSelector=spec.image%3Da")).await;
    assert_eq!(said.refused(), (400, "BadRequest"));
    assert!(said.message().contains("field label not supported"), "{}", said.message());
}

async fn an_exact_version_shows_what_was(g: Ground) {
    g.config_map("a", "1").await;
    let then = g.get(&g.path("secrets")).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    g.post(&g.path("secrets"), json!({"metadata": {"name": "late"}})).await.ok();
    let path = g.path(&format!("secrets?resourceVersion={then}&resourceVersionMatch=Exact"));
    let list = g.get(&path).await.ok();
    assert_eq!(names(&list), Vec::<&str>::new());
    assert_eq!(list["metadata"]["resourceVersion"], json!(then));
    assert_eq!(names(&g.get(&g.path("secrets")).await.ok()), ["late"]);
}

async fn a_version_to_come_is_refused(g: Ground) {
    let said = g.get(&g.path("configmaps?resourceVersion=999999999999")).await;
    assert_eq!(said.refused(), (504, "Timeout"));
    assert!(said.message().starts_with("Timeout: Too large resource version: 999999999999"), "{}", said.message());
    assert_eq!(said.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

async fn in_form(g: &Ground, path: &str, accept: &str) -> (u16, Value) {
    let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
    let response = g.client.send(request).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap())
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn a_table_has_the_columns_that_people_know(g: Ground) {
    let node = g.node().await;
    g.pod("a", Some(&node), json!({})).await;
    let columns = |table: &Value| -> Vec<String> {
        let list = table["columnDefinitions"].as_array().unwrap();
        list.iter().map(|column| format!("{}/{}", column["name"].as_str().unwrap(), column["priority"])).collect()
    };
    let (_, pods) = in_form(&g, &g.path("pods"), TABLE).await;
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
    let (_, one) = in_form(&g, &format!("/api/v1/nodes/{node}"), TABLE).await;
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
        let (code, table) = in_form(&g, &path, TABLE).await;
        assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{path}");
    }
}

async fn metadata_alone_can_be_had(g: Ground) {
    g.post(&g.path("secrets"), json!({"metadata": {"name": "a"}, "stringData": {"k": "secret"}})).await.ok();
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = in_form(&g, &g.path("secrets"), accept).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert!(list["items"][0].get("data").is_none());
}

async fn what_is_not_json_is_not_given(g: Ground) {
    let (code, status) = in_form(&g, &g.path("configmaps"), "text/html").await;
    assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")));
}
