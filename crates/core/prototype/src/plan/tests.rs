use kiln_types::{ImageDefinition, ImageVersion, Instance, OsDisk, Pool, VersionState};
use kiln_types::{Inspection, SecretPlace};

use super::*;
use crate::donor::Node;
use crate::preflight::Row;
use crate::sample::{
    definition_name, disk, exact, inspection, instance, line, marketplace, node, number, pool, version,
};

struct World {
    pool: Pool,
    instances: Vec<Instance>,
    disk: OsDisk,
    node: Node,
    inside: Inspection,
    lines: Vec<ImageDefinition>,
    versions: Vec<ImageVersion>,
    original: OriginalState,
    policy: RunOptions,
    gallery_exists: bool,
    route: Route,
    durations: Durations,
}

/// A pool before its first run.
fn first() -> World {
    World {
        pool: pool(),
        instances: vec![instance(0, marketplace())],
        disk: disk(),
        node: node(0),
        inside: inspection(),
        lines: Vec::new(),
        versions: Vec::new(),
        original: OriginalState::CanBeSaved,
        policy: RunOptions::default(),
        gallery_exists: false,
        route: Route::Full,
        durations: Durations::default(),
    }
}

/// A pool after several runs.
fn later() -> World {
    let mut world = first();
    world.lines = vec![line()];
    world.versions = ["2026.11.01", "2026.11.02", "2026.11.08"].map(version).into();
    world.pool.recipe.image = ImageSource::Definition(definition_name());
    world.pool.recipe.extensions.clear();
    world.original = OriginalState::Saved;
    world.gallery_exists = true;
    world
}

fn plan_of(world: &World) -> Plan {
    plan(PlanInput {
        preflight: PreflightInput {
            pool: &world.pool,
            instance: world.instances.first(),
            disk: Some(&world.disk),
            node: &world.node,
            inside: Ok(&world.inside),
            definition_name: &definition_name(),
            lines: &world.lines,
            versions: &world.versions,
            contents: &[],
            original: &world.original,
            own_node: None,
            own_run: None,
            kamino: &[],
            missing: &[],
            force: false,
            allow_empty_pool: false,
            today: "2026-11-15".parse().unwrap(),
        },
        policy: &world.policy,
        version: &number("2026.11.15"),
        gallery_exists: world.gallery_exists,
        route: world.route,
        instances: &world.instances,
        durations: &world.durations,
    })
}

fn steps(world: &World) -> Vec<Step> {
    plan_of(world).steps.into_iter().map(|planned| planned.step).collect()
}

fn does(world: &World, step: Step) -> Option<String> {
    plan_of(world).steps.into_iter().find(|planned| planned.step == step).map(|planned| planned.does)
}

#[test]
fn a_first_run_does_everything_that_it_needs_to() {
    let all = steps(&first());
    for step in [Step::SaveRecipe, Step::Gallery, Step::Definition, Step::Model, Step::StripData, Step::StripScripts] {
        assert!(all.contains(&step), "{step}");
    }
    assert!(all.is_sorted());
    assert_eq!(does(&first(), Step::StripScripts).unwrap(), "remove the script extensions vmssCSE");
    assert_eq!(plan_of(&first()).now, "microsoft-aks:aks:aks-engine-ubuntu-1804-202007:2020.07.24");
}

#[test]
fn a_later_run_leaves_out_what_is_so_already() {
    let all = steps(&later());
    for step in [Step::SaveRecipe, Step::Gallery, Step::Definition, Step::Model, Step::StripData, Step::StripScripts] {
        assert!(!all.contains(&step), "{step}");
    }
    assert!(all.contains(&Step::Include));
    assert_eq!(does(&later(), Step::Prune).unwrap(), "delete versions beyond the history: 2026.11.01");
}

#[test]
fn what_an_instance_runs_is_not_in_the_plan_for_deletion() {
    let mut world = later();
    world.instances.push(instance(1, exact("2026.11.01")));
    assert_eq!(does(&world, Step::Prune), None);
}

#[test]
fn failed_versions_are_cleared_first() {
    let mut world = later();
    world.versions[0].state = VersionState::Failed;
    assert_eq!(does(&world, Step::ClearFailed).unwrap(), "delete failed versions: 2026.11.01");
}

#[test]
fn the_donor_is_away_for_its_four_steps_and_no_longer() {
    assert_eq!(plan_of(&first()).away, Span::from_secs(224));
    let mut world = first();
    world.route = Route::FromSnapshot;
    let from_copy = plan_of(&world);
    assert_eq!(from_copy.away, Span::from_secs(0));
    assert!(!from_copy.steps.iter().any(|planned| planned.step.is_donor_step()));
    assert!(from_copy.to_string().contains("donor away: not at all"));
}

#[test]
fn a_version_that_is_being_made_is_waited_for() {
    let mut world = first();
    world.route = Route::FromVersion;
    assert_eq!(does(&world, Step::Publish).unwrap(), "wait for version 2026.11.15, which is being made");
}

#[test]
fn options_change_the_plan() {
    let mut world = later();
    world.policy.canary = false;
    world.policy.pin = true;
    world.policy.new_nodes = 5;
    world.policy.deallocate = true;
    let all = steps(&world);
    assert!(
        !all.contains(&Step::CreateCanary) && !all.contains(&Step::AwaitCanary) && !all.contains(&Step::DeleteCanary)
    );
    assert_eq!(does(&world, Step::Model).unwrap(), "point the model at 2026.11.15");
    assert_eq!(does(&world, Step::AddNodes).unwrap(), "add 5 nodes");
    assert!(does(&world, Step::PowerOff).unwrap().starts_with("deallocate"));
}

#[test]
fn a_donor_without_the_first_boot_unit_gets_it() {
    assert_eq!(does(&first(), Step::FirstBoot), None);
    let mut world = first();
    world.inside.first_boot_unit = None;
    assert!(does(&world, Step::FirstBoot).unwrap().contains("nothing else is changed"));
    assert!(plan_of(&world).to_string().contains("warning: the donor has no first-boot unit"));
}

#[test]
fn a_plan_says_what_would_be_cloned_and_what_it_costs() {
    let mut world = first();
    world.inside.secrets =
        vec![SecretPlace { path: "/etc/kubernetes/azure.json".into(), kind: "cloud credential".into() }];
    let text = plan_of(&world).to_string();
    assert!(
        text.contains("on the disk: /etc/kubernetes/azure.json (cloud credential): every clone has it\n"),
        "{text}"
    );
    assert!(text.contains("on the disk: /etc/kubernetes/certs/client.crt (join credential"), "{text}");
    assert!(text.contains("storage: about 5.40 US$ a month for 3 versions of 12 GiB used"), "{text}");
    assert!(text.ends_with("nothing speaks against it\n"), "{text}");
}

#[test]
fn a_plan_that_would_be_refused_says_why() {
    let mut world = first();
    world.node.ready = false;
    let plan = plan_of(&world);
    assert_eq!(plan.verdict.refusals[0].row, Row::NotReady);
    assert!(plan.to_string().contains("refused: `k8s-agentpool1-26100436-vmss000000` is not Ready"));
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["refusals"][0]["row"], "not-ready");
    assert_eq!(json["steps"][0]["step"], "claim");
    assert_eq!(json["away"], "224s");
}

#[test]
fn every_step_that_is_planned_has_a_cell_under_every_heading() {
    let plan = plan_of(&first());
    assert_eq!(plan.steps[0].cells().len(), PlannedStep::HEADINGS.len());
    let publish = plan.steps.iter().find(|planned| planned.step == Step::Publish).unwrap();
    assert_eq!(publish.cells()[2], "1 h 36 min, as published by kamino");
}
