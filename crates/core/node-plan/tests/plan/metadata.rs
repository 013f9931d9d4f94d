//! Blocking pods from the metadata service.

use kiln_node_config::NodeConfig;
use kiln_node_plan::{Desired, Manifest, Plan, ToObserve};
use serde_json::json;

use crate::support::{Machine, config, facts};

fn blocked() -> NodeConfig {
    config(json!({"network": {"blockMetadata": true}, "os": {"sysctl": {"vm.swappiness": "1"}}}))
}

fn unblocked() -> NodeConfig {
    config(json!({"network": {"blockMetadata": false}, "os": {"sysctl": {"vm.swappiness": "1"}}}))
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
    assert!(machine.blocks_metadata);
    assert_eq!(steps(&machine.apply(Some(&blocked()), &unblocked())), all("allow pods to reach the metadata service"));
    assert!(!machine.blocks_metadata);
}

#[test]
fn removed_rules_are_restored_without_a_new_generation() {
    let mut machine = machine();
    machine.apply(None, &blocked());
    machine.blocks_metadata = false;
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
    assert!(machine.blocks_metadata && machine.is_at(&unblocked()));
    machine.apply(Some(&unblocked()), &unblocked());
    assert!(!machine.blocks_metadata);
    assert!(machine.plan(Some(&unblocked()), &unblocked()).is_empty());
}

#[test]
fn rules_are_observed_only_if_the_document_blocks() {
    let observes = |config: &NodeConfig, manifest: Option<&Manifest>| {
        ToObserve::new(&Desired::render(config, &facts()).expect("compatible"), manifest).metadata
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
