//! Custom resources as `kubectl` and informers see them: tables, watches and commands.

use serde_json::{Value, json};

use crate::custom::{Widgets, definition};
use crate::reading::{TABLE, get_as};
use crate::test_server::{MERGE, TestServer};
use crate::watches::{next, watch};

crate::both!(
    table_has_the_declared_columns,
    watch_reports_changes_of_custom_resources,
    streamed_list_of_custom_resources_ends_with_a_bookmark,
    kubectl_applies_a_definition_and_waits_for_it,
    kubectl_gets_describes_and_edits_custom_resources,
    kubectl_applies_on_the_server,
);

async fn table_has_the_declared_columns(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    g.post(&widgets.path(""), widgets.widget("a", json!({"size": 4}))).await.ok();
    let (_, table) = get_as(&g, &widgets.path(""), TABLE).await;
    let columns: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| json!([column["name"], column["type"], column["format"], column["priority"]]))
        .collect();
    assert_eq!(
        columns,
        [
            json!(["Name", "string", "name", 0]),
            json!(["Size", "integer", "", 0]),
            json!(["Ready", "string", "", 0]),
            json!(["Mode", "string", "", 1]),
            json!(["Age", "date", "", 0]),
        ]
    );
    assert_eq!(
        table["columnDefinitions"][1]["description"],
        "Custom resource definition column (in JSONPath format): .spec.size"
    );
    let cells = |table: &Value| table["rows"][0]["cells"].as_array().unwrap()[..4].to_vec();
    assert_eq!(cells(&table), [json!("a"), json!(4), json!(null), json!("A")]);
    let ready =
        json!({"status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]}});
    g.patch(&widgets.path("/a/status"), MERGE, ready).await.ok();
    let (_, table) = get_as(&g, &widgets.path(""), TABLE).await;
    assert_eq!(cells(&table), [json!("a"), json!(4), json!("True"), json!("A")]);
}

async fn watch_reports_changes_of_custom_resources(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let list = g.get(&widgets.path("")).await.ok();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut lines = watch(&g, &widgets.path(&format!("?watch=true&resourceVersion={from}"))).await;
    let one = format!("?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let mut only = watch(&g, &widgets.path(&one)).await;
    g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1}))).await.ok();
    g.patch(&widgets.path("/a/status"), MERGE, json!({"status": {"phase": "p"}})).await.ok();
    g.delete(&widgets.path("/a"), json!({})).await.ok();
    g.post(&widgets.path(""), widgets.widget("b", json!({"size": 1}))).await.ok();
    for (kind, name, phase) in [
        ("ADDED", "a", json!(null)),
        ("MODIFIED", "a", json!("p")),
        ("DELETED", "a", json!("p")),
        ("ADDED", "b", json!(null)),
    ] {
        let (found, own, object) = next(&mut lines).await;
        assert_eq!((found.as_str(), own.as_str(), &object["status"]["phase"]), (kind, name, &phase));
        assert_eq!(object["kind"], "Widget");
    }
    assert_eq!(next(&mut only).await.1, "b");
}

async fn streamed_list_of_custom_resources_ends_with_a_bookmark(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1}))).await.ok();
    let path = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = watch(&g, &widgets.path(path)).await;
    assert_eq!(next(&mut lines).await.1, "a");
    let (kind, _, bookmark) = next(&mut lines).await;
    assert_eq!((kind.as_str(), &bookmark["kind"]), ("BOOKMARK", &json!("Widget")));
    assert_eq!(bookmark["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
}

async fn kubectl_applies_a_definition_and_waits_for_it(g: TestServer) {
    let group = format!("{}.kiln.test", TestServer::unique("g"));
    let definition = definition(&group);
    let name = format!("crd/widgets.{group}");
    let (done, stdout, stderr) = g.kubectl(&["apply", "-f", "-"], &definition.to_string()).await;
    assert!(done, "{stderr}");
    assert_eq!(stdout, format!("customresourcedefinition.apiextensions.k8s.io/widgets.{group} created\n"));
    g.kubectl_ok(&["wait", "--for=condition=Established", &name, "--timeout=60s"]).await;
    let mut changed = definition;
    changed["spec"]["names"]["shortNames"] = json!(["wdg", "wgt"]);
    let (done, stdout, stderr) = g.kubectl(&["apply", "-f", "-"], &changed.to_string()).await;
    assert!(done && stdout.ends_with(" configured\n"), "{stdout}{stderr}");
    let read =
        g.until(&format!("/apis/{group}/v1"), |reply| reply.body["resources"][0]["shortNames"][1] == "wgt").await;
    assert_eq!(read.body["resources"][0]["shortNames"], json!(["wdg", "wgt"]));
    g.kubectl_ok(&["delete", &name, "--timeout=60s"]).await;
}

async fn kubectl_gets_describes_and_edits_custom_resources(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let kind = format!("widgets.{}", widgets.group);
    let object = widgets.widget("a", json!({"size": 1, "labels": {"x": "1", "y": "2"}}));
    let (done, _, stderr) = g.kubectl(&["apply", "-f", "-"], &object.to_string()).await;
    assert!(done, "{stderr}");
    let table = g.kubectl_ok(&["get", &kind]).await;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "SIZE", "READY", "AGE"]);
    assert_eq!(rows[1][..2], ["a", "1"]);
    assert_eq!(g.kubectl_ok(&["get", &kind, "a", "-o", "jsonpath={.spec.mode}"]).await, "A");
    assert!(g.kubectl_ok(&["describe", &kind, "a"]).await.contains("Labels:"));
    // A client-side apply removes what the last applied configuration had.
    let object = widgets.widget("a", json!({"size": 2, "labels": {"x": "1"}}));
    let (done, _, stderr) = g.kubectl(&["apply", "-f", "-"], &object.to_string()).await;
    assert!(done, "{stderr}");
    g.kubectl_ok(&["patch", &kind, "a", "--subresource=status", "--type=merge", "-p", r#"{"status":{"phase":"p"}}"#])
        .await;
    let read = g.get(&widgets.path("/a")).await.ok();
    assert_eq!(
        (&read["spec"]["labels"], &read["spec"]["size"], &read["status"]["phase"]),
        (&json!({"x": "1"}), &json!(2), &json!("p"))
    );
    let wrong = widgets.widget("b", json!({"size": 1, "bad": 2}));
    let (done, _, stderr) = g.kubectl(&["apply", "-f", "-"], &wrong.to_string()).await;
    assert!(!done && stderr.contains("strict decoding error: unknown field \"spec.bad\""), "{stderr}");
    g.kubectl_ok(&["delete", &kind, "a", "--timeout=60s"]).await;
    assert_eq!(g.get(&widgets.path("/a")).await.code, 404);
}

async fn kubectl_applies_on_the_server(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let object = widgets.widget("a", json!({"size": 1})).to_string();
    let arguments = ["apply", "--server-side", "--field-manager=one", "-f", "-"];
    let (done, stdout, stderr) = g.kubectl(&arguments, &object).await;
    assert!(done && stdout.ends_with("/a serverside-applied\n"), "{stdout}{stderr}");
    let other = widgets.widget("a", json!({"size": 2})).to_string();
    let arguments = ["apply", "--server-side", "--field-manager=two", "-f", "-"];
    let (done, _, stderr) = g.kubectl(&arguments, &other).await;
    assert!(!done && stderr.contains("conflict with \"one\": .spec.size"), "{stderr}");
    let (done, _, stderr) = g.kubectl(&[&arguments[..], &["--force-conflicts"]].concat(), &other).await;
    assert!(done, "{stderr}");
    assert_eq!(g.get(&widgets.path("/a")).await.ok()["spec"]["size"], 2);
}
