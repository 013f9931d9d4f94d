use kiln_types::Readiness;
use kiln_types::tags::REJECTED_TAG;

use super::*;
use crate::sample::{definition, exact, excluded, instance, marketplace, node, number, pool, tags, version};

struct World {
    pool: Pool,
    definition: ImageDefinition,
    versions: Vec<ImageVersion>,
    not_proven: BTreeSet<VersionNumber>,
    instances: Vec<Instance>,
    rules: DonorRules,
    node: Node,
}

/// A node that breaks no rule: patched on 15 November; the newest version is from 8 November.
fn world() -> World {
    World {
        pool: pool(),
        definition: definition(),
        versions: vec![version("2026.11.08")],
        not_proven: BTreeSet::new(),
        instances: vec![instance(0, marketplace())],
        rules: DonorRules::new("reboot", "last-patch"),
        node: node(0),
    }
}

fn broken(change: impl FnOnce(&mut World)) -> Vec<IneligibleReason> {
    let mut world = world();
    change(&mut world);
    let input = DonorInput {
        pool: &world.pool,
        instances: &world.instances,
        definition: Some(&world.definition),
        versions: &world.versions,
        not_proven: &world.not_proven,
        own_node: Some("k8s-agentpool1-26100436-vmss00000z"),
        own_run: Some("r9"),
        now: "2026-11-16T00:00:00Z".parse().unwrap(),
    };
    ineligible_reasons(&world.node, &world.rules, input)
}

#[test]
fn eligible_node_breaks_no_rule() {
    assert_eq!(broken(|_| ()), []);
}

#[test]
fn each_rule_of_kamino_is_checked() {
    let annotate = |world: &mut World, key: &str, value: &str| {
        world.node.annotations.insert(key.into(), value.into());
    };
    assert_eq!(broken(|w| w.node.name = "another-vmss000000".parse().unwrap()), [IneligibleReason::OtherPool]);
    assert_eq!(
        broken(|w| {
            w.node = node(35);
            w.instances = vec![instance(35, marketplace())];
        }),
        [IneligibleReason::OwnNode]
    );
    assert_eq!(broken(|w| w.rules.ignore_nodes.push(w.node.name.to_string())), [IneligibleReason::Ignored]);
    assert_eq!(broken(|w| w.node.cordoned = true), [IneligibleReason::Cordoned]);
    assert_eq!(
        broken(|w| _ = w.node.labels.insert("kubernetes.io/role".into(), "master".into())),
        [IneligibleReason::ControlPlane]
    );
    assert_eq!(
        broken(|w| {
            w.rules.ignore_annotations.push("keep-off".into());
            annotate(w, "keep-off", "");
        }),
        [IneligibleReason::IgnoreAnnotation("keep-off".into())]
    );
    assert_eq!(broken(|w| annotate(w, "reboot", "")), [IneligibleReason::PendingReboot]);
    assert_eq!(broken(|w| _ = w.node.annotations.remove("last-patch")), [IneligibleReason::PatchUnknown]);
    assert_eq!(broken(|w| annotate(w, "last-patch", "today")), [IneligibleReason::PatchUnreadable("today".into())]);
    assert_eq!(broken(|w| w.node.readiness = Readiness::Unreported), [IneligibleReason::NotReady]);
    assert_eq!(broken(|w| w.node.heartbeat = None), [IneligibleReason::ReadyUnknown]);
    assert_eq!(
        broken(|w| w.rules.minimum_ready = Span::from_secs(6 * 3600 + 1)),
        [IneligibleReason::ReadyTooShort {
            ready_for: Span::from_secs(6 * 3600),
            minimum: Span::from_secs(6 * 3600 + 1)
        }]
    );
}

#[test]
fn patch_of_a_version_that_is_not_proven_is_used_again() {
    let unproven = |w: &mut World| {
        w.versions.push(excluded("2026.11.16"));
        w.not_proven = [number("2026.11.16")].into();
    };
    assert_eq!(broken(unproven), []);
    let patch_old = |reasons: &[IneligibleReason]| matches!(reasons, [IneligibleReason::PatchOld { .. }]);
    let excluded_by_a_person = broken(|w| w.versions.push(excluded("2026.11.16")));
    assert!(patch_old(&excluded_by_a_person), "{excluded_by_a_person:?}");
    let included_since = broken(|w| {
        unproven(w);
        w.versions[1].excluded = false;
    });
    assert!(patch_old(&included_since), "{included_since:?}");
}

#[test]
fn patch_of_the_same_day_as_the_newest_version_is_too_old() {
    assert!(matches!(broken(|w| w.versions.push(version("2026.11.15")))[..], [IneligibleReason::PatchOld { .. }]));
    assert_eq!(broken(|w| w.versions.push(version("2026.11.14"))), []);
    assert_eq!(broken(|w| w.versions.clear()), []);
    let failed = ImageVersion { state: VersionState::Failed, ..version("2026.11.15") };
    assert_eq!(broken(|w| w.versions.push(failed)), []);
}

#[test]
fn deleted_rejected_version_still_counts_as_the_newest() {
    let old = broken(|w| w.definition.tags = tags([(REJECTED_TAG, "2026.11.15")]));
    assert!(matches!(&old[..], [IneligibleReason::PatchOld { newest, .. }] if *newest == number("2026.11.15")));
}

#[test]
fn date_of_a_patch_is_found_anywhere_in_the_annotation() {
    let day = |text: &str| {
        let mut world = world();
        world.node.annotations.insert("last-patch".into(), text.into());
        patched(&world.node, &world.rules).map(|day| day.to_string())
    };
    assert_eq!(day("reboot needed since 2026-11-15T03:00:00Z"), Some("2026-11-15".into()));
    assert_eq!(day("12026-99-99 2026-11-14"), Some("2026-11-14".into()));
    assert_eq!(day("2026-13-01"), None);
}

#[test]
fn each_rule_of_kiln_is_checked() {
    assert_eq!(broken(|w| w.node.system.operating_system = "windows".into()), [IneligibleReason::Windows]);
    assert_eq!(broken(|w| w.node.provider_id = None), [IneligibleReason::NoProviderId]);
    assert_eq!(broken(|w| w.instances.clear()), [IneligibleReason::NoInstance]);
    assert_eq!(broken(|w| w.node.held_by = Some("r8".into())), [IneligibleReason::HeldBy("r8".into())]);
    assert_eq!(broken(|w| w.node.held_by = Some("r9".into())), []);
    let stopped = broken(|w| w.instances[0].power = PowerState::Stopped);
    assert_eq!(stopped, [IneligibleReason::Instance("its instance is stopped".into())]);
    assert!(matches!(
        broken(|w| w.instances[0].provisioning = Provisioning::Failed)[..],
        [IneligibleReason::Instance(_)]
    ));
}

#[test]
fn descendants_of_a_rejected_version_are_ineligible() {
    let descends = |runs: &str| {
        broken(|w| {
            let mut child = version("2026.11.08");
            child.tags = tags([("kiln-ancestors", "2026.11.01 2026.10.25")]);
            w.versions = vec![excluded("2026.11.01"), child];
            w.instances[0].runs = exact(runs);
        })
    };
    assert_eq!(descends("2026.11.01"), [IneligibleReason::RejectedAncestor(number("2026.11.01"))]);
    assert_eq!(descends("2026.11.08"), [IneligibleReason::RejectedAncestor(number("2026.11.01"))]);
    assert_eq!(descends("2026.10.30"), []);
}

#[test]
fn node_with_a_rejected_kernel_is_ineligible() {
    let same = broken(|w| {
        w.definition.tags =
            tags([(REJECTED_TAG, "2026.11.08"), ("kiln-rejected-01", "2026.11.08 kernel=5.4.0-1036-azure")]);
    });
    assert!(matches!(&same[..], [IneligibleReason::SamePatch(_)]), "{same:?}");
    let other = broken(|w| {
        w.definition.tags =
            tags([(REJECTED_TAG, "2026.11.08"), ("kiln-rejected-01", "2026.11.08 kernel=5.4.0-1034-azure")]);
    });
    assert_eq!(other, []);
}

#[test]
fn all_broken_rules_are_listed() {
    let all = broken(|w| {
        w.node.readiness = Readiness::Unreported;
        w.node.cordoned = true;
    });
    assert_eq!(all, [IneligibleReason::Cordoned, IneligibleReason::NotReady]);
    let text: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(text.join("; "), "cordoned; not Ready");
}

#[test]
fn node_is_ready_from_its_last_transition_to_its_last_heartbeat() {
    let node = node(0);
    assert_eq!(ready_for(&node), Some(Span::from_secs(6 * 3600)));
    assert_eq!(ready_for(&Node { readiness: Readiness::Unreported, ..node.clone() }), None);
    assert_eq!(ready_for(&Node { heartbeat: None, ..node }), None);
}
