//! Watches.

use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

crate::both!(
    watch_reports_each_change_after_its_version,
    watch_without_a_version_starts_with_existing_objects,
    object_that_no_longer_matches_is_reported_as_deleted,
    watch_ends_after_its_timeout,
    watch_of_one_name_sees_only_that_object,
    watch_events_can_be_tables,
    streamed_list_ends_with_a_bookmark,
);

pub(crate) type Lines = futures_util::stream::BoxStream<'static, Value>;

pub(crate) async fn watch(g: &TestServer, path: &str) -> Lines {
    watch_as(g, path, "application/json").await
}

async fn watch_as(g: &TestServer, path: &str, accept: &str) -> Lines {
    let request = Request::get(path).header("accept", accept).body(Vec::new()).unwrap();
    let lines = g.client.request_stream(request).await.unwrap().lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).boxed()
}

/// The next event: its type, the object's name, and the object.
pub(crate) async fn next(lines: &mut Lines) -> (String, String, Value) {
    let event = tokio::time::timeout(Duration::from_mins(1), lines.next()).await.expect("an event").expect("one more");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]), event["object"].clone())
}

async fn version(g: &TestServer) -> String {
    g.get(&g.path("secrets")).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn secret(g: &TestServer, name: &str, app: &str) {
    g.post(&g.path("secrets"), json!({"metadata": {"name": name, "labels": {"app": app}}})).await.ok();
}

async fn watch_reports_each_change_after_its_version(g: TestServer) {
    secret(&g, "before", "x").await;
    let from = version(&g).await;
    secret(&g, "a", "x").await;
    let mut lines = watch(&g, &g.path(&format!("secrets?watch=true&resourceVersion={from}"))).await;
    let (kind, name, object) = next(&mut lines).await;
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "a"));
    assert_eq!(object["kind"], "Secret");
    g.patch(&g.path("secrets/a"), MERGE, json!({"metadata": {"labels": {"app": "y"}}})).await.ok();
    let (kind, name, changed) = next(&mut lines).await;
    assert_eq!((kind.as_str(), name.as_str(), &changed["metadata"]["labels"]["app"]), ("MODIFIED", "a", &json!("y")));
    g.delete(&g.path("secrets/a"), json!({})).await.ok();
    let (kind, name, gone) = next(&mut lines).await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "a"));
    let number = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(number(&object) < number(&changed) && number(&changed) < number(&gone));
}

async fn watch_without_a_version_starts_with_existing_objects(g: TestServer) {
    secret(&g, "a", "x").await;
    secret(&g, "b", "x").await;
    for from in ["", "&resourceVersion=0"] {
        let mut lines = watch(&g, &g.path(&format!("secrets?watch=true{from}"))).await;
        let mut names = vec![next(&mut lines).await.1, next(&mut lines).await.1];
        names.sort();
        assert_eq!(names, ["a", "b"]);
    }
}

async fn object_that_no_longer_matches_is_reported_as_deleted(g: TestServer) {
    let from = version(&g).await;
    let path = format!("secrets?watch=true&resourceVersion={from}&labelSelector=app%3Dx");
    let mut lines = watch(&g, &g.path(&path)).await;
    secret(&g, "other", "y").await;
    secret(&g, "a", "x").await;
    assert_eq!(next(&mut lines).await.1, "a");
    let left = g.patch(&g.path("secrets/a"), MERGE, json!({"metadata": {"labels": {"app": "y"}}})).await.ok();
    let (kind, name, object) = next(&mut lines).await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "a"));
    assert_eq!(object["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
    g.patch(&g.path("secrets/other"), MERGE, json!({"metadata": {"labels": {"app": "x"}}})).await.ok();
    let (kind, name, _) = next(&mut lines).await;
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "other"));
}

async fn watch_ends_after_its_timeout(g: TestServer) {
    let from = version(&g).await;
    let mut lines = watch(&g, &g.path(&format!("secrets?watch=true&resourceVersion={from}&timeoutSeconds=1"))).await;
    let end = tokio::time::timeout(Duration::from_mins(1), lines.next()).await.expect("an end");
    assert!(end.is_none(), "{end:?}");
}

async fn watch_of_one_name_sees_only_that_object(g: TestServer) {
    let from = version(&g).await;
    let path = format!("secrets?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let mut lines = watch(&g, &g.path(&path)).await;
    secret(&g, "a", "x").await;
    secret(&g, "b", "x").await;
    assert_eq!(next(&mut lines).await.1, "b");
}

async fn watch_events_can_be_tables(g: TestServer) {
    secret(&g, "a", "x").await;
    secret(&g, "b", "x").await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let mut lines = watch_as(&g, &g.path("secrets?watch=true"), accept).await;
    let (_, _, first) = next(&mut lines).await;
    assert_eq!((&first["kind"], &first["rows"][0]["cells"][1]), (&json!("Table"), &json!("Opaque")));
    assert!(first["columnDefinitions"].is_array());
    let (_, _, second) = next(&mut lines).await;
    assert!(second["columnDefinitions"].is_null(), "{second}");
}

async fn streamed_list_ends_with_a_bookmark(g: TestServer) {
    secret(&g, "a", "x").await;
    secret(&g, "b", "x").await;
    let path = "secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = watch(&g, &g.path(path)).await;
    for name in ["a", "b"] {
        let (kind, own, _) = next(&mut lines).await;
        assert_eq!((kind.as_str(), own.as_str()), ("ADDED", name));
    }
    let (kind, _, bookmark) = next(&mut lines).await;
    assert_eq!((kind.as_str(), &bookmark["kind"]), ("BOOKMARK", &json!("Secret")));
    assert_eq!(bookmark["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    secret(&g, "c", "x").await;
    // The server may send more bookmarks.
    let later = loop {
        let (kind, name, _) = next(&mut lines).await;
        if kind != "BOOKMARK" {
            break name;
        }
    };
    assert_eq!(later, "c");
    let reply = g.get(&g.path("secrets?watch=true&sendInitialEvents=true")).await;
    assert_eq!(reply.error(), (422, "Invalid"));
}
