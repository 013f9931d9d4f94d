use kiln_types::{
    CustomData, ImageDefinition, ImageVersion, Inspection, Instance, JoinCredential, JoinMode, Node, OsDisk, Pool,
    Readiness, SecretBytes, SecretPlace, VersionState,
};

use super::*;
use crate::preflight::BlockerKind;
use crate::sample::{
    definition as sample_definition, definition_name, disk, exact, inspection, instance, marketplace, node, number,
    pool, version,
};

struct World {
    pool: Pool,
    instances: Vec<Instance>,
    disk: OsDisk,
    node: Node,
    inspection: Inspection,
    definitions: Vec<ImageDefinition>,
    versions: Vec<ImageVersion>,
    original: OriginalState,
    options: RunOptions,
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
        inspection: inspection(),
        definitions: Vec::new(),
        versions: Vec::new(),
        original: OriginalState::CanBeSaved,
        options: crate::sample::options(),
        gallery_exists: false,
        route: Route::Full,
        durations: Durations::default(),
    }
}

/// A pool after several runs.
fn later() -> World {
    let mut world = first();
    world.definitions = vec![sample_definition()];
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
            inspection: Ok(&world.inspection),
            definition_name: &definition_name(),
            definitions: &world.definitions,
            versions: &world.versions,
            contents: &[],
            original: &world.original,
            canary_secrets: Ok(()),
            own_node: None,
            own_run: None,
            kamino_jobs: &[],
            kured_locks: &[],
            missing_permissions: &[],
            locks: Ok(&[]),
            unknown_regions: &[],
            options: &world.options,
            today: "2026-11-15".parse().unwrap(),
        },
        replicas: 3,
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

fn action(world: &World, step: Step) -> Option<String> {
    plan_of(world).steps.into_iter().find(|planned| planned.step == step).map(|planned| planned.does)
}

#[test]
fn first_run_has_all_steps() {
    let all = steps(&first());
    for step in [Step::SaveRecipe, Step::Gallery, Step::Definition, Step::Model, Step::StripData, Step::StripScripts] {
        assert!(all.contains(&step), "{step}");
    }
    assert!(all.is_sorted());
    assert_eq!(action(&first(), Step::StripScripts).unwrap(), "remove the script extensions vmssCSE");
    assert_eq!(plan_of(&first()).now, "microsoft-aks:aks:aks-engine-ubuntu-1804-202007:2020.07.24");
}

#[test]
fn later_run_skips_steps_that_are_done() {
    let all = steps(&later());
    for step in [Step::SaveRecipe, Step::Gallery, Step::Definition, Step::Model, Step::StripData, Step::StripScripts] {
        assert!(!all.contains(&step), "{step}");
    }
    assert!(all.contains(&Step::Include));
    assert_eq!(action(&later(), Step::Prune).unwrap(), "delete versions beyond the history: 2026.11.01");
}

#[test]
fn version_in_use_is_not_pruned() {
    let mut world = later();
    world.instances.push(instance(1, exact("2026.11.01")));
    assert_eq!(action(&world, Step::Prune), None);
}

#[test]
fn failed_versions_are_cleared_first() {
    let mut world = later();
    world.versions[0].state = VersionState::Failed;
    assert_eq!(action(&world, Step::ClearFailed).unwrap(), "delete failed versions: 2026.11.01");
}

#[test]
fn donor_is_away_during_four_steps() {
    assert_eq!(plan_of(&first()).away, Span::from_secs(224));
    let mut world = first();
    world.route = Route::FromSnapshot;
    let from_snapshot = plan_of(&world);
    assert_eq!(from_snapshot.away, Span::from_secs(0));
    assert!(!from_snapshot.steps.iter().any(|planned| planned.step.is_donor_step()));
    assert!(from_snapshot.to_string().contains("donor away: not at all"));
}

#[test]
fn run_waits_for_a_version_that_is_being_created() {
    let mut world = first();
    world.route = Route::FromVersion;
    assert_eq!(action(&world, Step::Publish).unwrap(), "wait for version 2026.11.15, which is being created");
}

#[test]
fn options_change_the_plan() {
    let mut world = later();
    world.options.canary = false;
    world.options.pin = true;
    world.options.new_nodes = 5;
    world.options.deallocate = true;
    let all = steps(&world);
    assert!(
        !all.contains(&Step::CreateCanary) && !all.contains(&Step::AwaitCanary) && !all.contains(&Step::DeleteCanary)
    );
    assert_eq!(action(&world, Step::Model).unwrap(), "point the model at version 2026.11.15");
    assert_eq!(action(&world, Step::AddNodes).unwrap(), "add 5 nodes");
    assert!(action(&world, Step::PowerOff).unwrap().starts_with("deallocate"));
}

#[test]
fn live_run_neither_drains_nor_stops_the_donor() {
    let mut world = first();
    world.options.live = true;
    let plan = plan_of(&world);
    let donor: Vec<Step> = plan.steps.iter().map(|planned| planned.step).filter(|step| step.is_donor_step()).collect();
    assert_eq!(donor, [Step::HoldNode, Step::LiveSnapshot, Step::Thaw, Step::ReleaseNode]);
    assert_eq!(plan.away, Span::from_secs(0));
    let text = plan.to_string();
    assert!(text.contains("donor away: not at all; writes to its disk wait for 9 s at most"), "{text}");
    assert!(!text.contains("drain") && !text.contains("cordon"), "{text}");
    let stopped = plan_of(&first()).to_string();
    assert!(stopped.contains("with `--live` the donor would be neither drained nor stopped"), "{stopped}");
    assert!(!steps(&first()).contains(&Step::LiveSnapshot) && !steps(&first()).contains(&Step::Thaw));
}

#[test]
fn clones_that_join_by_the_recipe_keep_it_in_the_model() {
    let mut world = first();
    assert!(plan_of(&world).to_string().contains("clones join: certificate, with what is in the image\n"));
    world.inspection.custom_data = CustomData::found(SecretBytes::new("#!/bin/sh\njoin\n"));
    world.inspection.join_credential = JoinCredential::NodeCertificate { path: "/etc/kubernetes/kubelet.conf".into() };
    let plan = plan_of(&world);
    assert_eq!((plan.join, plan.preflight.is_clear()), (Some(JoinMode::Recipe), true), "{plan}");
    assert!(plan.to_string().contains("clones join: recipe"), "{plan}");
    assert_eq!(serde_json::to_value(&plan).unwrap()["join"], "recipe");
    let all = steps(&world);
    assert!(all.contains(&Step::Model) && !all.contains(&Step::StripData) && !all.contains(&Step::StripScripts));
    world.options.join = Some(JoinMode::Certificate);
    assert_eq!(plan_of(&world).preflight.blockers[0].kind, BlockerKind::JoinCredential);
}

#[test]
fn missing_first_boot_unit_is_installed() {
    assert_eq!(action(&first(), Step::FirstBoot), None);
    let mut world = first();
    world.inspection.first_boot_unit = None;
    assert!(action(&world, Step::FirstBoot).unwrap().contains("changes nothing else"));
    assert!(plan_of(&world).to_string().contains("warning: the donor has no first-boot unit"));
}

#[test]
fn plan_lists_secrets_and_cost() {
    let mut world = first();
    world.inspection.secrets =
        vec![SecretPlace { path: "/etc/kubernetes/azure.json".into(), kind: "cloud credential".into() }];
    let text = plan_of(&world).to_string();
    assert!(
        text.contains("on the disk: /etc/kubernetes/azure.json (cloud credential): every clone has it\n"),
        "{text}"
    );
    assert!(text.contains("on the disk: /etc/kubernetes/certs/client.crt (join credential"), "{text}");
    assert!(text.contains("storage: about 5.40 US$ a month for 3 versions of 12 GiB used"), "{text}");
    assert!(text.ends_with("blockers: none\n"), "{text}");
}

#[test]
fn plan_lists_blockers() {
    let mut world = first();
    world.node.readiness = Readiness::Unreported;
    let plan = plan_of(&world);
    assert_eq!(plan.preflight.blockers[0].kind, BlockerKind::NotReady);
    assert!(plan.to_string().contains("blocked: `k8s-agentpool1-26100436-vmss000000` is not Ready"));
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["blockers"][0]["kind"], "not-ready");
    assert_eq!(json["steps"][0]["step"], "claim");
    assert_eq!(json["away"], "224s");
}

#[test]
fn planned_steps_have_a_cell_for_each_heading() {
    let plan = plan_of(&first());
    assert_eq!(plan.steps[0].cells().len(), PlannedStep::HEADINGS.len());
    let publish = plan.steps.iter().find(|planned| planned.step == Step::Publish).unwrap();
    assert_eq!(publish.cells()[2], "1 h 36 min, as kamino measured");
}
