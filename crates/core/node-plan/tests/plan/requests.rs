//! Changes that a node makes itself, and changes that it requests from the cluster.

use kiln_node_config::{Effect, NodeConfig};
use kiln_node_plan::{Desired, Observed, Plan, PlanAction, Request, Step};
use kiln_types::json::merge_patch;
use serde_json::{Value, json};

use crate::support::{Machine, config, facts};

fn plan(from: Value, to: Value) -> Plan {
    let (from, to) = (config(from), config(to));
    let mut machine = Machine::default();
    machine.apply(None, &from);
    machine.plan(Some(&from), &to)
}

fn up_to(effect: &str, mut over: Value) -> Value {
    merge_patch(&mut over, &json!({"update": {"upTo": effect}}));
    over
}

#[test]
fn node_sets_permitted_labels_itself_and_requests_others() {
    let plan = plan(
        json!({"kubelet": {"labels": {"team": "a", "old": "x"}}}),
        json!({"kubelet": {"labels": {"team": "b", "node-role.kubernetes.io/gpu": ""}}}),
    );
    let own = Request::Labels {
        set: [("team".to_owned(), "b".to_owned())].into(),
        remove: vec!["old".to_owned()],
        by_node: true,
    };
    let requested = [("node-role.kubernetes.io/gpu".to_owned(), String::new())];
    assert_eq!(plan.requests, [own, Request::Labels { set: requested.into(), remove: Vec::new(), by_node: false }]);
    assert_eq!((plan.action(), plan.effect), (PlanAction::Apply, Effect::Cluster));
    assert_eq!(plan.steps, [Step::WriteGeneration, Step::SwitchGeneration], "used at the next registration");
}

#[test]
fn taints_are_always_requested() {
    let taint = |value: &str| json!({"kubelet": {"taints": [{"key": "a", "value": value, "effect": "NoSchedule"}]}});
    let changed = plan(taint("1"), taint("2"));
    assert!(
        matches!(&changed.requests[..], [Request::Taints { set, remove }] if set.len() == 1 && remove.is_empty()),
        "{:?}",
        changed.requests
    );
    let removed = plan(taint("1"), json!({}));
    assert_eq!(removed.requests, [Request::Taints { set: Vec::new(), remove: vec!["a:NoSchedule".to_owned()] }]);
}

#[test]
fn registering_node_requests_only_labels_that_it_may_not_set() {
    let wanted = config(json!({"kubelet": {"labels": {"team": "a", "node-role.kubernetes.io/x": "y"},
        "taints": [{"key": "a", "effect": "NoExecute"}]}}));
    let desired = Desired::render(&wanted, &facts()).expect("compatible");
    let plan = Plan::new(None, &wanted, &desired, &Observed::default());
    assert!(
        matches!(&plan.requests[..], [Request::Labels { set, by_node: false, .. }] if set.len() == 1),
        "{:?}",
        plan.requests
    );
    let args = desired.text("register.env").expect("arguments");
    assert_eq!(args, "KUBELET_REGISTER_ARGS=\"--node-labels=team=a --register-with-taints=a=:NoExecute\"\n");
}

#[test]
fn changes_beyond_the_limit_are_requested() {
    let swap = || json!({"os": {"swap": {"sizeMib": 64}, "sysctl": {"vm.swappiness": "1"}}});
    let requested = plan(json!({}), swap());
    assert_eq!((requested.action(), requested.effect), (PlanAction::Request, Effect::Drain));
    assert_eq!(requested.requests, [Request::Drain]);
    let beyond: Vec<&str> = requested.beyond.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(beyond, ["spec.os.swap.sizeMib"]);
    let allowed = plan(json!({}), up_to("drain", swap()));
    assert_eq!((allowed.action(), allowed.requests.len()), (PlanAction::Apply, 0));
    let strict = plan(json!({}), up_to("none", json!({"kubelet": {"flags": {"--v": "2"}}})));
    assert_eq!((strict.action(), strict.requests), (PlanAction::Request, vec![Request::Restart]), "no drain");
    let strict = plan(json!({}), up_to("none", json!({"os": {"sysctl": {"vm.swappiness": "1"}}})));
    assert_eq!((strict.action(), strict.requests), (PlanAction::Request, vec![Request::Reload]));
    let strict = plan(json!({}), up_to("reload", swap()));
    assert_eq!(strict.requests, [Request::Drain], "the costliest effect");
}

#[test]
fn replace_is_requested_whatever_the_limit() {
    let plan = plan(json!({}), up_to("replace", json!({"platform": {"hostName": "other"}})));
    assert_eq!((plan.action(), plan.requests), (PlanAction::Request, vec![Request::Replace]));
}

#[test]
fn kernel_arguments_need_a_reboot() {
    let arguments = || json!({"os": {"kernelArguments": ["nosmt"]}});
    let requested = plan(json!({}), arguments());
    assert_eq!((requested.action(), requested.requests), (PlanAction::Request, vec![Request::Reboot]));
    let allowed = plan(json!({}), up_to("reboot", arguments()));
    assert_eq!(allowed.deferred.last(), Some(&Step::Reboot));
    assert!(allowed.steps.contains(&Step::Start { unit: "kiln-boot-loader.service".to_owned() }));

    let wanted = config(arguments());
    let mut machine = Machine::default();
    machine.apply(None, &wanted);
    let desired = Desired::render(&wanted, &facts()).expect("compatible");
    let requests = |line: &str| {
        let observed = Observed { command_line: Some(line.to_owned()), ..machine.observed() };
        let plan = Plan::new(Some(&wanted), &wanted, &desired, &observed);
        assert_eq!(plan.action(), PlanAction::Nothing);
        plan.requests
    };
    assert_eq!(requests("root=/dev/sda1 quiet"), [Request::Reboot]);
    assert_eq!(requests("root=/dev/sda1 nosmt"), []);
}

#[test]
fn paused_document_is_applied_only_as_the_first_one() {
    let paused = || json!({"update": {"paused": true}, "kubelet": {"flags": {"--v": "2"}}});
    assert_eq!(plan(json!({}), paused()).action(), PlanAction::Paused);
    let wanted = config(paused());
    assert_eq!(
        Machine::default().plan(None, &wanted).action(),
        PlanAction::Apply,
        "a node without a document must be configured"
    );
}

#[test]
fn cpu_manager_state_is_deleted_while_the_kubelet_is_stopped() {
    let policy = |name: &str| {
        up_to("drain", json!({"kubelet": {"configuration": {"cpuManagerPolicy": name, "reservedSystemCPUs": "0"}}}))
    };
    for (from, to) in [("none", "static"), ("static", "none")] {
        let steps: Vec<String> = plan(policy(from), policy(to)).steps.iter().map(ToString::to_string).collect();
        let wanted = [
            "write the generation",
            "switch to the generation",
            "stop kubelet.service",
            "delete /var/lib/kubelet/cpu_manager_state",
            "start kubelet.service",
        ];
        assert_eq!(steps, wanted);
    }
}

#[test]
fn steps_of_a_large_change_are_ordered() {
    let to = json!({
        "kubelet": {"flags": {"--v": "2"}},
        "os": {"sysctl": {"vm.swappiness": "1"}, "kernelModules": ["br_netfilter"], "limits": {"LimitNOFILE": "9"},
               "proxy": {"http": "http://p"}, "time": {"servers": ["t"]}},
        "files": [{"path": "/etc/motd", "content": "x", "reloads": ["sshd.service"]}],
        "units": [{"name": "agent.service", "content": "[Unit]\n", "enabled": true}],
        "platform": {"growRoot": true},
    });
    let plan = plan(json!({}), to);
    let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    let wanted = [
        "write the generation",
        "write /etc/modules-load.d/90-kiln.conf",
        "write /etc/motd",
        "write /etc/sysctl.d/90-kiln.conf",
        "write /etc/systemd/timesyncd.conf.d/90-kiln.conf",
        "restart systemd-modules-load.service",
        "set /proc/sys/vm/swappiness to 1",
        "write /etc/systemd/system/containerd.service.d/90-kiln-limits.conf",
        "write /etc/systemd/system/agent.service",
        "reload systemd",
        "enable agent.service",
        "switch to the generation",
        "reload sshd.service",
        "restart agent.service",
        "restart systemd-timesyncd.service",
        "restart containerd.service",
        "restart kubelet.service",
        "start agent.service",
    ];
    assert_eq!(steps, wanted);
    assert_eq!(plan.deferred, [Step::GrowRoot]);
}

#[test]
fn first_boot_defers_everything_that_needs_systemd() {
    let wanted = config(
        json!({"os": {"limits": {"LimitNOFILE": "9"}}, "units": [{"name": "a.service", "content": "x", "enabled": true}]}),
    );
    let plan = Machine::default().plan(None, &wanted);
    assert_eq!(plan.steps, [Step::WriteGeneration, Step::SwitchGeneration]);
    assert!(plan.deferred.contains(&Step::DaemonReload));
    assert_eq!(plan.deferred.iter().filter(|step| **step == Step::DaemonReload).count(), 1);
}

#[test]
fn plan_is_serialized_with_its_steps_as_text() {
    let plan = plan(json!({}), json!({"kubelet": {"flags": {"--v": "2"}}}));
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(json["effect"], "restart");
    assert_eq!(json["steps"], json!(["write the generation", "switch to the generation", "restart kubelet.service"]));
    assert_eq!(json["changes"][0]["path"], "spec.kubelet.flags[--v]");
}

#[test]
fn edited_file_is_restored_and_its_unit_restarted() {
    let wanted: NodeConfig =
        config(json!({"files": [{"path": "/etc/motd", "content": "x", "restarts": ["motd.service"]}]}));
    let mut machine = Machine::default();
    machine.apply(None, &wanted);
    machine.write("/etc/motd", "graffiti", 0o644);
    let steps: Vec<String> = machine.plan(Some(&wanted), &wanted).steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["write /etc/motd", "restart motd.service"]);
}

#[test]
fn removed_unit_is_stopped_and_removed_drop_in_restarts_the_unit() {
    let unit = |over: Value| json!({"units": [over]});
    let units = |plan: &Plan| -> Vec<String> {
        plan.steps.iter().map(ToString::to_string).filter(|step| step.contains(".service")).collect()
    };
    let removed = plan(unit(json!({"name": "a.service", "content": "[Unit]\n"})), json!({}));
    assert_eq!(units(&removed), ["remove /etc/systemd/system/a.service", "stop a.service"]);
    let smaller = plan(unit(json!({"name": "a.service", "dropIns": [{"name": "x.conf", "content": "y"}]})), json!({}));
    assert_eq!(units(&smaller), ["remove /etc/systemd/system/a.service.d/x.conf", "restart a.service"]);
    let unmasked = plan(unit(json!({"name": "a.service", "masked": true})), json!({}));
    assert_eq!(units(&unmasked), ["remove /etc/systemd/system/a.service"]);
}
