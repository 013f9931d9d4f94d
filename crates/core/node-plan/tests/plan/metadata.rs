//! Pods are kept from the metadata service, and let to it again.

use kiln_node_config::NodeConfig;
use kiln_node_plan::{Desired, Manifest, Plan, ToObserve};
use serde_json::json;

use crate::support::{Machine, config, facts};

fn closed() -> NodeConfig {
    config(json!({"network": {"blockMetadata": true}, "os": {"sysctl": {"vm.swappiness": "1"}}}))
}

fn open() -> NodeConfig {
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
fn a_first_boot_closes_it_before_any_file_is_written_elsewhere() {
    let plan = machine().apply(None, &closed());
    let wanted = [
        "write the generation",
        "keep pods from the metadata service",
        "write /etc/sysctl.d/90-kiln.conf",
        "set /proc/sys/vm/swappiness to 1",
        "turn to the generation",
    ];
    assert_eq!(steps(&plan)[..5], wanted);
}

#[test]
fn a_running_node_closes_and_opens_it_without_touching_a_service() {
    let mut machine = machine();
    machine.apply(None, &open());
    let turn = |step| ["write the generation", step, "turn to the generation"];
    assert_eq!(steps(&machine.apply(Some(&open()), &closed())), turn("keep pods from the metadata service"));
    assert!(machine.blocks_metadata);
    assert_eq!(steps(&machine.apply(Some(&closed()), &open())), turn("let pods reach the metadata service"));
    assert!(!machine.blocks_metadata);
}

#[test]
fn what_somebody_opened_is_closed_again_and_no_generation_is_written_for_it() {
    let mut machine = machine();
    machine.apply(None, &closed());
    machine.blocks_metadata = false;
    assert_eq!(steps(&machine.apply(Some(&closed()), &closed())), ["keep pods from the metadata service"]);
    assert!(machine.plan(Some(&closed()), &closed()).is_empty());
}

#[test]
fn one_that_was_cut_off_on_its_way_is_taken_back() {
    let mut machine = machine();
    machine.apply(None, &open());
    let (wanted, plan) = (closed(), machine.plan(Some(&open()), &closed()));
    let desired = Desired::render(&wanted, &facts()).expect("fits");
    for step in &plan.steps[..2] {
        machine.take(step, &plan, &desired);
    }
    assert!(machine.blocks_metadata && machine.turned_to(&open()));
    machine.apply(Some(&open()), &open());
    assert!(!machine.blocks_metadata);
    assert!(machine.plan(Some(&open()), &open()).is_empty());
}

#[test]
fn the_kernel_is_asked_only_where_the_document_wants_it() {
    let asked = |config: &NodeConfig, manifest: Option<&Manifest>| {
        ToObserve::new(&Desired::render(config, &facts()).expect("fits"), manifest).metadata
    };
    assert!(asked(&closed(), None));
    assert!(!asked(&open(), None) && !asked(&config(json!({})), Some(&Manifest::default())));
}

#[test]
fn a_node_without_it_remembers_nothing_of_it() {
    let text = |config: &NodeConfig| {
        let mut machine = machine();
        machine.apply(None, config);
        machine.text("/etc/kiln/current/manifest.json")
    };
    assert!(text(&closed()).contains(r#""blocksMetadata":true"#));
    assert!(!text(&open()).contains("blocksMetadata"));
}
