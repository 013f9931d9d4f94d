//! Blocking pods from the metadata service and the wire server.

use kiln_node_config::NodeConfig;
use kiln_node_plan::{CloudService, Desired, Manifest, Plan, ToObserve};
use serde_json::json;

use crate::support::{Machine, config, facts};

fn blocked() -> NodeConfig {
    config(json!({"network": {"blockMetadata": true}, "os": {"sysctl": {"vm.swappiness": "1"}}}))
}

fn unblocked() -> NodeConfig {
    config(json!({"network": {"blockMetadata": false}, "os": {"sysctl": {"vm.swappiness": "1"}}}))
}

fn is_blocked(machine: &Machine) -> bool {
    machine.blocked.contains(&CloudService::MetadataService)
}

fn machine() -> Machine {
    let mut machine = Machine::default();
    machine.settings.insert("/proc/sys/vm/swappiness".to_owned(), "60".to_owned());
    machine
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().chain(&plan.deferred).map(ToString::to_string).collect()
}

#[test]
fn first_boot_blocks_before_it_writes_files() {
    let plan = machine().apply(None, &blocked());
    let wanted = [
        "write the generation",
        "block pods from the metadata service",
        "write /etc/sysctl.d/90-kiln.conf",
        "set /proc/sys/vm/swappiness to 1",
        "switch to the generation",
    ];
    assert_eq!(steps(&plan)[..5], wanted);
}

#[test]
fn running_node_blocks_and_unblocks_without_restarting_services() {
    let mut machine = machine();
    machine.apply(None, &unblocked());
    let all = |step| ["write the generation", step, "switch to the generation"];
    assert_eq!(steps(&machine.apply(Some(&unblocked()), &blocked())), all("block pods from the metadata service"));
    assert!(is_blocked(&machine));
    assert_eq!(steps(&machine.apply(Some(&blocked()), &unblocked())), all("allow pods to reach the metadata service"));
    assert!(!is_blocked(&machine));
}

#[test]
fn removed_rules_are_restored_without_a_new_generation() {
    let mut machine = machine();
    machine.apply(None, &blocked());
    machine.blocked.clear();
    assert_eq!(steps(&machine.apply(Some(&blocked()), &blocked())), ["block pods from the metadata service"]);
    assert!(machine.plan(Some(&blocked()), &blocked()).is_empty());
}

#[test]
fn interrupted_block_is_undone() {
    let mut machine = machine();
    machine.apply(None, &unblocked());
    let (wanted, plan) = (blocked(), machine.plan(Some(&unblocked()), &blocked()));
    let desired = Desired::render(&wanted, &facts()).expect("compatible");
    for step in &plan.steps[..2] {
        machine.execute(step, &plan, &desired);
    }
    assert!(is_blocked(&machine) && machine.is_at(&unblocked()));
    machine.apply(Some(&unblocked()), &unblocked());
    assert!(!is_blocked(&machine));
    assert!(machine.plan(Some(&unblocked()), &unblocked()).is_empty());
}

#[test]
fn rules_are_observed_only_if_the_document_blocks() {
    let observes = |config: &NodeConfig, manifest: Option<&Manifest>| {
        ToObserve::new(&Desired::render(config, &facts()).expect("compatible"), manifest)
            .blocked
            .contains(&CloudService::MetadataService)
    };
    assert!(observes(&blocked(), None));
    assert!(!observes(&unblocked(), None) && !observes(&config(json!({})), Some(&Manifest::default())));
}

#[test]
fn manifest_records_the_block_only_if_it_is_set() {
    let text = |config: &NodeConfig| {
        let mut machine = machine();
        machine.apply(None, config);
        machine.text("/etc/kiln/current/manifest.json")
    };
    assert!(text(&blocked()).contains(r#""blocksMetadata":true"#));
    assert!(!text(&unblocked()).contains("blocksMetadata"));
}

#[test]
fn wire_server_is_blocked_independently_of_the_metadata_service() {
    let both = config(json!({"network": {"blockMetadata": true, "blockWireServer": true}}));
    let one = config(json!({"network": {"blockWireServer": true}}));
    let mut machine = machine();
    machine.apply(None, &both);
    assert_eq!(machine.blocked.len(), 2);
    let plan = machine.apply(Some(&both), &one);
    assert_eq!(
        steps(&plan),
        ["write the generation", "allow pods to reach the metadata service", "switch to the generation"]
    );
    assert_eq!(machine.blocked.iter().copied().collect::<Vec<_>>(), [CloudService::WireServer]);
    machine.blocked.clear();
    assert_eq!(steps(&machine.apply(Some(&one), &one)), ["block pods from the wire server"]);
    let manifest = machine.text("/etc/kiln/current/manifest.json");
    assert!(manifest.contains(r#""blocksWireServer":true"#) && !manifest.contains("blocksMetadata"), "{manifest}");
}

#[test]
fn documents_without_the_fields_block_nothing() {
    let desired = Desired::render(&config(json!({"network": {"plugin": "bridge"}})), &facts()).expect("compatible");
    assert!(desired.blocked.is_empty());
}
