//! Changes of a running node, from ARM to the Node object. User data changes in an embedded Azure, `kilnd watch` notices the change and
//! applies or requests it, and the tests check the Node object on a real API server.

mod support;
mod watched;

use kilnd::apiserver::ConditionStatus;
use serde_json::json;
use watched::{Watched, azure, hash};

#[test]
fn changed_user_data_is_polled_applied_committed_and_reported() {
    let mut node = Watched::new("poll", 0);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    let before = azure().instance(0);

    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(37);
    next["spec"]["kubelet"]["labels"] = json!({"example.com/team": "blue"});
    node.set_user_data(&next);
    node.wait_committed(2);
    assert_eq!(node.current("kubelet.json")["maxPods"], 37);
    node.wait("the label is on the node", |node| node.label("example.com/team").as_deref() == Some("blue"));
    let reasons: Vec<String> = node.events().into_iter().map(|(reason, _)| reason).collect();
    assert!(
        reasons.contains(&"KilnApplied".to_owned()) && reasons.contains(&"KilnCommitted".to_owned()),
        "{reasons:?}"
    );

    let after = azure().instance(0);
    assert_eq!((&after.os_disk, &after.vm_id), (&before.os_disk, &before.vm_id), "the VM and its disk are unchanged");

    let mut last = node.document(3);
    last["spec"]["kubelet"]["configuration"]["maxPods"] = json!(37);
    node.set_user_data(&last);
    node.wait_committed(3);
    node.wait("the label is gone", |node| node.label("example.com/team").is_none());
}

#[test]
fn sighup_and_changed_annotation_trigger_an_immediate_check() {
    let mut node = Watched::new("check", 1);
    // Polls are hours apart, even at this time scale.
    let rare = |node: &Watched, number| {
        let mut document = node.document(number);
        document["spec"]["update"] = json!({"pollSeconds": 1_000_000, "spreadSeconds": 1_000_000});
        document["spec"]["kubelet"]["configuration"]["maxPods"] = json!(number);
        document
    };
    node.set_user_data(&rare(&node, 1));
    node.apply(&rare(&node, 1));
    node.watch();
    node.wait_committed(1);

    node.set_user_data(&rare(&node, 2));
    node.hangup();
    node.wait_committed(2);
    assert_eq!(node.current("kubelet.json")["maxPods"], 2);

    node.set_user_data(&rare(&node, 3));
    node.kubectl(&["annotate", "node", &node.name, "kiln.dev/node-config-check=now"]);
    node.wait_committed(3);
    node.set_user_data(&rare(&node, 4));
    node.kubectl(&["annotate", "--overwrite", "node", &node.name, "kiln.dev/node-config-check=again"]);
    node.wait_committed(4);
}

#[test]
fn invalid_document_is_rejected_and_reported_and_the_generation_in_force_stays() {
    let mut node = Watched::new("bad", 2);
    node.apply(&node.document(5));
    node.watch();
    node.wait_committed(5);
    let good = node.current("config.json");
    let mut newer = node.document(6);
    newer["apiVersion"] = json!("node.kiln.dev/v9");
    let mut invalid = node.document(6);
    invalid["spec"]["cluster"]["endpoint"] = json!("ftp://nowhere");
    let mut same_number = node.document(5);
    same_number["spec"]["kubelet"]["configuration"]["maxPods"] = json!(1);
    let token = "abcdef.0123456789abcdef";
    let mut with_secret = node.document(6);
    with_secret["spec"]["files"] = json!([{"path": "/etc/x", "content": format!("token={token}\n")}]);
    let mut secret_as_number = node.document(6);
    secret_as_number["metadata"]["generation"] = json!(token);
    for (document, reported) in [
        (newer, "v9"),
        (with_secret, "spec.files"),
        (secret_as_number, "metadata.generation"),
        (invalid, "spec.cluster.endpoint"),
        (same_number, "raise `metadata.generation`"),
        (json!({"apiVersion": "x"}), "`kind` is not set"),
    ] {
        node.set_user_data(&document);
        node.wait(reported, |node| {
            let (status, reason, message) = node.condition();
            status == ConditionStatus::False
                && reason == "Rejected"
                && message.contains(reported)
                && message.contains("generation 5 is in force")
        });
        assert_eq!(node.current("config.json"), good);
    }
    assert!(!node.everything_visible().contains("0123456789abcdef"), "{}", node.everything_visible());
    node.set_user_data(&node.document(7));
    node.wait_committed(7);
}

#[test]
fn changes_that_need_the_cluster_are_requested_and_stay_pending() {
    let mut node = Watched::new("requests", 3);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);

    let mut next = node.document(2);
    next["spec"]["kubelet"]["labels"] = json!({"node-role.kubernetes.io/gpu": "", "example.com/own": "a"});
    next["spec"]["kubelet"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    node.set_user_data(&next);
    node.wait("taints and labels are pending", |node| {
        node.annotation("kiln.dev/pending-taints") == "gpu=yes:NoSchedule"
            && node.annotation("kiln.dev/pending-labels") == "node-role.kubernetes.io/gpu="
    });
    node.wait("its own label is set", |node| node.label("example.com/own").as_deref() == Some("a"));
    let object = node.object();
    assert!(!object.taints.iter().any(|taint| taint.key == "gpu"), "{object:?}");
    assert!(!object.labels.contains_key("node-role.kubernetes.io/gpu"), "{object:?}");
    node.wait("the condition is Pending", |node| node.condition().1 == "Pending");
    assert_eq!(node.condition().0, ConditionStatus::False);

    node.kubectl(&["taint", "node", &node.name, "gpu=yes:NoSchedule"]);
    node.kubectl(&["label", "node", &node.name, "node-role.kubernetes.io/gpu="]);
    node.wait_committed(2);
    assert_eq!(node.annotation("kiln.dev/pending-taints") + &node.annotation("kiln.dev/pending-labels"), "");
}

#[test]
fn change_that_needs_a_drain_waits_for_permission() {
    let mut node = Watched::new("drain", 4);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["topologyManagerPolicy"] = json!("best-effort");
    node.set_user_data(&next);
    node.wait("a drain is requested", |node| node.annotation("kiln.dev/pending-drain").starts_with("generation 2 "));
    assert!(
        node.current("kubelet.json")["topologyManagerPolicy"].is_null(),
        "nothing is applied before the permission"
    );
    node.wait("the condition is Pending", |node| node.condition().1 == "Pending");

    // A number, or the hash of another document with this number, is not permission for this document.
    let mut other = next.clone();
    other["spec"]["kubelet"]["configuration"]["maxPods"] = json!(9);
    node.allow("2");
    node.wait("the number is ignored", |node| node.journal().contains("it has no hash of a document"));
    node.allow(&hash(&other));
    node.wait_for_syncs(2);
    assert!(node.current("kubelet.json")["topologyManagerPolicy"].is_null(), "another document was allowed");
    node.allow(&node.annotation("kiln.dev/pending-drain"));
    node.wait_committed(2);
    assert_eq!(node.current("kubelet.json")["topologyManagerPolicy"], "best-effort");
    assert_eq!(node.annotation("kiln.dev/pending-drain"), "");
}

#[test]
fn document_that_makes_the_kubelet_unhealthy_is_reverted_once() {
    let mut node = Watched::new("reverted", 5);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    node.set_kubelet_healthy(false);
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(1);
    node.set_user_data(&next);
    node.wait("the document is reverted", |node| node.condition().1 == "Reverted");
    assert!(node.current("kubelet.json")["maxPods"].is_null());
    assert!(node.condition().2.contains("500"), "{:?}", node.condition());
    node.set_kubelet_healthy(true);
    // The document is still in user data, and the rejection survives a restart of kilnd.
    node.stop();
    node.watch();
    node.wait("the revert is still reported", |node| {
        node.journal().contains("KilnReverted") || node.condition().1 == "Reverted"
    });
    node.set_user_data(&node.document(3));
    node.wait_committed(3);
    let reverts = node.events().into_iter().filter(|(reason, _)| reason == "KilnReverted").count();
    assert_eq!(reverts, 1, "{:?}", node.events());
}

#[test]
fn document_that_cuts_off_the_api_server_is_reverted() {
    let mut node = Watched::new("cut", 6);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    let mut wrong_address = node.document(2);
    wrong_address["spec"]["cluster"]["endpoint"] = json!("https://127.0.0.1:1");
    let mut wrong_authority = node.document(3);
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).expect("a certificate").cert.pem();
    wrong_authority["spec"]["cluster"]["certificateAuthority"] = json!(other);
    for (document, number) in [(wrong_address, 2), (wrong_authority, 3)] {
        node.set_user_data(&document);
        node.wait("the document is reverted", |node| {
            let (_, reason, message) = node.condition();
            reason == "Reverted"
                && message.contains(&format!("generation {number} "))
                && message.contains("generation 1 is in force")
        });
    }
}

#[test]
fn unhealthy_first_document_stays_in_force_is_reported_and_can_be_replaced() {
    let mut node = Watched::new("first", 7);
    node.set_kubelet_healthy(false);
    let mut first = node.document(1);
    first["spec"]["platform"]["reportReady"] = json!(true);
    node.apply(&first);
    node.watch();
    node.wait("the node is unhealthy", |node| node.condition().1 == "Unhealthy");
    assert!(node.condition().2.contains("no earlier generation exists"), "{:?}", node.condition());
    // The ready report is sent anyway, because the machine has started.
    node.wait("the ready report was received", |_| azure().health(7).contains("\"state\":\"Ready\""));
    node.set_kubelet_healthy(true);
    node.set_user_data(&node.document(2));
    node.wait_committed(2);
}

#[test]
fn change_that_needs_a_reboot_is_pending_until_the_reboot() {
    let mut node = Watched::new("reboot", 8);
    node.set_user_data(&node.document(1));
    node.restart("boot-1");
    node.wait_committed(1);
    let mut next = node.document(2);
    next["spec"]["os"] = json!({"kernelArguments": ["quiet"]});
    node.set_user_data(&next);
    node.wait("a reboot is requested", |node| node.annotation("kiln.dev/pending-reboot").starts_with("generation 2 "));
    assert_eq!(node.current("config.json")["metadata"]["generation"], 1);
    node.allow(&hash(&next));
    node.wait("generation 2 is in force", |node| node.annotation("kiln.dev/node-config").starts_with("2 "));
    node.wait("the reboot is still pending", |node| node.condition().1 == "Pending");
    assert!(node.annotation("kiln.dev/pending-reboot").starts_with("generation 2 "));
    node.restart("boot-2");
    node.wait_committed(2);
    assert_eq!(node.annotation("kiln.dev/pending-reboot"), "");
}

#[test]
fn missing_kernel_arguments_request_only_one_reboot() {
    let mut node = Watched::new("arguments", 10);
    node.set_kernel_command_line("ro console=ttyS0");
    let mut first = node.document(1);
    first["spec"]["os"] = json!({"kernelArguments": ["console=ttyS0", "nosmt"]});
    node.set_user_data(&first);
    node.restart("boot-1");
    node.wait("a reboot is requested", |node| node.annotation("kiln.dev/pending-reboot").starts_with("generation 1 "));
    node.wait("the condition is Pending", |node| node.condition().1 == "Pending");

    // The boot loader ignores the arguments: kilnd must not request reboots forever.
    node.restart("boot-2");
    node.wait_committed(1);
    assert_eq!(node.annotation("kiln.dev/pending-reboot"), "");
    node.wait("the missing argument is logged", |node| {
        node.journal().contains("still lacks an argument of the document")
    });

    node.set_kernel_command_line("ro console=ttyS0 nosmt");
    node.restart("boot-3");
    node.wait_committed(1);
    assert!(!node.journal().contains("still lacks an argument"), "{}", node.journal());
}

#[test]
fn stale_ready_condition_without_kubelet_heartbeats_does_not_pass_the_gate() {
    let mut node = Watched::new("silent", 9);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    node.set_kubelet_heartbeats(false);
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(1);
    node.set_user_data(&next);
    node.wait("the document is reverted", |node| node.condition().1 == "Reverted");
    assert!(
        node.object().is_ready() && node.condition().2.contains("no heartbeat from the kubelet"),
        "{:?}",
        node.condition()
    );
}

#[test]
fn api_server_that_is_away_during_a_trial_reverts_nothing() {
    let mut node = Watched::new("outage", 11);
    let relay = node.relay();
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    let changed = |number, pods: u32| {
        let mut next = node.document(number);
        next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(pods);
        // 20 s of kilnd's clock are a second here.
        next["spec"]["health"]["withinSeconds"] = json!(40);
        next
    };
    // Away before the change: the node cannot know whether the document is the reason.
    relay.set_open(false);
    node.set_user_data(&changed(2, 20));
    node.wait("generation 2 is on trial", |node| node.current("kubelet.json")["maxPods"] == 20);
    std::thread::sleep(std::time::Duration::from_secs(8));
    assert_eq!(node.current("kubelet.json")["maxPods"], 20, "four time limits later\n{}", node.journal());
    relay.set_open(true);
    node.wait_committed(2);

    // Away after the first answer during the trial. Without heartbeats the trial does not pass before.
    node.set_kubelet_heartbeats(false);
    node.set_user_data(&changed(3, 30));
    node.wait("the API server has answered", |node| node.trial_start()["hasAnswered"] == true);
    relay.set_open(false);
    std::thread::sleep(std::time::Duration::from_secs(8));
    assert_eq!(node.current("kubelet.json")["maxPods"], 30, "four time limits later\n{}", node.journal());
    relay.set_open(true);
    node.set_kubelet_heartbeats(true);
    node.wait_committed(3);
    let reverts = node.events().into_iter().filter(|(reason, _)| reason == "KilnReverted").count();
    assert_eq!(reverts, 0, "{:?}", node.events());
}

#[test]
fn node_that_was_not_ready_before_the_change_is_not_reverted() {
    let mut node = Watched::new("unready", 12);
    node.apply(&node.document(1));
    node.watch();
    node.wait_committed(1);
    node.set_kubelet_heartbeats(false);
    // A heartbeat may be on its way.
    std::thread::sleep(std::time::Duration::from_secs(1));
    node.set_unready();
    let mut next = node.document(2);
    next["spec"]["kubelet"]["configuration"]["maxPods"] = json!(20);
    next["spec"]["health"]["withinSeconds"] = json!(40);
    node.set_user_data(&next);
    node.wait("generation 2 is on trial", |node| node.trial_start()["wasReady"] == false);
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(node.current("kubelet.json")["maxPods"], 20, "three time limits later\n{}", node.journal());
    node.set_kubelet_heartbeats(true);
    node.wait_committed(2);
}
