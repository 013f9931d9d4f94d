//! Ten nights after a rollback: no automatic run publishes the same patch again.

use jiff::civil::Date;
use kiln_types::{ImageDefinition, ImageSource, ImageVersion, Inspection, Instance, Node, Pool, VersionNumber};

use super::{RollbackInput, RollbackRequest, RollbackTarget, RollbackWrite, plan_rollback};
use crate::diff::VersionFacts;
use crate::donor::{DonorInput, DonorRules, choose};
use crate::latest::latest;
use crate::preflight::{OriginalState, PreflightInput, check};
use crate::provenance::{Provenance, ancestors_of};
use crate::sample::{definition, definition_name, disk, exact, inspection, instance, node, number, options, pool};

const GOOD: &str = "2026.11.08";
const BAD: &str = "2026.11.15";

/// A pool whose nodes patch themselves every night.
struct Fleet {
    pool: Pool,
    definition: ImageDefinition,
    versions: Vec<ImageVersion>,
    contents: Vec<VersionFacts>,
    instances: Vec<Instance>,
    inspections: Vec<Inspection>,
}

impl Fleet {
    /// Four nodes: three were created from the good version and patched themselves, the last from the bad one.
    fn new(good: &Inspection, bad: &Inspection) -> Self {
        let mut pool = pool();
        pool.recipe.image = ImageSource::Definition(definition_name());
        let mut fleet = Self {
            pool,
            definition: definition(),
            versions: Vec::new(),
            contents: Vec::new(),
            instances: (0..3).map(|id| instance(id, exact(GOOD))).chain([instance(3, exact(BAD))]).collect(),
            inspections: vec![bad.clone(); 4],
        };
        fleet.publish(&number(GOOD), good, &[]);
        fleet.publish(&number(BAD), bad, &[number(GOOD)]);
        fleet
    }

    fn publish(&mut self, number: &VersionNumber, inspection: &Inspection, ancestors: &[VersionNumber]) {
        let at = "2026-11-15T23:00:00Z".parse().unwrap();
        let provenance = Provenance::new("donor", at, inspection, ancestors.to_vec(), "r1", "cron");
        self.versions.push(ImageVersion { tags: provenance.tags(), ..crate::sample::version(number.as_str()) });
        self.contents.push(VersionFacts::new(number.clone(), inspection));
    }

    fn roll_back(&mut self, after: Option<&str>) {
        let request = RollbackRequest {
            protected_settings: kiln_types::ProtectedSettings::default(),
            to: RollbackTarget::Previous,
            delete: false,
            reason: "packets are lost".into(),
            after: after.map(|day| day.parse().unwrap()),
            who: "alice".into(),
            at: "2026-11-16T00:10:00Z".parse().unwrap(),
        };
        let input = RollbackInput {
            pool: &self.pool,
            definition: &self.definition,
            versions: &self.versions,
            instances: &self.instances,
            original_saved: true,
            open_run: None,
        };
        for write in plan_rollback(&request, input).unwrap().writes {
            match write {
                RollbackWrite::Mark(tags) => self.definition.tags.extend(tags),
                RollbackWrite::Exclude(bad) => {
                    self.versions.iter_mut().filter(|v| v.number == bad).for_each(|v| v.excluded = true);
                }
                other => panic!("{other}"),
            }
        }
    }

    /// The version that the automatic run of a night publishes, if any.
    fn night(&mut self, day: Date) -> Option<VersionNumber> {
        let now = jiff::tz::Offset::UTC.to_timestamp(day.at(23, 0, 0, 0)).unwrap();
        let nodes: Vec<Node> = (0..4)
            .zip(&self.inspections)
            .map(|(id, inspection)| {
                let mut node = node(id);
                node.annotations.insert("last-patch".into(), day.to_string());
                node.system.kernel.clone_from(&inspection.kernel);
                node
            })
            .collect();
        let input = DonorInput {
            pool: &self.pool,
            instances: &self.instances,
            definition: Some(&self.definition),
            versions: &self.versions,
            not_proven: &std::collections::BTreeSet::new(),
            own_node: None,
            own_run: None,
            now,
        };
        let choice = choose(&nodes, &DonorRules::new("reboot", "last-patch"), input);
        let is_clear = |at: &usize| {
            check(PreflightInput {
                pool: &self.pool,
                instance: Some(&self.instances[*at]),
                disk: Some(&disk()),
                node: &nodes[*at],
                inspection: Ok(&self.inspections[*at]),
                definition_name: &definition_name(),
                definitions: std::slice::from_ref(&self.definition),
                versions: &self.versions,
                contents: &self.contents,
                original: &OriginalState::Saved,
                canary_secrets: Ok(()),
                own_node: None,
                own_run: None,
                kamino_jobs: &[],
                kured_locks: &[],
                missing_permissions: &[],
                locks: Ok(&[]),
                unknown_regions: &[],
                options: &options(),
                today: day,
            })
            .is_clear()
        };
        let mut candidates = choice.in_order().filter_map(|name| nodes.iter().position(|node| node.name == *name));
        let donor = candidates.find(is_clear)?;
        let ancestors = match &self.instances[donor].runs {
            ImageSource::ExactVersion(_, runs) => ancestors_of(runs, &self.versions),
            other => panic!("{other:?}"),
        };
        let version = crate::names::version_of_day(now);
        let inspection = self.inspections[donor].clone();
        self.publish(&version, &inspection, &ancestors);
        Some(version)
    }

    /// The versions of ten nights. Every night a harmless package is patched on all nodes.
    fn ten_nights(&mut self, mut patch: impl FnMut(u32, &mut Vec<Inspection>)) -> Vec<Option<String>> {
        (1..=10)
            .map(|night| {
                for inspection in &mut self.inspections {
                    inspection.packages.insert("tzdata".into(), format!("2026.{night}"));
                }
                patch(night, &mut self.inspections);
                let day = "2026-11-15".parse::<Date>().unwrap().saturating_add(jiff::Span::new().days(night));
                self.night(day).map(|version| version.to_string())
            })
            .collect()
    }
}

fn old_kernel() -> Inspection {
    let mut inspection = inspection();
    inspection.kernel = "5.4.0-1032-azure".into();
    inspection.packages.insert("linux-image-azure".into(), "5.4.0.1032.34".into());
    inspection
}

fn fixed_kernel(inspection: &mut Inspection) {
    inspection.kernel = "5.4.0-1040-azure".into();
    inspection.packages.insert("linux-image-azure".into(), "5.4.0.1040.42".into());
}

#[test]
fn without_a_rollback_every_night_publishes_a_version() {
    let mut fleet = Fleet::new(&old_kernel(), &inspection());
    assert_eq!(fleet.ten_nights(|_, _| ()).iter().flatten().count(), 10);
}

#[test]
fn paused_pool_publishes_nothing_for_ten_nights() {
    let mut fleet = Fleet::new(&old_kernel(), &inspection());
    fleet.roll_back(None);
    let published = fleet.ten_nights(|night, inspections| {
        if night > 2 {
            inspections.iter_mut().for_each(fixed_kernel);
        }
    });
    assert_eq!(published, vec![None; 10]);
    assert_eq!(latest(&fleet.versions, "westus2").map(|v| v.number.to_string()), Some(GOOD.into()));
}

#[test]
fn rejected_kernel_is_not_published_until_it_is_fixed() {
    let mut fleet = Fleet::new(&old_kernel(), &inspection());
    fleet.roll_back(Some("2026-11-19"));
    let published = fleet.ten_nights(|night, inspections| {
        // The vendor's fix reaches the clone of the rejected version on the sixth night and the others on the eighth.
        if night >= 6 {
            fixed_kernel(&mut inspections[3]);
        }
        if night >= 8 {
            inspections.iter_mut().for_each(fixed_kernel);
        }
    });
    let expected = ["2026.11.23", "2026.11.24", "2026.11.25"].map(|day| Some(day.to_owned()));
    assert_eq!(published[..7], vec![None; 7]);
    assert_eq!(published[7..], expected);
    let repeated = fleet.contents.iter().filter(|facts| facts.version != number(BAD) && facts.kernel.contains("1036"));
    assert_eq!(repeated.count(), 0);
}

#[test]
fn rejected_package_is_not_published_until_it_is_fixed() {
    let mut good = inspection();
    good.packages.insert("curl".into(), "7.57.0".into());
    let mut fleet = Fleet::new(&good, &inspection());
    fleet.roll_back(Some("2026-11-16"));
    let published = fleet.ten_nights(|night, inspections| {
        if night >= 5 {
            inspections[1].packages.insert("curl".into(), "7.58.1".into());
        }
    });
    assert_eq!(published.iter().position(Option::is_some), Some(4));
    let curl = |version: &str| {
        fleet.contents.iter().find(|facts| facts.version == number(version)).map(|facts| facts.packages["curl"].clone())
    };
    assert_eq!(curl("2026.11.20"), Some("7.58.1".into()));
    assert_eq!(published.iter().flatten().filter(|version| curl(version).as_deref() == Some("7.58.0")).count(), 0);
}
