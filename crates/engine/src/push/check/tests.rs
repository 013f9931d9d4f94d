use kiln_types::{Node, Taint};
use serde_json::{Value, json};

use super::*;

fn document(generation: u64, changes: &Value) -> NodeConfig {
    let authority = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    let mut spec = json!({
        "cluster": {"endpoint": "https://api.example:443", "certificateAuthority": authority},
        "kubelet": {"version": "1.34.4"},
    });
    kiln_types::json::merge_patch(&mut spec, changes);
    let document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig",
        "metadata": {"name": "web", "generation": generation}, "spec": spec,
    });
    NodeConfig::parse(document.to_string().as_bytes()).unwrap()
}

fn node(in_force: &NodeConfig) -> Node {
    let value = format!("{} {}", in_force.metadata.generation, in_force.hash());
    Node {
        annotations: BTreeMap::from([("kiln.dev/node-config".to_owned(), value)]),
        ..Node::new("n".parse().unwrap())
    }
}

/// Checks a change of a node whose document is known.
fn check(before: &NodeConfig, document: &NodeConfig) -> Result<Option<Effect>, PushRefusal> {
    check_node(&node(before), document, &BTreeMap::from([(before.hash(), before.clone())]))
}

#[test]
fn generation_must_be_higher_than_the_one_in_force() {
    let before = document(5, &json!({}));
    let other = json!({"kubelet": {"configuration": {"maxPods": 37}}});
    for generation in [4, 5] {
        let refusal = check(&before, &document(generation, &other)).unwrap_err();
        assert_eq!(refusal, PushRefusal::Generation { generation, highest: 5, node: "n".to_owned() });
        assert_eq!(refusal.hint().unwrap(), "set `metadata.generation` to 6 or more");
    }
    assert_eq!(check(&before, &document(6, &other)), Ok(Some(Effect::Restart)));
    assert_eq!(check(&before, &before), Ok(Some(Effect::None)), "a push can be repeated");
    let unknown = check_node(&node(&before), &document(6, &other), &BTreeMap::new());
    assert_eq!(unknown, Ok(None));
    let silent = Node::new("n".parse().unwrap());
    assert_eq!(check_node(&silent, &before, &BTreeMap::new()), Err(PushRefusal::NoReport("n".to_owned())));
}

#[test]
fn change_that_needs_a_drain_or_reboot_is_refused_with_its_fields() {
    let before = document(1, &json!({}));
    let after = document(2, &json!({"os": {"kernelArguments": ["quiet"]}}));
    let Err(PushRefusal::NeedsConsent { effect, fields }) = check(&before, &after) else { panic!("accepted") };
    assert!(effect >= Effect::Drain && fields.contains("kernelArguments"), "{effect} {fields}");
    let paused = document(2, &json!({"update": {"paused": true}, "kubelet": {"configuration": {"maxPods": 37}}}));
    assert_eq!(check(&before, &paused), Err(PushRefusal::Paused));
}

#[test]
fn labels_and_taints_that_a_node_may_not_set_must_exist_already() {
    let before = document(1, &json!({}));
    let after = document(
        2,
        &json!({"kubelet": {
            "labels": {"node-role.kubernetes.io/gpu": "", "example.com/own": "a"},
            "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        }}),
    );
    let known = BTreeMap::from([(before.hash(), before.clone())]);
    let mut node = node(&before);
    let Err(PushRefusal::ClusterFields { what, .. }) = check_node(&node, &after, &known) else { panic!("accepted") };
    assert!(what.contains("node-role.kubernetes.io/gpu") && !what.contains("example.com/own"), "{what}");
    node.labels.insert("node-role.kubernetes.io/gpu".to_owned(), String::new());
    let Err(PushRefusal::ClusterFields { what, .. }) = check_node(&node, &after, &known) else { panic!("accepted") };
    assert!(what.contains("gpu=yes:NoSchedule"), "{what}");
    node.taints.push(Taint { key: "gpu".to_owned(), value: "yes".to_owned(), effect: "NoSchedule".to_owned() });
    assert!(check_node(&node, &after, &known).is_ok());
}

#[test]
fn user_data_that_is_no_document_is_not_overwritten() {
    let one = document(1, &json!({})).to_json();
    let known = documents([("instance 0".to_owned(), one.as_str()), ("instance 1".to_owned(), "")]).unwrap();
    assert_eq!(known.len(), 1);
    let refusal = documents([("instance 2".to_owned(), "#cloud-config\n")]).unwrap_err();
    assert_eq!(refusal, PushRefusal::OtherUserData("instance 2".to_owned()));
}

#[test]
fn policy_that_needs_the_operator_is_refused() {
    let parse = |policy: Value| serde_json::from_value::<RolloutPolicySpec>(policy).unwrap();
    assert_eq!(check_request(&RolloutPolicySpec::default(), "{}"), Ok(()));
    for (policy, field) in [
        (json!({"waves": {"first": {"approve": "Manual"}}}), "approve: Manual"),
        (json!({"gates": [{"daemonSetsReady": true}]}), "daemonSetsReady"),
        (json!({"gates": [{"prometheus": {"url": "http://p", "query": "up", "fail": "> 1"}}]}), "prometheus"),
    ] {
        assert_eq!(check_request(&parse(policy), "{}"), Err(PushRefusal::NeedsOperator(field)));
    }
    assert!(matches!(check_request(&RolloutPolicySpec::default(), &"x".repeat(70_000)), Err(PushRefusal::TooLong(_))));
}
