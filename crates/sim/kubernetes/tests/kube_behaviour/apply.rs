//! Server-side apply of custom resources.

use serde_json::{Value, json};

use crate::custom::Widgets;
use crate::test_server::{MERGE, Reply, TestServer};

crate::both!(
    applied_fields_belong_to_their_manager,
    conflict_names_managers_and_fields,
    force_takes_fields_from_other_managers,
    field_that_is_no_longer_applied_is_removed,
    update_takes_fields_and_conflicts_with_apply,
    applied_status_has_managers_of_its_own,
    invalid_configuration_is_not_applied,
    unchanged_configuration_changes_nothing,
);

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(g: &TestServer, widgets: &Widgets, query: &str, spec: Value) -> Reply {
    g.patch(&widgets.path(&format!("/a?fieldManager={query}")), APPLY, widgets.widget("a", spec)).await
}

/// Manager, operation, subresource and fields of each entry.
fn managers(object: &Value) -> Vec<(String, String, String, Value)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries
        .iter()
        .inspect(|entry| {
            assert_eq!(entry["fieldsType"], "FieldsV1");
            assert!(entry["apiVersion"].is_string(), "{entry}");
        })
        .map(|entry| {
            let fields = entry["fieldsV1"].clone();
            (text(entry, "manager"), text(entry, "operation"), text(entry, "subresource"), fields)
        })
        .collect()
}

fn entry(manager: &str, operation: &str, fields: Value) -> (String, String, String, Value) {
    (manager.to_owned(), operation.to_owned(), String::new(), fields)
}

async fn applied_fields_belong_to_their_manager(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let spec = json!({"size": 1, "parts": [{"name": "a", "n": 1}, {"name": "b"}], "tags": ["x"], "labels": {"k": "v"}});
    let made = apply(&g, &widgets, "one", spec).await;
    assert_eq!(made.code, 201);
    let made = made.ok();
    assert_eq!(made["spec"]["mode"], "A");
    let fields = json!({"f:spec": {
        "f:size": {}, "f:tags": {"v:\"x\"": {}}, "f:labels": {"f:k": {}},
        "f:parts": {
            "k:{\"name\":\"a\"}": {".": {}, "f:n": {}, "f:name": {}}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}},
        },
    }});
    assert_eq!(managers(&made), [entry("one", "Apply", fields)]);
    let other = widgets.widget("b", json!({"size": 1, "parts": [{"name": "a"}], "free": {"a": {"b": [1]}}}));
    let made = g.post(&widgets.path("?fieldManager=creator"), other).await.ok();
    let fields = json!({"f:spec": {
        ".": {}, "f:size": {}, "f:mode": {}, "f:free": {".": {}, "f:a": {".": {}, "f:b": {}}},
        "f:parts": {".": {}, "k:{\"name\":\"a\"}": {".": {}, "f:n": {}, "f:name": {}}},
    }});
    assert_eq!(managers(&made), [entry("creator", "Update", fields)]);
}

async fn conflict_names_managers_and_fields(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    apply(&g, &widgets, "one", json!({"size": 1, "parts": [{"name": "a", "n": 1}]})).await.ok();
    let reply = apply(&g, &widgets, "two", json!({"size": 2})).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    assert_eq!(reply.message(), "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
    let cause = json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.size"}]);
    assert_eq!(reply.body["details"]["causes"], cause);
    let reply = apply(&g, &widgets, "two", json!({"size": 2, "parts": [{"name": "a", "n": 9}]})).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    assert!(
        reply.message().starts_with("Apply failed with 2 conflicts: conflicts with \"one\":\n- "),
        "{}",
        reply.message()
    );
    assert!(reply.message().contains("- .spec.parts[name=\"a\"].n"), "{}", reply.message());
    // The same value is no conflict: both own the field.
    let shared = apply(&g, &widgets, "two", json!({"size": 1})).await.ok();
    assert!(managers(&shared).contains(&entry("two", "Apply", json!({"f:spec": {"f:size": {}}}))), "{shared:#}");
}

async fn force_takes_fields_from_other_managers(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    apply(&g, &widgets, "one", json!({"size": 1, "parts": [{"name": "a"}], "tags": ["x"]})).await.ok();
    let spec = json!({"size": 2, "parts": [{"name": "c", "n": 9}], "tags": ["y"]});
    let forced = apply(&g, &widgets, "two&force=true", spec).await.ok();
    assert_eq!(
        forced["spec"],
        json!({"size": 2, "mode": "A", "parts": [{"name": "a", "n": 3}, {"name": "c", "n": 9}], "tags": ["x", "y"]})
    );
    let one =
        json!({"f:spec": {"f:parts": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}, "f:tags": {"v:\"x\"": {}}}});
    assert_eq!(managers(&forced)[0], entry("one", "Apply", one));
}

async fn field_that_is_no_longer_applied_is_removed(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    apply(&g, &widgets, "one", json!({"size": 1, "name": "abc", "parts": [{"name": "a"}, {"name": "b"}]})).await.ok();
    apply(&g, &widgets, "two", json!({"size": 1, "parts": [{"name": "b"}]})).await.ok();
    let less = apply(&g, &widgets, "one", json!({"parts": [{"name": "c"}]})).await.ok();
    // `size` and `b` stay, because the other manager owns them.
    assert_eq!(less["spec"]["size"], 1);
    assert!(less["spec"].get("name").is_none(), "{less:#}");
    let names: Vec<&Value> = less["spec"]["parts"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
    assert_eq!(names, ["b", "c"]);
}

async fn update_takes_fields_and_conflicts_with_apply(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    apply(&g, &widgets, "one", json!({"size": 1, "name": "abc"})).await.ok();
    let path = widgets.path("/a?fieldManager=editor");
    let changed = g.patch(&path, MERGE, json!({"spec": {"size": 5}})).await.ok();
    assert_eq!(
        managers(&changed),
        [
            entry("one", "Apply", json!({"f:spec": {"f:name": {}}})),
            entry("editor", "Update", json!({"f:spec": {"f:size": {}}})),
        ]
    );
    let reply = apply(&g, &widgets, "one", json!({"size": 1, "name": "abc"})).await;
    assert_eq!(reply.error(), (409, "Conflict"));
    let conflict = format!("conflict with \"editor\" using {}/v1: .spec.size", widgets.group);
    assert!(reply.message().contains(&conflict), "{}", reply.message());
    let removed = g.patch(&path, MERGE, json!({"spec": {"name": null}})).await.ok();
    assert_eq!(managers(&removed), [entry("editor", "Update", json!({"f:spec": {"f:size": {}}}))]);
}

async fn applied_status_has_managers_of_its_own(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    apply(&g, &widgets, "one", json!({"size": 1})).await.ok();
    let status = |manager: &str, status: Value| {
        let mut object = widgets.widget("a", json!({"size": 9}));
        object["status"] = status;
        (widgets.path(&format!("/a/status?fieldManager={manager}")), object)
    };
    let (path, object) = status("one", json!({"phase": "P", "conditions": [{"type": "Ready", "status": "True"}]}));
    let first = g.patch(&path, APPLY, object).await.ok();
    assert_eq!(
        (&first["spec"]["size"], &first["status"]["phase"], &first["metadata"]["generation"]),
        (&json!(1), &json!("P"), &json!(1))
    );
    let (path, object) = status("two", json!({"conditions": [{"type": "Other", "status": "False"}]}));
    let second = g.patch(&path, APPLY, object).await.ok();
    assert_eq!(
        second["status"]["conditions"],
        json!([{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}])
    );
    let condition = |kind: &str| {
        let key = format!("k:{{\"type\":\"{kind}\"}}");
        json!({"f:conditions": {key: {".": {}, "f:status": {}, "f:type": {}}}})
    };
    let found: Vec<_> = managers(&second).into_iter().filter(|entry| entry.2 == "status").collect();
    assert_eq!(
        found[1],
        ("two".to_owned(), "Apply".to_owned(), "status".to_owned(), json!({"f:status": condition("Other")}))
    );
    let (path, object) = status("two", json!({"phase": "Q"}));
    let reply = g.patch(&path, APPLY, object).await;
    assert_eq!(
        reply.message(),
        "Apply failed with 1 conflict: conflict with \"one\" with subresource \"status\": .status.phase"
    );
    let (path, object) = status("one", json!({"phase": "Q"}));
    let third = g.patch(&path, APPLY, object).await.ok();
    assert_eq!(third["status"], json!({"phase": "Q", "conditions": [{"type": "Other", "status": "False"}]}));
}

async fn invalid_configuration_is_not_applied(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let reply = g.patch(&widgets.path("/a"), APPLY, widgets.widget("a", json!({"size": 1}))).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert_eq!(
        reply.message(),
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    let reply = apply(&g, &widgets, "one", json!({"size": 1, "bad": 1})).await;
    assert_eq!(reply.code, 500);
    assert!(reply.message().ends_with(".spec.bad: field not declared in schema"), "{}", reply.message());
    let reply = apply(&g, &widgets, "one", json!({"size": 0})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    let mut other = widgets.widget("a", json!({"size": 1}));
    other.as_object_mut().unwrap().remove("apiVersion");
    let reply = g.patch(&widgets.path("/a?fieldManager=one"), APPLY, other).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert_eq!(g.get(&widgets.path("/a")).await.code, 404);
}

async fn unchanged_configuration_changes_nothing(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let spec = json!({"size": 1, "parts": [{"name": "a"}], "labels": {"k": "v"}});
    let first = apply(&g, &widgets, "one", spec.clone()).await.ok();
    let again = apply(&g, &widgets, "one", spec.clone()).await.ok();
    assert_eq!(again["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let path = widgets.path("/a?fieldManager=one&dryRun=All");
    let tried = g.patch(&path, APPLY, widgets.widget("a", json!({"size": 5}))).await.ok();
    assert_eq!(tried["spec"]["size"], 5);
    assert_eq!(g.get(&widgets.path("/a")).await.ok()["spec"]["size"], 1);
}
