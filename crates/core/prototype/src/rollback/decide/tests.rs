use kiln_types::ImageSource;
use proptest::prelude::*;

use super::*;
use crate::rollback::{Fingerprint, read_rejected};
use crate::sample::{definition, definition_name, exact, excluded, instance, marketplace, number, pool, tags, version};

struct World {
    pool: Pool,
    definition: ImageDefinition,
    versions: Vec<ImageVersion>,
    instances: Vec<Instance>,
    original_saved: bool,
    open_run: Option<VersionNumber>,
}

fn world(versions: &[&str]) -> World {
    let mut pool = pool();
    pool.recipe.image = ImageSource::Definition(definition_name());
    let versions = versions.iter().map(|text| version(text)).collect();
    World { pool, definition: definition(), versions, instances: Vec::new(), original_saved: true, open_run: None }
}

impl World {
    fn plan(&self, request: &RollbackRequest) -> Result<RollbackPlan, Error> {
        plan_rollback(
            request,
            RollbackInput {
                pool: &self.pool,
                definition: &self.definition,
                versions: &self.versions,
                instances: &self.instances,
                original_saved: self.original_saved,
                open_run: self.open_run.as_ref(),
            },
        )
    }

    /// Applies the first writes of a plan.
    fn write(&mut self, plan: &RollbackPlan, most: usize) {
        for write in plan.writes.iter().take(most) {
            match write {
                RollbackWrite::Mark(tags) => self.definition.tags.extend(tags.clone()),
                RollbackWrite::Include(number) => self.version(number).excluded = false,
                RollbackWrite::Exclude(number) => self.version(number).excluded = true,
                RollbackWrite::Delete(number) => self.versions.retain(|version| version.number != *number),
                RollbackWrite::Recipe(RecipeTarget::Original) => self.pool.recipe.image = marketplace(),
                RollbackWrite::Recipe(RecipeTarget::Version(number)) => {
                    self.pool.recipe.image = ImageSource::ExactVersion(definition_name(), number.clone());
                }
            }
        }
    }

    fn version(&mut self, number: &VersionNumber) -> &mut ImageVersion {
        self.versions.iter_mut().find(|version| version.number == *number).unwrap()
    }

    fn new_nodes(&self) -> NewNodes {
        new_nodes(&self.pool.recipe.image, &definition_name(), &self.versions, &self.pool.location)
    }
}

fn request(to: RollbackTarget) -> RollbackRequest {
    RollbackRequest {
        protected_settings: ProtectedSettings::default(),
        to,
        delete: false,
        reason: "kubelet crashes".into(),
        after: None,
        who: "alice".into(),
        at: "2026-11-16T00:10:00Z".parse().unwrap(),
    }
}

fn to(text: &str) -> RollbackTarget {
    RollbackTarget::Version(number(text))
}

#[test]
fn rollback_excludes_the_version_and_pauses_the_pool() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    world.instances = vec![instance(3, exact("2026.11.15")), instance(1, exact("2026.11.08"))];
    let plan = world.plan(&request(RollbackTarget::Previous)).unwrap();
    assert!(
        matches!(&plan.writes[..], [RollbackWrite::Mark(_), RollbackWrite::Exclude(excluded)] if *excluded == number("2026.11.15"))
    );
    assert_eq!((plan.new_nodes_get.as_str(), plan.affected.len()), ("2026.11.08", 1));
    world.write(&plan, 9);
    assert_eq!(world.new_nodes(), NewNodes::Latest(number("2026.11.08")));
    assert!(Pause::read(&world.definition.tags).unwrap().is_active("2026-11-17".parse().unwrap()));
    assert_eq!(rejected_numbers(&world.definition.tags), BTreeSet::from([number("2026.11.15")]));
    assert_eq!(plan.affected[0].node, "k8s-agentpool1-26100436-vmss000003");
}

#[test]
fn changes_of_the_rejected_version_are_recorded() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    world.versions[0].tags = tags([("kiln-kernel", "1032"), ("kiln-kubelet", "v1.19.6")]);
    world.versions[1].tags = tags([("kiln-kernel", "1036"), ("kiln-kubelet", "v1.19.6"), ("kiln-packages", "abc")]);
    let plan = world.plan(&request(RollbackTarget::Previous)).unwrap();
    world.write(&plan, 9);
    let introduced =
        Fingerprint { packages: Some("abc".into()), kernel: Some("1036".into()), ..Fingerprint::default() };
    assert_eq!(read_rejected(&world.definition.tags), [RejectedVersion { number: number("2026.11.15"), introduced }]);
}

#[test]
fn repeated_rollback_does_not_go_back_twice() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    let plan = world.plan(&request(RollbackTarget::Previous)).unwrap();
    world.write(&plan, 9);
    assert!(matches!(world.plan(&request(RollbackTarget::Previous)), Err(Error::AlreadyRolledBack { .. })));
}

#[test]
fn ended_pause_does_not_prevent_the_next_rollback() {
    let mut world = world(&["2026.11.01", "2026.11.08"]);
    let plan = world
        .plan(&RollbackRequest { after: Some("2026-11-19".parse().unwrap()), ..request(RollbackTarget::Previous) })
        .unwrap();
    world.write(&plan, 9);
    world.versions.push(version("2026.11.23"));
    let later = |day: &str| RollbackRequest { at: day.parse().unwrap(), ..request(RollbackTarget::Previous) };
    assert!(matches!(world.plan(&later("2026-11-18T10:00:00Z")), Err(Error::AlreadyRolledBack { .. })));
    let again = world.plan(&later("2026-11-24T10:00:00Z")).unwrap();
    assert_eq!((again.rejected, again.new_nodes_get.as_str()), (vec![number("2026.11.23")], "2026.11.01"));
}

#[test]
fn rollback_interrupted_anywhere_is_completed_by_repeating_it() {
    for to in [RollbackTarget::Previous, to("2026.11.01"), RollbackTarget::Original] {
        for pinned in [false, true] {
            let start = || {
                let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
                if pinned {
                    world.pool.recipe.image = exact("2026.11.15");
                }
                world
            };
            let mut whole = start();
            let plan = whole.plan(&request(to.clone())).unwrap();
            whole.write(&plan, 9);
            for cut in 0..=plan.writes.len() {
                let mut world = start();
                world.write(&plan, cut);
                if let Ok(again) = world.plan(&request(to.clone())) {
                    world.write(&again, 9);
                }
                assert_eq!(world.versions, whole.versions, "{to:?} after {cut}, pinned {pinned}");
                assert_eq!(world.new_nodes(), whole.new_nodes(), "{to:?} after {cut}, pinned {pinned}");
                assert_eq!(rejected_numbers(&world.definition.tags), rejected_numbers(&whole.definition.tags));
            }
        }
    }
}

#[test]
fn rollback_to_a_version_excludes_all_newer_ones_highest_first() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    let plan = world.plan(&request(to("2026.11.01"))).unwrap();
    let out: Vec<_> = plan.writes.iter().skip(1).map(ToString::to_string).collect();
    assert_eq!(out, ["exclude version 2026.11.15", "exclude version 2026.11.08"]);
    world.write(&plan, 9);
    assert_eq!(world.new_nodes(), NewNodes::Latest(number("2026.11.01")));
}

#[test]
fn excluded_target_is_included_first_and_no_longer_rejected() {
    let mut world = world(&["2026.11.15"]);
    world.versions.insert(0, excluded("2026.11.08"));
    world.definition.tags = tags([("kiln-rejected", "2026.11.08")]);
    let plan = world.plan(&request(to("2026.11.08"))).unwrap();
    assert_eq!(plan.writes[1], RollbackWrite::Include(number("2026.11.08")));
    world.write(&plan, 9);
    assert_eq!(rejected_numbers(&world.definition.tags), BTreeSet::from([number("2026.11.15")]));
}

#[test]
fn rollback_never_leaves_the_pool_without_a_usable_version() {
    let mut world = world(&["2026.11.15"]);
    world.versions.insert(0, excluded("2026.11.08"));
    let error = world.plan(&request(RollbackTarget::Previous)).unwrap_err();
    assert!(matches!(error, Error::NothingLeft { .. }));
    assert!(error.to_string().contains("--to original"), "{error}");
}

#[test]
fn pinned_recipe_is_pointed_at_the_previous_version() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    world.pool.recipe.image = exact("2026.11.15");
    let plan = world.plan(&request(RollbackTarget::Previous)).unwrap();
    assert_eq!(plan.writes[1], RollbackWrite::Recipe(RecipeTarget::Version(number("2026.11.08"))));
    world.write(&plan, 9);
    assert_eq!(world.new_nodes(), NewNodes::Pinned(number("2026.11.08")));
}

#[test]
fn version_that_an_open_run_included_is_rejected_even_if_the_recipe_is_pinned_to_another() {
    for target in [RollbackTarget::Previous, RollbackTarget::Original] {
        let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
        world.pool.recipe.image = exact("2026.11.08");
        world.open_run = Some(number("2026.11.15"));
        let plan = world.plan(&request(target)).unwrap();
        assert_eq!(plan.rejected, [number("2026.11.08"), number("2026.11.15")]);
        // It is not yet included: there is nothing to exclude.
        world.version(&number("2026.11.15")).excluded = true;
        let plan = world.plan(&request(RollbackTarget::Previous)).unwrap();
        assert_eq!(plan.rejected, [number("2026.11.08")]);
        assert_eq!(plan.new_nodes_get, "2026.11.01");
    }
}

#[test]
fn original_recipe_is_restored_only_if_it_was_saved() {
    let mut world = world(&["2026.11.15"]);
    let plan = world.plan(&request(RollbackTarget::Original)).unwrap();
    assert_eq!(
        plan.writes[1..],
        [RollbackWrite::Exclude(number("2026.11.15")), RollbackWrite::Recipe(RecipeTarget::Original)]
    );
    world.original_saved = false;
    assert!(matches!(world.plan(&request(RollbackTarget::Original)), Err(Error::NoOriginal { .. })));
}

#[test]
fn rejected_version_is_excluded_before_the_original_recipe_is_restored_and_the_rollback_can_be_repeated() {
    for versions in [&["2026.11.15"][..], &["2026.11.08", "2026.11.15"]] {
        let mut world = world(versions);
        let plan = world.plan(&request(RollbackTarget::Original)).unwrap();
        // The cloud refuses to restore the recipe, the last write.
        world.write(&plan, plan.writes.len() - 1);
        assert_ne!(
            world.new_nodes(),
            NewNodes::Latest(number("2026.11.15")),
            "new nodes still get the rejected version"
        );
        let again = world.plan(&request(RollbackTarget::Original)).unwrap();
        assert_eq!(again.rejected, Vec::<VersionNumber>::new(), "no further version is rejected");
        assert_eq!(again.writes[1..], [RollbackWrite::Recipe(RecipeTarget::Original)]);
        world.write(&again, 9);
        assert_eq!(rejected_numbers(&world.definition.tags), BTreeSet::from([number("2026.11.15")]));
        assert!(matches!(world.plan(&request(RollbackTarget::Original)), Err(Error::AlreadyThere(_))));
    }
}

#[test]
fn version_in_use_is_not_deleted() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    let delete = RollbackRequest { delete: true, ..request(RollbackTarget::Previous) };
    let plan = world.plan(&delete).unwrap();
    assert_eq!(plan.writes.last(), Some(&RollbackWrite::Delete(number("2026.11.15"))));
    world.instances = vec![instance(4, exact("2026.11.15"))];
    let error = world.plan(&delete).unwrap_err();
    assert!(error.to_string().contains("vmss000004"), "{error}");
}

#[test]
fn target_must_be_complete_and_in_the_region() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    let error = world.plan(&request(to("2026.11.02"))).unwrap_err().to_string();
    assert!(error.ends_with("existing versions: 2026.11.01, 2026.11.08, 2026.11.15"), "{error}");
    world.versions[1].state = VersionState::Failed;
    assert!(matches!(world.plan(&request(to("2026.11.08"))), Err(Error::Unusable { .. })));
    world.versions[0].regions.clear();
    assert!(matches!(world.plan(&request(to("2026.11.01"))), Err(Error::Unusable { .. })));
    assert!(matches!(world.plan(&request(to("2026.11.15"))), Err(Error::AlreadyThere(_))));
}

#[test]
fn pool_that_does_not_use_its_definition_has_nothing_to_roll_back() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    world.pool.recipe.image = marketplace();
    let error = world.plan(&request(RollbackTarget::Previous)).unwrap_err();
    assert!(error.to_string().contains("microsoft-aks:aks"), "{error}");
}

proptest! {
    #[test]
    fn some_version_is_usable_at_every_instant_and_no_rejected_one_at_the_end(
        days in prop::collection::btree_map(1u32..28, (any::<bool>(), 0u8..4, any::<bool>()), 1..8),
        kind in 0u8..3,
        pick in any::<prop::sample::Index>(),
        pinned in any::<bool>(),
        delete in any::<bool>(),
    ) {
        let mut world = world(&[]);
        for (day, (out, state, runs)) in days {
            let mut version = version(&format!("2026.11.{day:02}"));
            version.excluded = out;
            if state == 0 {
                version.state = VersionState::Failed;
            }
            if runs {
                world.instances.push(instance(day, ImageSource::ExactVersion(definition_name(), version.number.clone())));
            }
            world.versions.push(version);
        }
        let any = pick.get(&world.versions).number.clone();
        if pinned {
            world.pool.recipe.image = ImageSource::ExactVersion(definition_name(), any.clone());
        }
        let before = world.new_nodes();
        let to = match kind { 0 => RollbackTarget::Previous, 1 => RollbackTarget::Version(any), _ => RollbackTarget::Original };
        let asked = RollbackRequest { delete, ..request(to.clone()) };
        let Ok(plan) = world.plan(&asked) else { return Ok(()) };
        for at in 0..plan.writes.len() {
            let one = RollbackPlan { writes: vec![plan.writes[at].clone()], ..plan.clone() };
            world.write(&one, 1);
            // Only without another version: the rejected one is excluded before the original recipe is restored.
            let between = to == RollbackTarget::Original && matches!(plan.writes[at], RollbackWrite::Exclude(_));
            let nothing = world.new_nodes() == NewNodes::NothingUsable;
            prop_assert!(before == NewNodes::NothingUsable || between || !nothing, "after {}", plan.writes[at]);
        }
        match world.new_nodes() {
            NewNodes::Latest(gets) | NewNodes::Pinned(gets) => prop_assert_eq!(gets.to_string(), plan.new_nodes_get.clone()),
            NewNodes::OtherImage(_) => prop_assert_eq!(to, RollbackTarget::Original),
            NewNodes::NothingUsable => prop_assert!(false, "nothing usable"),
        }
        let region = &world.pool.location;
        prop_assert!(!world.versions.iter().any(|version| plan.rejected.contains(&version.number) && version.usable_in(region)));
        for user in &world.instances {
            let version = version_of(&user.runs, &world.definition.name).unwrap();
            prop_assert!(!plan.writes.contains(&RollbackWrite::Delete(version.clone())));
        }
    }
}
