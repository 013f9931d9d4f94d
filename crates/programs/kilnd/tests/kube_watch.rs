//! A change of a running node, from ARM to the Node object: what an instance is told changes in an embedded Azure, `kilnd watch` notices,
//! applies or asks, and a real API server says what it was told and what it let through.

mod support;
mod watched;

use kilnd::apiserver::ConditionStatus;
use serde_json::json;
use watched::{Watched, azure};

#[test]
fn a_change_of_user_data_through_arm_is_noticed_by_poll_applied_confirmed_and_told() {
    let mut node = Watched::new("poll", 0);
    node.apply(&node.document(1));
    node.watch();
    node.wait_confirmed(1);
    let before = azure().instance(0);

    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(37);
    next["spec"]["kubelet"]["labels"] = json!({"example.com/team": "blue"});
    node.offer(&next);
    node.wait_confirmed(2);
    assert_eq!(node.current("kubelet.json")["maxPods"], 37);
    node.wait("the label is on the node", |node| node.label("example.com/team").as_deref() == Some("blue"));
    let reasons: Vec<String> = node.events().into_iter().map(|(reason, _)| reason).collect();
    assert!(
        reasons.contains(&"KilnApplied".to_owned()) && reasons.contains(&"KilnConfirmed".to_owned()),
        "{reasons:?}"
    );

    let after = azure().instance(0);
    assert_eq!(
        (&after.os_disk, &after.vm_id),
        (&before.os_disk, &before.vm_id),
        "the machine and its disk are the same"
    );

    let mut last = node.document(3);
    last["spec"]["kubelet"]["configuration"]["maxPods"] = json!(37);
    node.offer(&last);
    node.wait_confirmed(3);
    node.wait("the label is gone", |node| node.label("example.com/team").is_none());
}

#[test]
fn a_hangup_and_a_changed_annotation_make_a_node_look_at_once() {
    let mut node = Watched::new("asked", 1);
    // Its own looks are hours apart, even at this scale.
    let rare = |node: &Watched, number| {
        let mut document = node.document(number);
        document["spec"]["update"] = json!({"pollSeconds": 1_000_000, "spreadSeconds": 1_000_000});
        document["spec"]["kubelet"]["configuration"]["maxPods"] = json!(number);
        document
    };
    node.offer(&rare(&node, 1));
    node.apply(&rare(&node, 1));
    node.watch();
    node.wait_confirmed(1);

    node.offer(&rare(&node, 2));
    node.hangup();
    node.wait_confirmed(2);
    assert_eq!(node.current("kubelet.json")["maxPods"], 2);

    node.offer(&rare(&node, 3));
    node.kubectl(&["annotate", "node", &node.name, "kiln.dev/node-config-check=now"]);
    node.wait_confirmed(3);
    node.offer(&rare(&node, 4));
    node.kubectl(&["annotate", "--overwrite", "node", &node.name, "kiln.dev/node-config-check=again"]);
    node.wait_confirmed(4);
}

#[test]
fn a_bad_document_is_refused_told_and_what_is_in_force_stays() {
    let mut node = Watched::new("bad", 2);
    node.apply(&node.document(5));
    node.watch();
    node.wait_confirmed(5);
    let good = node.current("config.json");
    let mut newer = node.document(6);
    newer["apiVersion"] = json!("node.kiln.dev/v9");
    let mut invalid = node.document(6);
    invalid["spec"]["cluster"]["endpoint"] = json!("ftp://nowhere");
    let mut namesake = node.document(5);
    namesake["spec"]["kubelet"]["configuration"]["maxPods"] = json!(1);
    let token = "abcdef.0123456789abcdef";
    let mut careless = node.document(6);
    careless["spec"]["files"] = json!([{"path": "/etc/x", "content": format!("token={token}\n")}]);
    let mut misplaced = node.document(6);
    misplaced["metadata"]["generation"] = json!(token);
    for (document, says) in [
        (newer, "v9"),
        (careless, "spec.files"),
        (misplaced, "metadata.generation"),
        (invalid, "spec.cluster.endpoint"),
        (namesake, "give this one a higher number"),
        (json!({"apiVersion": "x"}), "it has no kind"),
    ] {
        node.offer(&document);
        node.wait(says, |node| {
            let (status, reason, message) = node.condition();
            status == ConditionStatus::False
                && reason == "Refused"
                && message.contains(says)
                && message.contains("generation 5 is in force")
        });
        assert_eq!(node.current("config.json"), good);
    }
    assert!(!node.everything_said().contains("0123456789abcdef"), "{}", node.everything_said());
    node.offer(&node.document(7));
    node.wait_confirmed(7);
}

#[test]
fn what_only_the_cluster_may_do_is_asked_for_shown_as_pending_and_never_as_applied() {
    let mut node = Watched::new("asks", 3);
    node.apply(&node.document(1));
    node.watch();
    node.wait_confirmed(1);

    let mut next = node.document(2);
    next["spec"]["kubelet"]["labels"] = json!({"node-role.kubernetes.io/gpu": "", "example.com/own": "a"});
    next["spec"]["kubelet"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    node.offer(&next);
    node.wait("taints and labels are pending", |node| {
        node.annotation("kiln.dev/pending-taints") == "gpu=yes:NoSchedule"
            && node.annotation("kiln.dev/pending-labels") == "node-role.kubernetes.io/gpu="
    });
    node.wait("its own label is set", |node| node.label("example.com/own").as_deref() == Some("a"));
    let object = node.object();
    assert!(!object.taints.iter().any(|taint| taint.key == "gpu"), "{object:?}");
    assert!(!object.labels.contains_key("node-role.kubernetes.io/gpu"), "{object:?}");
    node.wait("the condition says so", |node| node.condition().1 == "Pending");
    assert_eq!(node.condition().0, ConditionStatus::False);

    node.kubectl(&["taint", "node", &node.name, "gpu=yes:NoSchedule"]);
    node.kubectl(&["label", "node", &node.name, "node-role.kubernetes.io/gpu="]);
    node.wait_confirmed(2);
    assert_eq!(node.annotation("kiln.dev/pending-taints") + &node.annotation("kiln.dev/pending-labels"), "");
}

#[test]
fn a_change_that_costs_a_drain_waits_until_the_cluster_has_made_room() {
    let mut node = Watched::new("drain", 4);
    node.apply(&node.document(1));
    node.watch();
    node.wait_confirmed(1);
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["topologyManagerPolicy"] = json!("best-effort");
    node.offer(&next);
    node.wait("a drain is asked for", |node| node.annotation("kiln.dev/pending-drain").starts_with("generation 2 "));
    assert!(node.current("kubelet.json")["topologyManagerPolicy"].is_null(), "nothing is applied before");
    node.wait("the condition says so", |node| node.condition().1 == "Pending");

    node.kubectl(&["annotate", "node", &node.name, "kiln.dev/node-config-allow=2"]);
    node.wait_confirmed(2);
    assert_eq!(node.current("kubelet.json")["topologyManagerPolicy"], "best-effort");
    assert_eq!(node.annotation("kiln.dev/pending-drain"), "");
}

#[test]
fn a_document_that_the_kubelet_is_not_well_with_comes_back_by_itself_and_only_once() {
    let mut node = Watched::new("back", 5);
    node.apply(&node.document(1));
    node.watch();
    node.wait_confirmed(1);
    node.kubelet_is_well(false);
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(1);
    node.offer(&next);
    node.wait("it came back", |node| node.condition().1 == "Reverted");
    assert!(node.current("kubelet.json")["maxPods"].is_null());
    assert!(node.condition().2.contains("500"), "{:?}", node.condition());
    node.kubelet_is_well(true);
    // It is still candidate, and a restart of the program forgets nothing.
    node.stop();
    node.watch();
    node.wait("it is known to have come back", |node| {
        node.journal().contains("KilnReverted") || node.condition().1 == "Reverted"
    });
    node.offer(&node.document(3));
    node.wait_confirmed(3);
    let back = node.events().into_iter().filter(|(reason, _)| reason == "KilnReverted").count();
    assert_eq!(back, 1, "{:?}", node.events());
}

#[test]
fn a_document_that_cuts_the_node_off_from_its_api_server_comes_back_without_one() {
    let mut node = Watched::new("cut", 6);
    node.apply(&node.document(1));
    node.watch();
    node.wait_confirmed(1);
    let mut wrong_address = node.document(2);
    wrong_address["spec"]["cluster"]["endpoint"] = json!("https://127.0.0.1:1");
    let mut wrong_authority = node.document(3);
    let stranger = rcgen::generate_simple_self_signed(["stranger".to_owned()]).expect("a certificate").cert.pem();
    wrong_authority["spec"]["cluster"]["certificateAuthority"] = json!(stranger);
    for (document, number) in [(wrong_address, 2), (wrong_authority, 3)] {
        node.offer(&document);
        node.wait("it came back", |node| {
            let (_, reason, message) = node.condition();
            reason == "Reverted"
                && message.contains(&format!("generation {number} "))
                && message.contains("generation 1 is in force")
        });
    }
}

#[test]
fn a_first_document_that_the_node_is_not_well_with_stays_says_so_and_makes_room_for_a_better_one() {
    let mut node = Watched::new("first", 7);
    node.kubelet_is_well(false);
    let mut first = node.document(1);
    first["spec"]["platform"]["reportReady"] = json!(true);
    node.apply(&first);
    node.watch();
    node.wait("it is not well", |node| node.condition().1 == "Unhealthy");
    assert!(node.condition().2.contains("there is none before it"), "{:?}", node.condition());
    // The platform hears that the machine has started all the same: it started.
    node.wait("the platform was told", |_| azure().health(7).contains("\"state\":\"Ready\""));
    node.kubelet_is_well(true);
    node.offer(&node.document(2));
    node.wait_confirmed(2);
}

#[test]
fn a_change_that_needs_a_restart_of_the_machine_is_pending_until_the_machine_has_restarted() {
    let mut node = Watched::new("reboot", 8);
    node.offer(&node.document(1));
    node.restart("boot-1");
    node.wait_confirmed(1);
    let mut next = node.document(2);
    next["spec"]["os"] = json!({"kernelArguments": ["quiet"]});
    node.offer(&next);
    node.wait("a restart is asked for", |node| node.annotation("kiln.dev/pending-reboot").starts_with("generation 2 "));
    assert_eq!(node.current("config.json")["metadata"]["generation"], 1);
    node.kubectl(&["annotate", "node", &node.name, "kiln.dev/node-config-allow=2"]);
    node.wait("it is in force", |node| node.annotation("kiln.dev/node-config").starts_with("2 "));
    node.wait("and still pending", |node| node.condition().1 == "Pending");
    assert!(node.annotation("kiln.dev/pending-reboot").starts_with("generation 2 "));
    node.restart("boot-2");
    node.wait_confirmed(2);
    assert_eq!(node.annotation("kiln.dev/pending-reboot"), "");
}

#[test]
fn a_first_document_whose_kernel_arguments_are_missing_asks_for_one_restart_and_not_for_another() {
    let mut node = Watched::new("arguments", 10);
    node.kernel_runs_with("ro console=ttyS0");
    let mut first = node.document(1);
    first["spec"]["os"] = json!({"kernelArguments": ["console=ttyS0", "nosmt"]});
    node.offer(&first);
    node.restart("boot-1");
    node.wait("a restart is asked for", |node| node.annotation("kiln.dev/pending-reboot").starts_with("generation 1 "));
    node.wait("the condition says so", |node| node.condition().1 == "Pending");

    // A boot loader that does not read what the document says: a cluster that obeys must not restart the machine for ever.
    node.restart("boot-2");
    node.wait_confirmed(1);
    assert_eq!(node.annotation("kiln.dev/pending-reboot"), "");
    node.wait("it is told", |node| node.journal().contains("still runs without an argument of the document"));

    node.kernel_runs_with("ro console=ttyS0 nosmt");
    node.restart("boot-3");
    node.wait_confirmed(1);
    assert!(!node.journal().contains("still runs without"), "{}", node.journal());
}

#[test]
fn a_node_that_only_looks_ready_because_nobody_has_missed_its_kubelet_yet_is_not_taken_for_good() {
    let mut node = Watched::new("silent", 9);
    node.apply(&node.document(1));
    node.watch();
    node.wait_confirmed(1);
    node.kubelet_is_heard(false);
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(1);
    node.offer(&next);
    node.wait("it came back", |node| node.condition().1 == "Reverted");
    assert!(node.object().is_ready() && node.condition().2.contains("nothing was heard"), "{:?}", node.condition());
}
