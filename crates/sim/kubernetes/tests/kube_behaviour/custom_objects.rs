//! Objects of custom resources: schemas, generation, status, patches and deletion.

use serde_json::json;

use crate::custom::Widgets;
use crate::test_server::{MERGE, STRATEGIC, TestServer};

crate::both!(
    invalid_fields_are_named_with_the_reason,
    rules_compare_fields_and_previous_values,
    unknown_fields_of_a_custom_resource_are_pruned,
    defaults_are_set_and_nulls_removed,
    only_changes_of_the_spec_make_a_new_generation,
    status_is_changed_only_by_its_subresource,
    custom_resource_needs_kind_and_version,
    update_of_a_custom_resource_needs_a_resource_version,
    merge_patch_changes_a_custom_resource_and_strategic_patch_is_rejected,
    fields_are_selected_by_name_and_by_declaration,
    finalizers_delay_and_collections_delete_custom_resources,
);

async fn invalid_fields_are_named_with_the_reason(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    for (spec, reason, message) in [
        (json!({}), "FieldValueRequired", "spec.size: Required value"),
        (json!({"size": null}), "FieldValueRequired", "spec.size: Required value"),
        (
            json!({"size": "x"}),
            "FieldValueTypeInvalid",
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (json!({"size": 1.5}), "FieldValueTypeInvalid", "must be of type integer: \"number\""),
        (
            json!({"size": 0}),
            "FieldValueInvalid",
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (json!({"size": 11}), "FieldValueInvalid", "spec.size in body should be less than or equal to 10"),
        (
            json!({"size": 1, "mode": "C"}),
            "FieldValueNotSupported",
            "spec.mode: Unsupported value: \"C\": supported values: \"A\", \"B\"",
        ),
        (
            json!({"size": 1, "name": "ABC"}),
            "FieldValueInvalid",
            "spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'",
        ),
        (json!({"size": 1, "name": "a"}), "FieldValueInvalid", "spec.name in body should be at least 2 chars long"),
        (
            json!({"size": 1, "name": "abcdef"}),
            "FieldValueTooLong",
            "spec.name: Too long: may not be more than 5 bytes",
        ),
        (
            json!({"size": 1, "tags": []}),
            "FieldValueInvalid",
            "spec.tags: Invalid value: 0: spec.tags in body should have at least 1 items",
        ),
        (
            json!({"size": 1, "tags": ["a", "b", "c"]}),
            "FieldValueTooMany",
            "spec.tags: Too many: 3: must have at most 2 items",
        ),
        (json!({"size": 1, "tags": ["a", "a"]}), "FieldValueDuplicate", "spec.tags[1]: Duplicate value: \"a\""),
        (json!({"size": 1, "at": "x"}), "FieldValueTypeInvalid", "spec.at in body must be of type date-time: \"x\""),
        (
            json!({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}),
            "FieldValueDuplicate",
            "spec.parts[1]: Duplicate value: {\"name\":\"a\"}",
        ),
        (json!({"size": 1, "parts": [{"n": 1}]}), "FieldValueRequired", "spec.parts[0].name: Required value"),
        (
            json!({"size": 1, "labels": {"a": 1}}),
            "FieldValueTypeInvalid",
            "spec.labels.a in body must be of type string: \"integer\"",
        ),
        (
            json!({"size": 1, "labels": {"a": "1", "b": "2", "c": "3"}}),
            "FieldValueTooMany",
            "spec.labels: Too many: 3: must have at most 2 items",
        ),
        (json!({"size": 1, "amount": true}), "FieldValueTypeInvalid", "must be of type integer,string: \"boolean\""),
        (json!({"size": 1, "factor": 0}), "FieldValueInvalid", "spec.factor in body should be greater than 0"),
        (json!({"size": 1, "factor": 3}), "FieldValueInvalid", "spec.factor in body should be a multiple of 2"),
        (
            json!({"size": 1, "one": {"a": 1, "b": 2}}),
            "FieldValueInvalid",
            "\"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
    ] {
        let reply = g.post(&widgets.path(""), widgets.widget("a", spec.clone())).await;
        assert_eq!(reply.error(), (422, "Invalid"), "{spec}");
        let start = format!("Widget.{} \"a\" is invalid: ", widgets.group);
        assert!(reply.message().starts_with(&start) && reply.message().contains(message), "{}", reply.message());
        assert_eq!(reply.body["details"]["causes"][0]["reason"], reason, "{:#}", reply.body);
        // Wrong types, missing fields and the like prevent that rules are checked.
        let blocked = !matches!(reason, "FieldValueInvalid" | "FieldValueDuplicate");
        assert_eq!(reply.message().contains("some validation rules were not checked"), blocked, "{}", reply.message());
    }
    for spec in [json!({"size": 1, "amount": "10%"}), json!({"size": 1, "amount": 5}), json!({"size": 10, "factor": 4})]
    {
        let made = g.post(&widgets.path(""), widgets.widget("a", spec)).await;
        assert_eq!(made.code, 201, "{:#}", made.body);
        g.delete(&widgets.path("/a"), json!({})).await.ok();
    }
}

async fn rules_compare_fields_and_previous_values(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let wrong = widgets.widget("a", json!({"size": 1, "rule": {"x": 2, "y": 1}}));
    let reply = g.post(&widgets.path(""), wrong).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert!(reply.message().ends_with("spec.rule: Invalid value: \"object\": x is too large"), "{}", reply.message());
    g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1, "rule": {"x": 1, "y": 3}}))).await.ok();
    let reply = g.patch(&widgets.path("/a"), MERGE, json!({"spec": {"rule": {"x": 2}}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    let cause =
        json!([{"reason": "FieldValueForbidden", "message": "Forbidden: x never changes", "field": "spec.rule.x"}]);
    assert_eq!(reply.body["details"]["causes"], cause);
    g.patch(&widgets.path("/a"), MERGE, json!({"spec": {"rule": {"y": 4}}})).await.ok();
}

async fn unknown_fields_of_a_custom_resource_are_pruned(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let mut object = widgets.widget(
        "a",
        json!({"size": 1, "bad": 1, "parts": [{"name": "p", "worse": 1}], "free": {"any": {"thing": [1]}}}),
    );
    object["more"] = json!(1);
    let made = g.post(&widgets.path("?fieldValidation=Warn"), object.clone()).await;
    let mut warnings = made.warnings.clone();
    warnings.sort();
    assert_eq!(
        warnings,
        [
            r#"299 - "unknown field \"more\"""#,
            r#"299 - "unknown field \"spec.bad\"""#,
            r#"299 - "unknown field \"spec.parts[0].worse\"""#
        ]
    );
    let made = made.ok();
    assert!(made.get("more").is_none() && made["spec"].get("bad").is_none(), "{made:#}");
    assert_eq!(made["spec"]["parts"], json!([{"name": "p", "n": 3}]));
    assert_eq!(made["spec"]["free"], json!({"any": {"thing": [1]}}));
    let strict = widgets.widget("b", json!({"size": 1, "bad": 1}));
    let reply = g.post(&widgets.path("?fieldValidation=Strict"), strict).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert_eq!(
        reply.message(),
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.bad\""
    );
}

async fn defaults_are_set_and_nulls_removed(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let spec = json!({"size": 1, "mode": null, "name": null, "optional": null, "parts": [{"name": "a", "n": null}]});
    let made = g.post(&widgets.path(""), widgets.widget("a", spec)).await.ok();
    assert_eq!(made["spec"], json!({"size": 1, "mode": "A", "optional": null, "parts": [{"name": "a", "n": 3}]}));
}

async fn only_changes_of_the_spec_make_a_new_generation(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let made = g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1}))).await.ok();
    assert_eq!(made["metadata"]["generation"], 1);
    let labelled = g.patch(&widgets.path("/a"), MERGE, json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let status = g.patch(&widgets.path("/a/status"), MERGE, json!({"status": {"phase": "x"}})).await.ok();
    assert_eq!(status["metadata"]["generation"], 1);
    let same = g.patch(&widgets.path("/a"), MERGE, json!({"spec": {"size": 1}})).await.ok();
    assert_eq!(same["metadata"]["resourceVersion"], status["metadata"]["resourceVersion"]);
    let changed = g.patch(&widgets.path("/a"), MERGE, json!({"spec": {"size": 2}})).await.ok();
    assert_eq!(changed["metadata"]["generation"], 2);
}

async fn status_is_changed_only_by_its_subresource(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let mut object = widgets.widget("a", json!({"size": 1}));
    object["status"] = json!({"phase": "x"});
    let made = g.post(&widgets.path(""), object).await.ok();
    assert!(made.get("status").is_none(), "{made:#}");
    let ignored =
        g.patch(&widgets.path("/a"), MERGE, json!({"status": {"phase": "y"}, "spec": {"size": 2}})).await.ok();
    assert_eq!((ignored.get("status"), &ignored["spec"]["size"]), (None, &json!(2)));
    let both = json!({"status": {"phase": "z"}, "spec": {"size": 3}, "metadata": {"labels": {"a": "b"}}});
    let changed = g.patch(&widgets.path("/a/status"), MERGE, both).await.ok();
    assert_eq!((&changed["status"], &changed["spec"]["size"]), (&json!({"phase": "z"}), &json!(2)));
    assert!(changed["metadata"].get("labels").is_none(), "{changed:#}");
    let mut whole = g.get(&widgets.path("/a/status")).await.ok();
    whole["status"] = json!({"phase": "w", "conditions": [{"type": "Ready", "status": "True"}]});
    whole["spec"]["size"] = json!(9);
    let put = g.put(&widgets.path("/a/status"), whole.clone()).await.ok();
    assert_eq!((&put["status"]["phase"], &put["spec"]["size"]), (&json!("w"), &json!(2)));
    let reply = g.patch(&widgets.path("/a/status"), MERGE, json!({"status": {"phase": 1}})).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    whole["metadata"]["resourceVersion"] = put["metadata"]["resourceVersion"].clone();
    whole["status"] = json!(null);
    let put = g.put(&widgets.path("/a"), whole).await.ok();
    assert_eq!((&put["status"]["phase"], &put["spec"]["size"]), (&json!("w"), &json!(9)));
}

async fn custom_resource_needs_kind_and_version(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let reply = g.post(&widgets.path(""), json!({"metadata": {"name": "a"}, "spec": {"size": 1}})).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert!(
        reply
            .message()
            .starts_with("the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in"),
        "{}",
        reply.message()
    );
    let mut other = widgets.widget("a", json!({"size": 1}));
    other["kind"] = json!("Gadget");
    let reply = g.post(&widgets.path(""), other).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    let message = format!("Gadget.{} \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget", widgets.group);
    assert_eq!(reply.message(), message);
    let mut other = widgets.widget("a", json!({"size": 1}));
    other["apiVersion"] = json!(format!("{}/v2", widgets.group));
    let reply = g.post(&widgets.path(""), other).await;
    assert_eq!(reply.error(), (400, "BadRequest"));
    assert!(reply.message().contains("does not match the expected API version"), "{}", reply.message());
}

async fn update_of_a_custom_resource_needs_a_resource_version(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let made = g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1}))).await.ok();
    let reply = g.put(&widgets.path("/a"), widgets.widget("a", json!({"size": 2}))).await;
    assert_eq!(reply.error(), (422, "Invalid"));
    assert!(
        reply.message().ends_with("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        "{}",
        reply.message()
    );
    let mut new = made.clone();
    new["spec"]["size"] = json!(2);
    g.put(&widgets.path("/a"), new).await.ok();
    let mut stale = made;
    stale["spec"]["size"] = json!(3);
    assert_eq!(g.put(&widgets.path("/a"), stale).await.error(), (409, "Conflict"));
    assert_eq!(g.put(&widgets.path("/b"), widgets.widget("b", json!({"size": 2}))).await.error(), (404, "NotFound"));
}

async fn merge_patch_changes_a_custom_resource_and_strategic_patch_is_rejected(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    g.post(&widgets.path(""), widgets.widget("a", json!({"size": 1, "parts": [{"name": "x"}]}))).await.ok();
    let patch = json!({"spec": {"parts": [{"name": "y"}], "name": "abc"}});
    let patched = g.patch(&widgets.path("/a"), MERGE, patch).await.ok();
    assert_eq!(patched["spec"], json!({"size": 1, "mode": "A", "name": "abc", "parts": [{"name": "y", "n": 3}]}));
    let reply = g.patch(&widgets.path("/a"), STRATEGIC, json!({"spec": {"size": 2}})).await;
    assert_eq!(reply.error(), (415, "UnsupportedMediaType"));
    assert!(
        reply
            .message()
            .ends_with("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"),
        "{}",
        reply.message()
    );
}

async fn fields_are_selected_by_name_and_by_declaration(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    for (name, mode) in [("a", "A"), ("b", "B"), ("c", "B")] {
        g.post(&widgets.path(""), widgets.widget(name, json!({"size": 1, "mode": mode}))).await.ok();
    }
    for (selector, found) in
        [("metadata.name%3Db", vec!["b"]), ("spec.mode%3DB", vec!["b", "c"]), ("spec.mode%21%3DB", vec!["a"])]
    {
        let list = g.get(&widgets.path(&format!("?fieldSelector={selector}"))).await.ok();
        assert_eq!(list["kind"], "WidgetList");
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.iter().map(|item| &item["metadata"]["name"]).collect::<Vec<_>>(), found, "{selector}");
        // Unlike items of built-in kinds.
        assert!(items.iter().all(|item| item["kind"] == "Widget" && item["apiVersion"].is_string()), "{list:#}");
    }
    let reply = g.get(&widgets.path("?fieldSelector=spec.size%3D1")).await;
    assert_eq!((reply.error(), reply.message()), ((400, "BadRequest"), "field label not supported: spec.size"));
}

async fn finalizers_delay_and_collections_delete_custom_resources(g: TestServer) {
    let widgets = Widgets::define(&g).await;
    let mut held = widgets.widget("a", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["kiln.dev/x"]);
    g.post(&widgets.path(""), held).await.ok();
    g.post(&widgets.path(""), widgets.widget("b", json!({"size": 1}))).await.ok();
    let gone = g.call("DELETE", &widgets.path(""), "", None).await.ok();
    assert_eq!(gone["kind"], "WidgetList");
    assert_eq!(g.get(&widgets.path("/b")).await.code, 404);
    let left = g.get(&widgets.path("/a")).await.ok();
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left:#}");
    assert_eq!(left["metadata"]["generation"], 2, "the deletion timestamp is part of the desired state");
    g.patch(&widgets.path("/a"), MERGE, json!({"metadata": {"finalizers": []}})).await.ok();
    g.until_gone(&widgets.path("/a")).await;
    let reply = g.delete(&widgets.path("/a"), json!({})).await;
    assert_eq!(reply.message(), format!("widgets.{} \"a\" not found", widgets.group));
}
