use kiln_node_plan::{JoinCredential, parse_fstab};
use kiln_types::{Generation, ImageDefinition, ImageVersion, Instance, OsDisk, Plan, Pool, Protection};

use super::*;
use crate::diff::VersionFacts;
use crate::donor::NodeFacts;
use crate::sample::{definition_name, disk, exact, inspection, instance, line, marketplace, node, pool, tags, version};

struct World {
    pool: Pool,
    instance: Option<Instance>,
    disk: Option<OsDisk>,
    node: NodeFacts,
    inside: Result<Inspection, String>,
    lines: Vec<ImageDefinition>,
    versions: Vec<ImageVersion>,
    contents: Vec<VersionFacts>,
    original: Original,
    own_node: String,
    kamino: Vec<String>,
    missing: Vec<String>,
    force: bool,
    allow_empty_pool: bool,
    definition_name: kiln_types::DefinitionName,
}

fn world() -> World {
    World {
        pool: pool(),
        instance: Some(instance(0, marketplace())),
        disk: Some(disk()),
        node: node(0),
        inside: Ok(inspection()),
        lines: vec![line()],
        versions: Vec::new(),
        contents: Vec::new(),
        original: Original::CanBeSaved,
        own_node: "elsewhere".into(),
        kamino: Vec::new(),
        missing: Vec::new(),
        force: false,
        allow_empty_pool: false,
        definition_name: definition_name(),
    }
}

fn verdict(change: impl FnOnce(&mut World)) -> Verdict {
    let mut world = world();
    change(&mut world);
    check(Preflight {
        pool: &world.pool,
        instance: world.instance.as_ref(),
        disk: world.disk.as_ref(),
        node: &world.node,
        inside: world.inside.as_ref().map_err(String::as_str),
        definition_name: &world.definition_name,
        lines: &world.lines,
        versions: &world.versions,
        contents: &world.contents,
        original: &world.original,
        own_node: Some(&world.own_node),
        own_run: Some("r9"),
        kamino: &world.kamino,
        missing: &world.missing,
        force: world.force,
        allow_empty_pool: world.allow_empty_pool,
        today: "2026-11-16".parse().unwrap(),
    })
}

/// The one row that a change brings about.
fn row(change: impl FnOnce(&mut World)) -> Row {
    let verdict = verdict(change);
    assert_eq!(verdict.refusals.len(), 1, "{verdict}");
    verdict.refusals[0].row
}

fn inside(change: impl FnOnce(&mut Inspection)) -> Row {
    row(|world| change(world.inside.as_mut().unwrap()))
}

#[test]
fn a_fitting_donor_is_refused_by_no_row() {
    assert_eq!(verdict(|_| ()), Verdict::default());
    assert_eq!(verdict(|w| w.lines.clear()), Verdict::default());
}

#[test]
fn an_upgrade_policy_other_than_manual_is_refused() {
    assert_eq!(row(|w| w.pool.upgrade_mode = UpgradeMode::Rolling), Row::UpgradePolicy);
    assert_eq!(row(|w| w.pool.upgrade_mode = UpgradeMode::Automatic), Row::UpgradePolicy);
    assert_eq!(row(|w| w.pool.upgrade_mode = UpgradeMode::Other("Daily".into())), Row::UpgradePolicy);
}

#[test]
fn automatic_os_upgrades_are_refused() {
    assert_eq!(row(|w| w.pool.automatic_os_upgrade = true), Row::AutomaticOsUpgrade);
}

#[test]
fn automatic_repairs_are_refused() {
    assert_eq!(row(|w| w.pool.automatic_repairs = true), Row::AutomaticRepairs);
}

#[test]
fn a_flexible_scale_set_is_refused() {
    assert_eq!(row(|w| w.pool.orchestration = Orchestration::Flexible), Row::Flexible);
}

#[test]
fn a_pool_of_aks_is_refused_by_any_of_its_marks() {
    assert_eq!(row(|w| w.pool.tags = tags([("aks-managed-poolName", "np1")])), Row::Managed);
    assert_eq!(row(|w| _ = w.node.labels.insert("kubernetes.azure.com/mode".into(), "user".into())), Row::Managed);
    let cluster = "kubernetes.azure.com/cluster";
    assert_eq!(row(|w| _ = w.node.labels.insert(cluster.into(), "MC_rg_c_westus2".into())), Row::Managed);
}

#[test]
fn a_pool_of_cluster_api_is_refused_by_any_of_its_marks() {
    let tag = "sigs.k8s.io_cluster-api-provider-azure_cluster_c1";
    assert_eq!(row(|w| w.pool.tags = tags([(tag, "owned")])), Row::Managed);
    let annotation = "cluster.x-k8s.io/machine";
    assert_eq!(row(|w| _ = w.node.annotations.insert(annotation.into(), "m".into())), Row::Managed);
    assert!(verdict(|w| _ = w.node.annotations.insert("notcluster.x-k8s.io/x".into(), String::new())).allows());
}

#[test]
fn a_pool_on_hold_is_refused_until_its_day() {
    assert_eq!(row(|w| w.lines[0].tags = tags([("kiln-hold", "because=bad")])), Row::OnHold);
    assert!(verdict(|w| w.lines[0].tags = tags([("kiln-hold", "after=2026-11-16; because=bad")])).allows());
}

#[test]
fn kaminos_own_job_is_refused() {
    assert_eq!(row(|w| w.kamino.push("default/vmss-prototype".into())), Row::Kamino);
}

#[test]
fn a_missing_permission_is_refused_by_its_name() {
    let refused = verdict(|w| w.missing.push("Microsoft.Compute/snapshots/write".into()));
    assert_eq!(refused.refusals[0].row, Row::Permission);
    assert!(refused.to_string().contains("Microsoft.Compute/snapshots/write"), "{refused}");
}

#[test]
fn a_pool_of_one_node_is_refused_unless_it_may_be_empty() {
    assert_eq!(row(|w| w.pool.capacity = 1), Row::PoolOfOne);
    let forced = |allow: bool| {
        verdict(|w| {
            w.pool.capacity = 1;
            w.force = true;
            w.allow_empty_pool = allow;
        })
    };
    assert!(!forced(false).allows());
    assert!(matches!(&forced(true).warnings[..], [Warning::Overridden(refusal)] if refusal.row == Row::PoolOfOne));
}

#[test]
fn a_node_that_is_no_instance_of_the_pool_is_refused() {
    assert_eq!(row(|w| w.instance = None), Row::NotInPool);
}

#[test]
fn a_node_without_a_provider_id_is_refused() {
    assert_eq!(row(|w| w.node.provider_id = None), Row::NoProviderId);
}

#[test]
fn the_node_that_we_run_on_is_refused() {
    assert_eq!(row(|w| w.own_node = w.node.name.clone()), Row::OwnNode);
}

#[test]
fn windows_is_refused_whoever_says_so() {
    assert_eq!(row(|w| w.node.windows = true), Row::Windows);
    assert_eq!(row(|w| w.pool.operating_system = OperatingSystem::Windows), Row::Windows);
}

#[test]
fn a_node_of_the_control_plane_is_refused() {
    let label = "node-role.kubernetes.io/control-plane";
    assert_eq!(row(|w| _ = w.node.labels.insert(label.into(), String::new())), Row::ControlPlane);
}

#[test]
fn a_node_that_is_not_ready_is_refused() {
    assert_eq!(row(|w| w.node.ready = false), Row::NotReady);
}

#[test]
fn a_machine_that_is_not_well_is_refused() {
    assert_eq!(row(|w| w.instance.as_mut().unwrap().power = PowerState::Stopping), Row::Machine);
    assert_eq!(row(|w| w.instance.as_mut().unwrap().provisioning = Provisioning::Failed), Row::Machine);
    let busy = Provisioning::InProgress("Updating".into());
    assert_eq!(row(|w| w.instance.as_mut().unwrap().provisioning = busy), Row::Machine);
    assert!(verdict(|w| w.instance.as_mut().unwrap().protection = Protection::FULL).allows());
}

#[test]
fn a_donor_of_another_run_is_refused_and_our_own_is_not() {
    assert_eq!(row(|w| w.node.held_by = Some("r8".into())), Row::Held);
    assert!(verdict(|w| w.node.held_by = Some("r9".into())).allows());
}

#[test]
fn a_descendant_of_a_bad_version_is_refused() {
    assert_eq!(
        row(|w| {
            let mut child = version("2026.11.08");
            child.tags = tags([("kiln-ancestors", "2026.11.01")]);
            w.versions = vec![child];
            w.lines[0].tags = tags([("kiln-bad", "2026.11.01")]);
            w.instance = Some(instance(0, exact("2026.11.08")));
        }),
        Row::BadAncestor
    );
}

#[test]
fn the_patch_that_was_taken_back_is_refused_unless_forced() {
    let same = |force: bool| {
        verdict(|w| {
            w.force = force;
            w.lines[0].tags = tags([("kiln-bad", "2026.11.08"), ("kiln-bad-01", "2026.11.08 kernel=5.4.0-1036-azure")]);
        })
    };
    assert_eq!(same(false).refusals[0].row, Row::SamePatch);
    assert!(same(true).allows());
}

#[test]
fn a_package_that_was_taken_back_is_found_where_contents_were_kept() {
    let with_curl = |curl: &str| {
        verdict(|w| {
            let facts = |version: &str, curl: &str| {
                let mut inside = inspection();
                inside.packages.insert("curl".into(), curl.into());
                VersionFacts::of(version.parse().unwrap(), &inside)
            };
            w.contents = vec![facts("2026.11.01", "7.57.0"), facts("2026.11.08", "7.58.0")];
            w.lines[0].tags = tags([("kiln-bad", "2026.11.08")]);
            let inside = w.inside.as_mut().unwrap();
            inside.packages.insert("curl".into(), curl.into());
            inside.packages.insert("vim".into(), "8.0".into());
        })
    };
    assert_eq!(with_curl("7.58.0").refusals[0].row, Row::SamePatch);
    assert!(with_curl("7.58.1").allows());
}

#[test]
fn an_ephemeral_os_disk_is_refused() {
    assert_eq!(row(|w| w.pool.ephemeral_os_disk = true), Row::EphemeralDisk);
}

#[test]
fn a_disk_that_cannot_be_read_is_refused() {
    assert_eq!(row(|w| w.disk = None), Row::NoDisk);
}

#[test]
fn a_donor_that_was_not_inspected_is_refused() {
    assert_eq!(row(|w| w.inside = Err("the pod was refused".into())), Row::NotInspected);
}

#[test]
fn a_nearly_full_disk_is_refused() {
    assert_eq!(inside(|i| i.disk.used_bytes = i.disk.size_bytes / 100 * 91), Row::DiskFull);
    assert!(verdict(|w| w.inside.as_mut().unwrap().disk.used_bytes = (30 << 30) / 100 * 90).allows());
}

#[test]
fn a_mount_by_uuid_without_nofail_is_refused() {
    assert_eq!(inside(|i| i.fstab = parse_fstab("UUID=2 /data ext4 defaults 0 2\n")), Row::Fstab);
}

#[test]
fn a_static_address_is_refused() {
    let place = FileLine { path: "/etc/netplan/50.yaml".into(), line: "addresses: [10.0.0.4/24]".into() };
    assert_eq!(inside(|i| i.static_addresses.push(place)), Row::StaticAddress);
}

#[test]
fn the_donors_own_name_in_a_unit_file_is_refused() {
    let place = FileLine { path: "/etc/systemd/system/kubelet.service".into(), line: "--hostname-override=x".into() };
    assert_eq!(inside(|i| i.literal_host_names.push(place)), Row::HostName);
}

#[test]
fn a_credential_that_no_clone_could_join_with_is_refused() {
    let unknown = JoinCredential::Unknown { why: "no kubeconfig".into() };
    assert_eq!(inside(|i| i.join_credential = unknown), Row::JoinCredential);
    let token = JoinCredential::BootstrapToken { token_id: "abcdef".parse().unwrap(), renewed_by: None };
    assert_eq!(inside(|i| i.join_credential = token), Row::JoinCredential);
}

#[test]
fn an_original_recipe_that_cannot_be_kept_needs_consent() {
    let lost = |force: bool| {
        verdict(|w| {
            w.force = force;
            w.original = Original::Lost("its custom data is gone".into());
        })
    };
    assert_eq!(lost(false).refusals[0].row, Row::Original);
    assert!(lost(true).allows());
}

#[test]
fn a_disk_of_another_security_type_than_its_pool_is_refused() {
    assert_eq!(row(|w| w.pool.security_type = SecurityType::TrustedLaunch), Row::SecurityDiffers);
}

#[test]
fn a_security_type_of_which_no_snapshot_makes_an_image_is_refused() {
    assert_eq!(row(|w| w.disk.as_mut().unwrap().security_type = SecurityType::Confidential), Row::SecurityType);
}

#[test]
fn a_plan_that_the_line_lacks_is_refused_and_a_new_line_gets_it() {
    let plan = || Plan { name: "n".into(), publisher: "p".into(), product: "o".into() };
    assert_eq!(row(|w| w.pool.plan = Some(plan())), Row::PurchasePlan);
    let same = verdict(|w| {
        w.pool.plan = Some(plan());
        w.lines[0].plan = Some(plan());
    });
    assert!(same.allows());
    let none_yet = verdict(|w| {
        w.pool.plan = Some(plan());
        w.lines.clear();
    });
    assert!(none_yet.allows());
}

#[test]
fn a_line_that_does_not_fit_is_refused_only_when_no_other_can_be_made() {
    let other = |w: &mut World| w.lines[0].generation = Generation::V2;
    assert!(verdict(other).allows());
    assert_eq!(
        row(|w| {
            other(w);
            let wanted = Wanted::of(w.disk.as_ref().unwrap(), &w.pool);
            let [_, second] = super::super::definition::definition_names(&w.definition_name, &wanted);
            w.lines.push(ImageDefinition { name: second, ..w.lines[0].clone() });
        }),
        Row::Line
    );
}

#[test]
fn a_line_whose_name_would_be_too_long_is_refused() {
    assert_eq!(
        row(|w| {
            w.lines.clear();
            w.definition_name.definition = "k".repeat(81);
        }),
        Row::DefinitionName
    );
}

#[test]
fn force_waves_through_what_others_manage_and_says_so() {
    let forced = verdict(|w| {
        w.force = true;
        w.pool.tags = tags([("aks-managed-poolName", "np1")]);
    });
    assert!(forced.allows());
    let text = forced.to_string();
    assert!(text.starts_with("warning: going on although AKS manages the pool (`aks-managed-poolName`)"), "{text}");
}

#[test]
fn what_does_not_stop_a_run_is_a_warning() {
    let busy = verdict(|w| w.pool.provisioning = Provisioning::InProgress("Updating".into()));
    assert_eq!(busy.warnings, [Warning::PoolBusy("Updating".into())]);
    let bare = verdict(|w| w.inside.as_mut().unwrap().first_boot_unit = None);
    assert_eq!(bare.warnings, [Warning::NoFirstBootUnit]);
}

#[test]
fn all_rows_that_apply_are_named_at_once() {
    let several = verdict(|w| {
        w.node.ready = false;
        w.pool.automatic_repairs = true;
        w.pool.upgrade_mode = UpgradeMode::Rolling;
    });
    let rows: Vec<Row> = several.refusals.iter().map(|refusal| refusal.row).collect();
    assert_eq!(rows, [Row::UpgradePolicy, Row::AutomaticRepairs, Row::NotReady]);
}
