//! Watches.

use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use serde_json::{Value, json};

use crate::ground::{Ground, MERGE};

crate::both!(
    a_watch_tells_each_change_from_its_version_on,
    a_watch_without_a_version_starts_with_what_is_there,
    what_leaves_the_selection_is_gone_for_the_watcher,
    a_watch_ends_when_its_time_is_up,
    a_watch_of_one_name_sees_no_other,
    an_event_of_a_watch_can_be_a_table,
);

type Lines = futures_util::stream::BoxStream<'static, Value>;

async fn watch(g: &Ground, path: &str) -> Lines {
    watch_as(g, path, "application/json").await
}

async fn watch_as(g: &Ground, path: &str, accept: &str) -> Lines {
    let request = Request::get(path).header("accept", accept).body(Vec::new()).unwrap();
    let lines = g.client.request_stream(request).await.unwrap().lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).boxed()
}

/// The next event: its type, the object's name, and the object.
async fn next(lines: &mut Lines) -> (String, String, Value) {
    let event = tokio::time::timeout(Duration::from_mins(1), lines.next()).await.expect("an event").expect("one more");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]), event["object"].clone())
}

async fn version(g: &Ground) -> String {
    g.get(&g.path("secrets")).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn secret(g: &Ground, name: &str, app: &str) {
    g.post(&g.path("secrets"), json!({"metadata": {"name": name, "labels": {"app": app}}})).await.ok();
}

async fn a_watch_tells_each_change_from_its_version_on(g: Ground) {
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

async fn a_watch_without_a_version_starts_with_what_is_there(g: Ground) {
    secret(&g, "a", "x").await;
    secret(&g, "b", "x").await;
    for from in ["", "&resourceVersion=0"] {
        let mut lines = watch(&g, &g.path(&format!("secrets?watch=true{from}"))).await;
        let mut names = vec![next(&mut lines).await.1, next(&mut lines).await.1];
        names.sort();
        assert_eq!(names, ["a", "b"]);
    }
}

async fn what_leaves_the_selection_is_gone_for_the_watcher(g: Ground) {
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

async fn a_watch_ends_when_its_time_is_up(g: Ground) {
    let from = version(&g).await;
    let mut lines = watch(&g, &g.path(&format!("secrets?watch=true&resourceVersion={from}&timeoutSeconds=1"))).await;
    let end = tokio::time::timeout(Duration::from_mins(1), lines.next()).await.expect("an end");
    assert!(end.is_none(), "{end:?}");
}

async fn a_watch_of_one_name_sees_no_other(g: Ground) {
    let from = version(&g).await;
    let path = format!("secrets?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3Db");
    let mut lines = watch(&g, &g.path(&path)).await;
    secret(&g, "a", "x").await;
    secret(&g, "b", "x").await;
    assert_eq!(next(&mut lines).await.1, "b");
}

async fn an_event_of_a_watch_can_be_a_table(g: Ground) {
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
