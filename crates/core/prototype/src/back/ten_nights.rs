//! Ten nights after a roll back: no automatic run bakes the same patch again. Values only.

use jiff::civil::Date;
use kiln_node_plan::Inspection;
use kiln_types::{ImageDefinition, ImageSource, ImageVersion, Instance, Pool, VersionNumber};

use super::{Ask, Place, To, Write, decide};
use crate::diff::VersionFacts;
use crate::donor::{DonorRules, NodeFacts, Surroundings, choose};
use crate::latest::latest;
use crate::provenance::{Provenance, lineage};
use crate::refuse::{Original, Preflight, check};
use crate::sample::{definition_name, disk, exact, inspection, instance, line, node, number, pool};

const GOOD: &str = "2026.11.08";
const BAD: &str = "2026.11.15";

/// A pool whose nodes patch themselves every night.
struct Fleet {
    pool: Pool,
    line: ImageDefinition,
    versions: Vec<ImageVersion>,
    contents: Vec<VersionFacts>,
    instances: Vec<Instance>,
    insides: Vec<Inspection>,
}

impl Fleet {
    /// Four nodes: three came from the good version and patched themselves, the last came from the bad one.
    fn new(good: &Inspection, bad: &Inspection) -> Self {
        let mut pool = pool();
        pool.recipe.image = ImageSource::Definition(definition_name());
        let mut fleet = Self {
            pool,
            line: line(),
            versions: Vec::new(),
            contents: Vec::new(),
            instances: (0..3).map(|id| instance(id, exact(GOOD))).chain([instance(3, exact(BAD))]).collect(),
            insides: vec![bad.clone(); 4],
        };
        fleet.bake(&number(GOOD), good, &[]);
        fleet.bake(&number(BAD), bad, &[number(GOOD)]);
        fleet
    }

    fn bake(&mut self, number: &VersionNumber, inside: &Inspection, ancestors: &[VersionNumber]) {
        let at = "2026-11-15T23:00:00Z".parse().unwrap();
        let provenance = Provenance::of("donor", at, inside, ancestors.to_vec(), "r1", "cron");
        self.versions.push(ImageVersion { tags: provenance.tags(), ..crate::sample::version(number.as_str()) });
        self.contents.push(VersionFacts::of(number.clone(), inside));
    }

    fn roll_back(&mut self, after: Option<&str>) {
        let ask = Ask {
            to: To::Previous,
            delete: false,
            reason: "packets are lost".into(),
            after: after.map(|day| day.parse().unwrap()),
            who: "alice".into(),
            at: "2026-11-16T00:10:00Z".parse().unwrap(),
        };
        let place = Place {
            pool: &self.pool,
            line: &self.line,
            versions: &self.versions,
            instances: &self.instances,
            original_saved: true,
        };
        for write in decide(&ask, place).unwrap().writes {
            match write {
                Write::Mark(tags) => self.line.tags.extend(tags),
                Write::Exclude(bad) => {
                    self.versions.iter_mut().filter(|v| v.number == bad).for_each(|v| v.excluded = true);
                }
                other => panic!("{other}"),
            }
        }
    }

    /// What an automatic run of that night does: the version that it bakes, or nothing.
    fn night(&mut self, day: Date) -> Option<VersionNumber> {
        let now = jiff::tz::Offset::UTC.to_timestamp(day.at(23, 0, 0, 0)).unwrap();
        let nodes: Vec<NodeFacts> = (0..4)
            .zip(&self.insides)
            .map(|(id, inside)| {
                let mut node = node(id);
                node.annotations.insert("last-patch".into(), day.to_string());
                node.kernel.clone_from(&inside.kernel);
                node
            })
            .collect();
        let around = Surroundings {
            pool: &self.pool,
            instances: &self.instances,
            line: Some(&self.line),
            versions: &self.versions,
            own_node: None,
            own_run: None,
            now,
        };
        let choice = choose(&nodes, &DonorRules::new("reboot", "last-patch"), around);
        let fits = |at: &usize| {
            check(Preflight {
                pool: &self.pool,
                instance: Some(&self.instances[*at]),
                disk: Some(&disk()),
                node: &nodes[*at],
                inside: Ok(&self.insides[*at]),
                definition_name: &definition_name(),
                lines: std::slice::from_ref(&self.line),
                versions: &self.versions,
                contents: &self.contents,
                original: &Original::Saved,
                own_node: None,
                own_run: None,
                kamino: &[],
                missing: &[],
                force: false,
                allow_empty_pool: false,
                today: day,
            })
            .allows()
        };
        let places = choice.in_order().filter_map(|name| nodes.iter().position(|node| node.name == name));
        let donor = places.into_iter().find(fits)?;
        let ancestors = match &self.instances[donor].runs {
            ImageSource::ExactVersion(_, runs) => lineage(runs, &self.versions),
            other => panic!("{other:?}"),
        };
        let version = crate::names::version_of_day(now);
        let inside = self.insides[donor].clone();
        self.bake(&version, &inside, &ancestors);
        Some(version)
    }

    /// Ten nights, of each what it baked. Every night something harmless is patched everywhere.
    fn ten_nights(&mut self, mut patch: impl FnMut(u32, &mut Vec<Inspection>)) -> Vec<Option<String>> {
        (1..=10)
            .map(|night| {
                for inside in &mut self.insides {
                    inside.packages.insert("tzdata".into(), format!("2026.{night}"));
                }
                patch(night, &mut self.insides);
                let day = "2026-11-15".parse::<Date>().unwrap().saturating_add(jiff::Span::new().days(night));
                self.night(day).map(|version| version.to_string())
            })
            .collect()
    }
}

fn old_kernel() -> Inspection {
    let mut inside = inspection();
    inside.kernel = "5.4.0-1032-azure".into();
    inside.packages.insert("linux-image-azure".into(), "5.4.0.1032.34".into());
    inside
}

fn cured_kernel(inside: &mut Inspection) {
    inside.kernel = "5.4.0-1040-azure".into();
    inside.packages.insert("linux-image-azure".into(), "5.4.0.1040.42".into());
}

#[test]
fn without_a_roll_back_every_night_bakes_what_is_there() {
    let mut fleet = Fleet::new(&old_kernel(), &inspection());
    assert_eq!(fleet.ten_nights(|_, _| ()).iter().flatten().count(), 10);
}

#[test]
fn a_hold_that_nobody_lifts_keeps_ten_nights_quiet_whatever_is_patched() {
    let mut fleet = Fleet::new(&old_kernel(), &inspection());
    fleet.roll_back(None);
    let baked = fleet.ten_nights(|night, insides| {
        if night > 2 {
            insides.iter_mut().for_each(cured_kernel);
        }
    });
    assert_eq!(baked, vec![None; 10]);
    assert_eq!(latest(&fleet.versions, "westus2").map(|v| v.number.to_string()), Some(GOOD.into()));
}

#[test]
fn after_its_day_a_kernel_that_was_taken_back_is_not_baked_until_it_is_cured() {
    let mut fleet = Fleet::new(&old_kernel(), &inspection());
    fleet.roll_back(Some("2026-11-19"));
    let baked = fleet.ten_nights(|night, insides| {
        // The vendor's cure reaches the clone of the bad version on the sixth night and the others on the eighth.
        if night >= 6 {
            cured_kernel(&mut insides[3]);
        }
        if night >= 8 {
            insides.iter_mut().for_each(cured_kernel);
        }
    });
    let expected = ["2026.11.23", "2026.11.24", "2026.11.25"].map(|day| Some(day.to_owned()));
    assert_eq!(baked[..7], vec![None; 7]);
    assert_eq!(baked[7..], expected);
    let bad_again = fleet.contents.iter().filter(|facts| facts.version != number(BAD) && facts.kernel.contains("1036"));
    assert_eq!(bad_again.count(), 0);
}

#[test]
fn a_package_that_was_taken_back_is_not_baked_until_it_is_cured_though_the_kernel_is_the_same() {
    let mut good = inspection();
    good.packages.insert("curl".into(), "7.57.0".into());
    let mut fleet = Fleet::new(&good, &inspection());
    fleet.roll_back(Some("2026-11-16"));
    let baked = fleet.ten_nights(|night, insides| {
        if night >= 5 {
            insides[1].packages.insert("curl".into(), "7.58.1".into());
        }
    });
    assert_eq!(baked.iter().position(Option::is_some), Some(4));
    let curl = |version: &str| {
        fleet.contents.iter().find(|facts| facts.version == number(version)).map(|facts| facts.packages["curl"].clone())
    };
    assert_eq!(curl("2026.11.20"), Some("7.58.1".into()));
    assert_eq!(baked.iter().flatten().filter(|version| curl(version).as_deref() == Some("7.58.0")).count(), 0);
}
