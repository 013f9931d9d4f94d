use super::*;
use crate::names::BAD_TAG;
use crate::sample::{exact, excluded, instance, line, marketplace, node, number, pool, tags, version};

struct World {
    pool: Pool,
    line: ImageDefinition,
    versions: Vec<ImageVersion>,
    instances: Vec<Instance>,
    rules: DonorRules,
    node: NodeFacts,
}

/// A node that breaks no rule: patched on 15 November, the newest version is of the eighth.
fn world() -> World {
    World {
        pool: pool(),
        line: line(),
        versions: vec![version("2026.11.08")],
        instances: vec![instance(0, marketplace())],
        rules: DonorRules::new("reboot", "last-patch"),
        node: node(0),
    }
}

fn broken(change: impl FnOnce(&mut World)) -> Vec<WhyNot> {
    let mut world = world();
    change(&mut world);
    let around = Surroundings {
        pool: &world.pool,
        instances: &world.instances,
        line: Some(&world.line),
        versions: &world.versions,
        own_node: Some("k8s-agentpool1-26100436-vmss00000z"),
        own_run: Some("r9"),
        now: "2026-11-16T00:00:00Z".parse().unwrap(),
    };
    judge(&world.node, &world.rules, around)
}

#[test]
fn a_fitting_node_breaks_no_rule() {
    assert_eq!(broken(|_| ()), []);
}

#[test]
fn each_rule_of_kamino_is_broken_by_its_smallest_cause() {
    let annotate = |world: &mut World, key: &str, value: &str| {
        world.node.annotations.insert(key.into(), value.into());
    };
    assert_eq!(broken(|w| w.node.name = "another-vmss000000".into()), [WhyNot::OtherPool]);
    assert_eq!(
        broken(|w| {
            w.node = node(35);
            w.instances = vec![instance(35, marketplace())];
        }),
        [WhyNot::OwnNode]
    );
    assert_eq!(broken(|w| w.rules.ignore_nodes.push(w.node.name.clone())), [WhyNot::Ignored]);
    assert_eq!(broken(|w| w.node.cordoned = true), [WhyNot::Cordoned]);
    assert_eq!(
        broken(|w| _ = w.node.labels.insert("kubernetes.io/role".into(), "master".into())),
        [WhyNot::ControlPlane]
    );
    assert_eq!(
        broken(|w| {
            w.rules.ignore_annotations.push("keep-off".into());
            annotate(w, "keep-off", "");
        }),
        [WhyNot::IgnoreAnnotation("keep-off".into())]
    );
    assert_eq!(broken(|w| annotate(w, "reboot", "")), [WhyNot::PendingReboot]);
    assert_eq!(broken(|w| _ = w.node.annotations.remove("last-patch")), [WhyNot::PatchUnknown]);
    assert_eq!(broken(|w| annotate(w, "last-patch", "today")), [WhyNot::PatchUnreadable("today".into())]);
    assert_eq!(broken(|w| w.node.ready = false), [WhyNot::NotReady]);
    assert_eq!(broken(|w| w.node.heartbeat = None), [WhyNot::ReadyUnknown]);
    assert_eq!(
        broken(|w| w.rules.minimum_ready = Span::from_secs(6 * 3600 + 1)),
        [WhyNot::ReadyTooShort { has: Span::from_secs(6 * 3600), least: Span::from_secs(6 * 3600 + 1) }]
    );
}

#[test]
fn a_patch_of_the_versions_own_day_is_not_later() {
    assert!(matches!(broken(|w| w.versions.push(version("2026.11.15")))[..], [WhyNot::PatchOld { .. }]));
    assert_eq!(broken(|w| w.versions.push(version("2026.11.14"))), []);
    assert_eq!(broken(|w| w.versions.clear()), []);
    let failed = ImageVersion { state: VersionState::Failed, ..version("2026.11.15") };
    assert_eq!(broken(|w| w.versions.push(failed)), []);
}

#[test]
fn a_bad_version_counts_as_the_newest_even_when_it_was_deleted() {
    let old = broken(|w| w.line.tags = tags([(BAD_TAG, "2026.11.15")]));
    assert!(matches!(&old[..], [WhyNot::PatchOld { bar, .. }] if *bar == number("2026.11.15")));
}

#[test]
fn the_day_of_a_patch_is_found_wherever_it_stands() {
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
fn each_rule_of_ours_is_broken_by_its_smallest_cause() {
    assert_eq!(broken(|w| w.node.windows = true), [WhyNot::Windows]);
    assert_eq!(broken(|w| w.node.provider_id = None), [WhyNot::NoProviderId]);
    assert_eq!(broken(|w| w.instances.clear()), [WhyNot::NoInstance]);
    assert_eq!(broken(|w| w.node.held_by = Some("r8".into())), [WhyNot::HeldBy("r8".into())]);
    assert_eq!(broken(|w| w.node.held_by = Some("r9".into())), []);
    let stopped = broken(|w| w.instances[0].power = PowerState::Stopped);
    assert_eq!(stopped, [WhyNot::Instance("its machine is stopped".into())]);
    assert!(matches!(broken(|w| w.instances[0].provisioning = Provisioning::Failed)[..], [WhyNot::Instance(_)]));
}

#[test]
fn a_descendant_of_a_bad_version_is_out_however_far_down() {
    let descends = |runs: &str| {
        broken(|w| {
            let mut child = version("2026.11.08");
            child.tags = tags([("kiln-ancestors", "2026.11.01 2026.10.25")]);
            w.versions = vec![excluded("2026.11.01"), child];
            w.instances[0].runs = exact(runs);
        })
    };
    assert_eq!(descends("2026.11.01"), [WhyNot::BadAncestor(number("2026.11.01"))]);
    assert_eq!(descends("2026.11.08"), [WhyNot::BadAncestor(number("2026.11.01"))]);
    assert_eq!(descends("2026.10.30"), []);
}

#[test]
fn a_node_with_the_kernel_that_was_taken_back_is_out() {
    let same = broken(|w| {
        w.line.tags = tags([(BAD_TAG, "2026.11.08"), ("kiln-bad-01", "2026.11.08 kernel=5.4.0-1036-azure")]);
    });
    assert!(matches!(&same[..], [WhyNot::SamePatch(_)]), "{same:?}");
    let other = broken(|w| {
        w.line.tags = tags([(BAD_TAG, "2026.11.08"), ("kiln-bad-01", "2026.11.08 kernel=5.4.0-1034-azure")]);
    });
    assert_eq!(other, []);
}

#[test]
fn a_node_that_breaks_several_rules_is_told_all_of_them() {
    let all = broken(|w| {
        w.node.ready = false;
        w.node.cordoned = true;
    });
    assert_eq!(all, [WhyNot::Cordoned, WhyNot::NotReady]);
    let text: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(text.join("; "), "cordoned; not Ready");
}
