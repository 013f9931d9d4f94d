use kiln_types::ImageSource;
use proptest::prelude::*;

use super::*;
use crate::back::Fingerprint;
use crate::sample::{definition_name, exact, excluded, instance, line, marketplace, number, pool, tags, version};

struct World {
    pool: Pool,
    line: ImageDefinition,
    versions: Vec<ImageVersion>,
    instances: Vec<Instance>,
    original_saved: bool,
}

fn world(versions: &[&str]) -> World {
    let mut pool = pool();
    pool.recipe.image = ImageSource::Definition(definition_name());
    let versions = versions.iter().map(|text| version(text)).collect();
    World { pool, line: line(), versions, instances: Vec::new(), original_saved: true }
}

impl World {
    fn decide(&self, ask: &Ask) -> Result<Back, BackError> {
        decide(
            ask,
            Place {
                pool: &self.pool,
                line: &self.line,
                versions: &self.versions,
                instances: &self.instances,
                original_saved: self.original_saved,
            },
        )
    }

    /// Does what a driver does, up to a number of writes.
    fn write(&mut self, back: &Back, most: usize) {
        for write in back.writes.iter().take(most) {
            match write {
                Write::Mark(tags) => self.line.tags.extend(tags.clone()),
                Write::Include(number) => self.version(number).excluded = false,
                Write::Exclude(number) => self.version(number).excluded = true,
                Write::Delete(number) => self.versions.retain(|version| version.number != *number),
                Write::Recipe(RecipeTo::Original) => self.pool.recipe.image = marketplace(),
                Write::Recipe(RecipeTo::Version(number)) => {
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

fn ask(to: To) -> Ask {
    Ask {
        to,
        delete: false,
        reason: "kubelet crashes".into(),
        after: None,
        who: "alice".into(),
        at: "2026-11-16T00:10:00Z".parse().unwrap(),
    }
}

fn to(text: &str) -> To {
    To::Version(number(text))
}

#[test]
fn one_exclusion_gives_new_nodes_the_version_before_and_puts_the_pool_on_hold() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    world.instances = vec![instance(3, exact("2026.11.15")), instance(1, exact("2026.11.08"))];
    let back = world.decide(&ask(To::Previous)).unwrap();
    assert!(matches!(&back.writes[..], [Write::Mark(_), Write::Exclude(bad)] if *bad == number("2026.11.15")));
    assert_eq!((back.then.as_str(), back.running.len()), ("2026.11.08", 1));
    world.write(&back, 9);
    assert_eq!(world.new_nodes(), NewNodes::Latest(number("2026.11.08")));
    assert!(Hold::read(&world.line.tags).unwrap().blocks("2026-11-17".parse().unwrap()));
    assert_eq!(bad::numbers(&world.line.tags), BTreeSet::from([number("2026.11.15")]));
    let text = back.to_string();
    assert!(text.contains("k8s-agentpool1-26100436-vmss000003 runs 2026.11.15\n"), "{text}");
}

#[test]
fn what_the_bad_version_brought_is_remembered_for_later_runs() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    world.versions[0].tags = tags([("kiln-kernel", "1032"), ("kiln-kubelet", "v1.19.6")]);
    world.versions[1].tags = tags([("kiln-kernel", "1036"), ("kiln-kubelet", "v1.19.6"), ("kiln-packages", "abc")]);
    let back = world.decide(&ask(To::Previous)).unwrap();
    world.write(&back, 9);
    let brought = Fingerprint { packages: Some("abc".into()), kernel: Some("1036".into()), ..Fingerprint::default() };
    assert_eq!(bad::read(&world.line.tags), [BadVersion { number: number("2026.11.15"), brought }]);
}

#[test]
fn asking_twice_does_not_go_back_twice() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    let back = world.decide(&ask(To::Previous)).unwrap();
    world.write(&back, 9);
    assert!(matches!(world.decide(&ask(To::Previous)), Err(BackError::AlreadyBack { .. })));
}

#[test]
fn a_hold_that_ended_by_itself_does_not_stand_in_the_way_of_the_next_roll_back() {
    let mut world = world(&["2026.11.01", "2026.11.08"]);
    let back = world.decide(&Ask { after: Some("2026-11-19".parse().unwrap()), ..ask(To::Previous) }).unwrap();
    world.write(&back, 9);
    world.versions.push(version("2026.11.23"));
    let later = |day: &str| Ask { at: day.parse().unwrap(), ..ask(To::Previous) };
    assert!(matches!(world.decide(&later("2026-11-18T10:00:00Z")), Err(BackError::AlreadyBack { .. })));
    let again = world.decide(&later("2026-11-24T10:00:00Z")).unwrap();
    assert_eq!((again.bad, again.then.as_str()), (vec![number("2026.11.23")], "2026.11.01"));
}

#[test]
fn a_roll_back_that_was_cut_off_anywhere_is_finished_by_asking_again() {
    for to in [To::Previous, to("2026.11.01"), To::Original] {
        for pinned in [false, true] {
            let start = || {
                let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
                if pinned {
                    world.pool.recipe.image = exact("2026.11.15");
                }
                world
            };
            let mut whole = start();
            let back = whole.decide(&ask(to.clone())).unwrap();
            whole.write(&back, 9);
            for cut in 0..=back.writes.len() {
                let mut world = start();
                world.write(&back, cut);
                if let Ok(again) = world.decide(&ask(to.clone())) {
                    world.write(&again, 9);
                }
                assert_eq!(world.versions, whole.versions, "{to:?} after {cut}, pinned {pinned}");
                assert_eq!(world.new_nodes(), whole.new_nodes(), "{to:?} after {cut}, pinned {pinned}");
                assert_eq!(bad::numbers(&world.line.tags), bad::numbers(&whole.line.tags));
            }
        }
    }
}

#[test]
fn a_version_takes_all_newer_ones_out_highest_first() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    let back = world.decide(&ask(to("2026.11.01"))).unwrap();
    let out: Vec<_> = back.writes.iter().skip(1).map(ToString::to_string).collect();
    assert_eq!(out, ["exclude 2026.11.15", "exclude 2026.11.08"]);
    world.write(&back, 9);
    assert_eq!(world.new_nodes(), NewNodes::Latest(number("2026.11.01")));
}

#[test]
fn an_excluded_version_that_is_asked_for_is_included_first_and_no_longer_bad() {
    let mut world = world(&["2026.11.15"]);
    world.versions.insert(0, excluded("2026.11.08"));
    world.line.tags = tags([("kiln-bad", "2026.11.08")]);
    let back = world.decide(&ask(to("2026.11.08"))).unwrap();
    assert_eq!(back.writes[1], Write::Include(number("2026.11.08")));
    world.write(&back, 9);
    assert_eq!(bad::numbers(&world.line.tags), BTreeSet::from([number("2026.11.15")]));
}

#[test]
fn no_roll_back_leaves_nothing_usable() {
    let mut world = world(&["2026.11.15"]);
    world.versions.insert(0, excluded("2026.11.08"));
    let error = world.decide(&ask(To::Previous)).unwrap_err();
    assert!(matches!(error, BackError::NothingLeft { .. }));
    assert!(error.to_string().contains("--to original"), "{error}");
}

#[test]
fn a_recipe_that_names_a_version_is_pointed_at_the_one_before() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    world.pool.recipe.image = exact("2026.11.15");
    let back = world.decide(&ask(To::Previous)).unwrap();
    assert_eq!(back.writes[1], Write::Recipe(RecipeTo::Version(number("2026.11.08"))));
    world.write(&back, 9);
    assert_eq!(world.new_nodes(), NewNodes::Pinned(number("2026.11.08")));
}

#[test]
fn the_original_recipe_comes_back_only_if_it_was_saved() {
    let mut world = world(&["2026.11.15"]);
    let back = world.decide(&ask(To::Original)).unwrap();
    assert_eq!(back.writes[1..], [Write::Recipe(RecipeTo::Original), Write::Exclude(number("2026.11.15"))]);
    world.original_saved = false;
    assert!(matches!(world.decide(&ask(To::Original)), Err(BackError::NoOriginal { .. })));
}

#[test]
fn a_version_in_use_is_not_deleted() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    let delete = Ask { delete: true, ..ask(To::Previous) };
    let back = world.decide(&delete).unwrap();
    assert_eq!(back.writes.last(), Some(&Write::Delete(number("2026.11.15"))));
    world.instances = vec![instance(4, exact("2026.11.15"))];
    let error = world.decide(&delete).unwrap_err();
    assert!(error.to_string().contains("vmss000004"), "{error}");
}

#[test]
fn a_target_must_be_there_whole_and_in_the_region() {
    let mut world = world(&["2026.11.01", "2026.11.08", "2026.11.15"]);
    let error = world.decide(&ask(to("2026.11.02"))).unwrap_err().to_string();
    assert!(error.ends_with("there are 2026.11.01, 2026.11.08, 2026.11.15"), "{error}");
    world.versions[1].state = VersionState::Failed;
    assert!(matches!(world.decide(&ask(to("2026.11.08"))), Err(BackError::Unusable { .. })));
    world.versions[0].regions.clear();
    assert!(matches!(world.decide(&ask(to("2026.11.01"))), Err(BackError::Unusable { .. })));
    assert!(matches!(world.decide(&ask(to("2026.11.15"))), Err(BackError::AlreadyThere(_))));
}

#[test]
fn a_pool_that_does_not_use_its_line_has_nothing_to_roll_back() {
    let mut world = world(&["2026.11.08", "2026.11.15"]);
    world.pool.recipe.image = marketplace();
    let error = world.decide(&ask(To::Previous)).unwrap_err();
    assert!(error.to_string().contains("microsoft-aks:aks"), "{error}");
}

proptest! {
    #[test]
    fn at_no_instant_of_a_roll_back_is_there_nothing_and_at_its_end_nothing_bad(
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
        let to = match kind { 0 => To::Previous, 1 => To::Version(any), _ => To::Original };
        let asked = Ask { delete, ..ask(to.clone()) };
        let Ok(back) = world.decide(&asked) else { return Ok(()) };
        for at in 0..back.writes.len() {
            let one = Back { writes: vec![back.writes[at].clone()], ..back.clone() };
            world.write(&one, 1);
            prop_assert!(before == NewNodes::NothingUsable || world.new_nodes() != NewNodes::NothingUsable, "after {}", back.writes[at]);
        }
        match world.new_nodes() {
            NewNodes::Latest(gets) | NewNodes::Pinned(gets) => prop_assert_eq!(gets.to_string(), back.then.clone()),
            NewNodes::Elsewhere(_) => prop_assert_eq!(to, To::Original),
            NewNodes::NothingUsable => prop_assert!(false, "nothing usable"),
        }
        let region = &world.pool.location;
        prop_assert!(!world.versions.iter().any(|version| back.bad.contains(&version.number) && version.usable_in(region)));
        for user in &world.instances {
            let version = version_of(&user.runs, &world.line.name).unwrap();
            prop_assert!(!back.writes.contains(&Write::Delete(version.clone())));
        }
    }
}
