//! What a node does by itself and what it asks for.

use kiln_node_config::{Effect, NodeConfig};
use kiln_node_plan::{Desired, Observed, Plan, PlanAction, Request, Step};
use serde_json::{Value, json};

use crate::support::{Machine, config, facts, merge};

fn plan(from: Value, to: Value) -> Plan {
    let (from, to) = (config(from), config(to));
    let mut machine = Machine::default();
    machine.apply(None, &from);
    machine.plan(Some(&from), &to)
}

fn up_to(effect: &str, mut over: Value) -> Value {
    merge(&mut over, json!({"update": {"upTo": effect}}));
    over
}

#[test]
fn a_label_that_a_node_may_set_is_its_own_matter_and_another_is_asked_for() {
    let plan = plan(
        json!({"kubelet": {"labels": {"team": "a", "old": "x"}}}),
        json!({"kubelet": {"labels": {"team": "b", "node-role.kubernetes.io/gpu": ""}}}),
    );
    let own = Request::Labels {
        set: [("team".to_owned(), "b".to_owned())].into(),
        remove: vec!["old".to_owned()],
        by_node: true,
    };
    let asked = [("node-role.kubernetes.io/gpu".to_owned(), String::new())];
    assert_eq!(plan.requests, [own, Request::Labels { set: asked.into(), remove: Vec::new(), by_node: false }]);
    assert_eq!((plan.action(), plan.effect), (PlanAction::Apply, Effect::Cluster));
    assert_eq!(plan.steps, [Step::WriteGeneration, Step::SwitchGeneration], "the next registration has them");
}

#[test]
fn a_taint_is_always_asked_for() {
    let taint = |value: &str| json!({"kubelet": {"taints": [{"key": "a", "value": value, "effect": "NoSchedule"}]}});
    let changed = plan(taint("1"), taint("2"));
    assert!(
        matches!(&changed.requests[..], [Request::Taints { set, remove }] if set.len() == 1 && remove.is_empty()),
        "{:?}",
        changed.requests
    );
    let gone = plan(taint("1"), json!({}));
    assert_eq!(gone.requests, [Request::Taints { set: Vec::new(), remove: vec!["a:NoSchedule".to_owned()] }]);
}

#[test]
fn a_node_that_registers_asks_only_for_labels_that_it_may_not_set() {
    let wanted = config(json!({"kubelet": {"labels": {"team": "a", "node-role.kubernetes.io/x": "y"},
        "taints": [{"key": "a", "effect": "NoExecute"}]}}));
    let desired = Desired::render(&wanted, &facts()).expect("fits");
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
fn what_goes_beyond_the_limit_waits_and_says_which_fields() {
    let swap = || json!({"os": {"swap": {"sizeMib": 64}, "sysctl": {"vm.swappiness": "1"}}});
    let asked = plan(json!({}), swap());
    assert_eq!((asked.action(), asked.effect), (PlanAction::Request, Effect::Drain));
    assert_eq!(asked.requests, [Request::Drain]);
    let beyond: Vec<&str> = asked.beyond.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(beyond, ["spec.os.swap.sizeMib"]);
    let allowed = plan(json!({}), up_to("drain", swap()));
    assert_eq!((allowed.action(), allowed.requests.len()), (PlanAction::Apply, 0));
    let strict = plan(json!({}), up_to("none", json!({"kubelet": {"flags": {"--v": "2"}}})));
    assert_eq!((strict.action(), strict.requests), (PlanAction::Request, vec![Request::Restart]), "pods stay");
    let strict = plan(json!({}), up_to("none", json!({"os": {"sysctl": {"vm.swappiness": "1"}}})));
    assert_eq!((strict.action(), strict.requests), (PlanAction::Request, vec![Request::Reload]));
    let strict = plan(json!({}), up_to("reload", swap()));
    assert_eq!(strict.requests, [Request::Drain], "the most of all that is needed");
}

#[test]
fn no_running_node_becomes_another_whatever_it_may() {
    let plan = plan(json!({}), up_to("replace", json!({"platform": {"hostName": "other"}})));
    assert_eq!((plan.action(), plan.requests), (PlanAction::Request, vec![Request::Replace]));
}

#[test]
fn arguments_of_the_kernel_wait_for_a_start_of_the_machine() {
    let arguments = || json!({"os": {"kernelArguments": ["nosmt"]}});
    let asked = plan(json!({}), arguments());
    assert_eq!((asked.action(), asked.requests), (PlanAction::Request, vec![Request::Reboot]));
    let allowed = plan(json!({}), up_to("reboot", arguments()));
    assert_eq!(allowed.deferred.last(), Some(&Step::Reboot));
    assert!(allowed.steps.contains(&Step::Start { unit: "kiln-boot-loader.service".to_owned() }));

    let wanted = config(arguments());
    let mut machine = Machine::default();
    machine.apply(None, &wanted);
    let desired = Desired::render(&wanted, &facts()).expect("fits");
    let asks = |line: &str| {
        let observed = Observed { command_line: Some(line.to_owned()), ..machine.observed() };
        let plan = Plan::new(Some(&wanted), &wanted, &desired, &observed);
        assert_eq!(plan.action(), PlanAction::Nothing);
        plan.requests
    };
    assert_eq!(asks("root=/dev/sda1 quiet"), [Request::Reboot]);
    assert_eq!(asks("root=/dev/sda1 nosmt"), []);
}

#[test]
fn a_document_on_pause_changes_nothing_but_the_first_does() {
    let paused = || json!({"update": {"paused": true}, "kubelet": {"flags": {"--v": "2"}}});
    assert_eq!(plan(json!({}), paused()).action(), PlanAction::Paused);
    let wanted = config(paused());
    assert_eq!(Machine::default().plan(None, &wanted).action(), PlanAction::Apply, "a node must become one first");
}

#[test]
fn a_policy_of_processors_stops_the_kubelet_while_its_record_goes() {
    let policy = |name: &str| {
        up_to("drain", json!({"kubelet": {"configuration": {"cpuManagerPolicy": name, "reservedSystemCPUs": "0"}}}))
    };
    for (from, to) in [("none", "static"), ("static", "none")] {
        let steps: Vec<String> = plan(policy(from), policy(to)).steps.iter().map(ToString::to_string).collect();
        let wanted = [
            "write the generation",
            "turn to the generation",
            "stop kubelet.service",
            "discard /var/lib/kubelet/cpu_manager_state",
            "start kubelet.service",
        ];
        assert_eq!(steps, wanted);
    }
}

#[test]
fn a_change_of_everything_is_done_in_order() {
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
        "have the service manager read its files",
        "enable agent.service",
        "turn to the generation",
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
fn a_first_boot_leaves_the_service_manager_alone_until_the_kubelet_runs() {
    let wanted = config(
        json!({"os": {"limits": {"LimitNOFILE": "9"}}, "units": [{"name": "a.service", "content": "x", "enabled": true}]}),
    );
    let plan = Machine::default().plan(None, &wanted);
    assert_eq!(plan.steps, [Step::WriteGeneration, Step::SwitchGeneration]);
    assert!(plan.deferred.contains(&Step::DaemonReload));
    assert_eq!(plan.deferred.iter().filter(|step| **step == Step::DaemonReload).count(), 1);
}

#[test]
fn a_plan_is_shown_by_its_words() {
    let plan = plan(json!({}), json!({"kubelet": {"flags": {"--v": "2"}}}));
    let shown = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(shown["effect"], "restart");
    assert_eq!(shown["steps"], json!(["write the generation", "turn to the generation", "restart kubelet.service"]));
    assert_eq!(shown["changes"][0]["path"], "spec.kubelet.flags[--v]");
}

#[test]
fn a_file_that_somebody_changed_is_written_again_and_its_reader_hears_of_it() {
    let wanted: NodeConfig =
        config(json!({"files": [{"path": "/etc/motd", "content": "x", "restarts": ["motd.service"]}]}));
    let mut machine = Machine::default();
    machine.apply(None, &wanted);
    machine.write("/etc/motd", "graffiti", 0o644);
    let steps: Vec<String> = machine.plan(Some(&wanted), &wanted).steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["write /etc/motd", "restart motd.service"]);
}

#[test]
fn a_unit_that_goes_is_stopped_and_one_that_loses_an_addition_restarts() {
    let unit = |over: Value| json!({"units": [over]});
    let units = |plan: &Plan| -> Vec<String> {
        plan.steps.iter().map(ToString::to_string).filter(|step| step.contains(".service")).collect()
    };
    let gone = plan(unit(json!({"name": "a.service", "content": "[Unit]\n"})), json!({}));
    assert_eq!(units(&gone), ["remove /etc/systemd/system/a.service", "stop a.service"]);
    let less = plan(unit(json!({"name": "a.service", "dropIns": [{"name": "x.conf", "content": "y"}]})), json!({}));
    assert_eq!(units(&less), ["remove /etc/systemd/system/a.service.d/x.conf", "restart a.service"]);
    let free = plan(unit(json!({"name": "a.service", "masked": true})), json!({}));
    assert_eq!(units(&free), ["remove /etc/systemd/system/a.service"]);
}
