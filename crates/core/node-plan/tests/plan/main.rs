//! Plans on a simulated machine whose files are a map.

mod fields;
mod golden;
mod incompatible;
mod join;
mod metadata;
mod network;
mod odd_values;
mod properties;
mod requests;
mod skew;
mod support;

use kiln_node_plan::{Desired, Plan, PlanAction, Step, layout};
use serde_json::json;
use support::{Machine, config, facts};

#[test]
fn first_document_writes_its_generation_and_switches_to_it() {
    let wanted = config(json!({}));
    let desired = Desired::render(&wanted, &facts()).expect("compatible");
    let plan = Plan::new(None, &wanted, &desired, &Machine::default().observed());
    assert_eq!(plan.steps, [Step::WriteGeneration, Step::SwitchGeneration]);
    assert_eq!(plan.action(), PlanAction::Apply);
    let env = desired.text(layout::KUBELET_ENV).expect("an environment");
    assert!(env.contains("--config=/etc/kiln/current/kubelet.json"), "{env}");
}

#[test]
fn document_in_force_needs_no_steps() {
    let wanted = config(json!({"files": [{"path": "/etc/motd", "content": "hi"}]}));
    let mut machine = Machine::default();
    machine.apply(None, &wanted);
    let plan = machine.plan(Some(&wanted), &wanted);
    assert_eq!((plan.steps.as_slice(), plan.deferred.as_slice()), (&[][..], &[][..]));
    assert_eq!(plan.action(), PlanAction::Nothing);
}

#[test]
fn removed_file_is_restored_to_its_state_before_kiln() {
    let mut machine = Machine::default();
    machine.write("/etc/motd", "mine", 0o640);
    let (without, with) = (config(json!({})), config(json!({"files": [{"path": "/etc/motd", "content": "hi"}]})));
    machine.apply(None, &without);
    let before = machine.clone();
    machine.apply(Some(&without), &with);
    assert_eq!(machine.text("/etc/motd"), "hi");
    machine.apply(Some(&with), &without);
    assert_eq!(machine.outside(), before.outside());
}

#[test]
fn file_that_matched_at_first_is_restored_after_a_later_change() {
    let mut machine = Machine::default();
    machine.write("/etc/motd", "hi", 0o644);
    let with = |content: &str| config(json!({"files": [{"path": "/etc/motd", "content": content}]}));
    let (without, same, other) = (config(json!({})), with("hi"), with("another"));
    machine.apply(None, &without);
    let before = machine.clone();
    machine.apply(Some(&without), &same);
    machine.apply(Some(&same), &other);
    assert_eq!(machine.text("/etc/motd"), "another");
    machine.apply(Some(&other), &without);
    assert_eq!(machine.outside(), before.outside());
}
