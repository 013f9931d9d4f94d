use kiln_types::{
    CustomData, Extension, Generation, ImageDefinition, ImageVersion, Instance, JoinCredential, Node, OsDisk, Plan,
    Pool, Protection, Readiness, SecretBytes, parse_fstab,
};

use super::*;
use crate::diff::VersionFacts;
use crate::run::RunOptions;
use crate::sample::{
    definition, definition_name, disk, exact, inspection, instance, marketplace, node, options, pool, tags, version,
};

struct World {
    pool: Pool,
    instance: Option<Instance>,
    disk: Option<OsDisk>,
    node: Node,
    inspection: Result<Inspection, String>,
    definitions: Vec<ImageDefinition>,
    versions: Vec<ImageVersion>,
    contents: Vec<VersionFacts>,
    original: OriginalState,
    canary_secrets: Result<(), String>,
    own_node: String,
    kamino: Vec<String>,
    kured: Vec<String>,
    missing: Vec<String>,
    locks: Result<Vec<Lock>, String>,
    unknown_regions: Vec<String>,
    options: RunOptions,
    definition_name: kiln_types::DefinitionName,
}

fn world() -> World {
    World {
        pool: pool(),
        instance: Some(instance(0, marketplace())),
        disk: Some(disk()),
        node: node(0),
        inspection: Ok(inspection()),
        definitions: vec![definition()],
        versions: Vec::new(),
        contents: Vec::new(),
        original: OriginalState::CanBeSaved,
        canary_secrets: Ok(()),
        own_node: "elsewhere".into(),
        kamino: Vec::new(),
        kured: Vec::new(),
        missing: Vec::new(),
        locks: Ok(Vec::new()),
        unknown_regions: Vec::new(),
        options: options(),
        definition_name: definition_name(),
    }
}

fn report(change: impl FnOnce(&mut World)) -> PreflightReport {
    let mut world = world();
    change(&mut world);
    check(PreflightInput {
        pool: &world.pool,
        instance: world.instance.as_ref(),
        disk: world.disk.as_ref(),
        node: &world.node,
        inspection: world.inspection.as_ref().map_err(String::as_str),
        definition_name: &world.definition_name,
        definitions: &world.definitions,
        versions: &world.versions,
        contents: &world.contents,
        original: &world.original,
        canary_secrets: world.canary_secrets.as_ref().copied().map_err(String::as_str),
        own_node: Some(&world.own_node),
        own_run: Some("r9"),
        kamino_jobs: &world.kamino,
        kured_locks: &world.kured,
        missing_permissions: &world.missing,
        locks: world.locks.as_deref().map_err(String::as_str),
        unknown_regions: &world.unknown_regions,
        options: &world.options,
        today: "2026-11-16".parse().unwrap(),
    })
}

/// The only blocker that a change causes.
fn blocker(change: impl FnOnce(&mut World)) -> Kind {
    let report = report(change);
    assert_eq!(report.blockers.len(), 1, "{report}");
    report.blockers[0].kind
}

fn inspection_blocker(change: impl FnOnce(&mut Inspection)) -> Kind {
    blocker(|world| change(world.inspection.as_mut().unwrap()))
}

#[test]
fn suitable_donor_has_no_blockers() {
    assert_eq!(report(|_| ()), PreflightReport::default());
    assert_eq!(report(|w| w.definitions.clear()), PreflightReport::default());
}

#[test]
fn upgrade_policy_other_than_manual_blocks() {
    assert_eq!(blocker(|w| w.pool.upgrade_mode = UpgradeMode::Rolling), Kind::UpgradePolicy);
    assert_eq!(blocker(|w| w.pool.upgrade_mode = UpgradeMode::Automatic), Kind::UpgradePolicy);
    assert_eq!(blocker(|w| w.pool.upgrade_mode = UpgradeMode::Other("Daily".into())), Kind::UpgradePolicy);
}

#[test]
fn automatic_os_upgrades_block() {
    assert_eq!(blocker(|w| w.pool.automatic_os_upgrade = true), Kind::AutomaticOsUpgrade);
}

#[test]
fn automatic_repairs_block() {
    assert_eq!(blocker(|w| w.pool.automatic_repairs = true), Kind::AutomaticRepairs);
}

#[test]
fn flexible_scale_set_blocks() {
    assert_eq!(blocker(|w| w.pool.orchestration = Orchestration::Flexible), Kind::Flexible);
}

#[test]
fn pool_of_aks_is_recognised_by_any_of_its_marks() {
    assert_eq!(blocker(|w| w.pool.tags = tags([("aks-managed-poolName", "np1")])), Kind::Managed);
    assert_eq!(blocker(|w| _ = w.node.labels.insert("kubernetes.azure.com/mode".into(), "user".into())), Kind::Managed);
    let cluster = "kubernetes.azure.com/cluster";
    assert_eq!(blocker(|w| _ = w.node.labels.insert(cluster.into(), "MC_rg_c_westus2".into())), Kind::Managed);
}

#[test]
fn pool_of_cluster_api_is_recognised_by_any_of_its_marks() {
    let tag = "sigs.k8s.io_cluster-api-provider-azure_cluster_c1";
    assert_eq!(blocker(|w| w.pool.tags = tags([(tag, "owned")])), Kind::Managed);
    let annotation = "cluster.x-k8s.io/machine";
    assert_eq!(blocker(|w| _ = w.node.annotations.insert(annotation.into(), "m".into())), Kind::Managed);
    assert!(report(|w| _ = w.node.annotations.insert("notcluster.x-k8s.io/x".into(), String::new())).is_clear());
}

#[test]
fn todays_version_of_another_node_blocks_unless_it_is_replaced() {
    let of = |source: &'static str| {
        move |w: &mut World| {
            w.versions = vec![version("2026.11.16")];
            w.versions[0].tags = tags([("BuiltFrom", source)]);
        }
    };
    assert_eq!(blocker(of("another-node")), Kind::OtherDonor);
    let own: &'static str = Box::leak(node(0).name.to_string().to_uppercase().into_boxed_str());
    assert!(report(of(own)).is_clear(), "names of nodes are compared without case");
    assert!(report(|w| (of("another-node")(w), w.options.replace_today = true).0).is_clear());
    assert!(report(|w| (of("another-node")(w), w.versions[0].state = VersionState::Failed).0).is_clear());
    assert!(report(|w| w.versions = vec![version("2026.11.15")]).is_clear(), "a version of another day");
}

#[test]
fn paused_pool_blocks_until_its_day() {
    assert_eq!(blocker(|w| w.definitions[0].tags = tags([("kiln-paused", "because=bad")])), Kind::Paused);
    assert!(report(|w| w.definitions[0].tags = tags([("kiln-paused", "after=2026-11-16; because=bad")])).is_clear());
}

#[test]
fn lock_of_kured_blocks() {
    assert_eq!(blocker(|w| w.kured.push("kured is rebooting node `n`".into())), Kind::Kured);
}

#[test]
fn running_kamino_job_blocks() {
    assert_eq!(blocker(|w| w.kamino.push("default/vmss-prototype".into())), Kind::Kamino);
}

#[test]
fn missing_permission_blocks_and_is_named() {
    let blocked = report(|w| w.missing.push("Microsoft.Compute/snapshots/write".into()));
    assert_eq!(blocked.blockers[0].kind, Kind::Permission);
    assert!(blocked.to_string().contains("Microsoft.Compute/snapshots/write"), "{blocked}");
}

#[test]
fn pool_of_one_node_blocks_without_consent() {
    assert_eq!(blocker(|w| w.pool.capacity = 1), Kind::PoolOfOne);
    let forced = |allow: bool| {
        report(|w| {
            w.pool.capacity = 1;
            w.options.force = true;
            w.options.allow_empty_pool = allow;
        })
    };
    assert!(!forced(false).is_clear());
    assert!(matches!(&forced(true).warnings[..], [Warning::Accepted(blocker)] if blocker.kind == Kind::PoolOfOne));
}

#[test]
fn only_node_of_a_pool_with_automatic_repairs_can_be_a_running_donor() {
    let alone = |live: bool| {
        report(|w| {
            (w.pool.capacity, w.pool.automatic_repairs) = (1, true);
            w.options.live = live;
        })
    };
    assert_eq!(alone(false).blockers.len(), 2);
    assert!(alone(true).is_clear());
}

#[test]
fn node_without_an_instance_in_the_pool_blocks() {
    assert_eq!(blocker(|w| w.instance = None), Kind::NotInPool);
}

#[test]
fn node_without_a_provider_id_blocks() {
    assert_eq!(blocker(|w| w.node.provider_id = None), Kind::NoProviderId);
}

#[test]
fn own_node_blocks() {
    assert_eq!(blocker(|w| w.own_node = w.node.name.to_string()), Kind::OwnNode);
}

#[test]
fn windows_node_and_windows_pool_block() {
    assert_eq!(blocker(|w| w.node.system.operating_system = "windows".into()), Kind::Windows);
    assert_eq!(blocker(|w| w.pool.operating_system = OperatingSystem::Windows), Kind::Windows);
}

#[test]
fn donor_with_patches_that_wait_for_a_reboot_blocks() {
    let required = Some(vec!["libc6".into()]);
    assert_eq!(inspection_blocker(|donor| donor.reboot_required = required), Kind::PendingReboot);
    let newer = "5.4.0-1103-azure";
    assert_eq!(inspection_blocker(|donor| donor.installed_kernels.push(newer.into())), Kind::PendingReboot);
}

#[test]
fn donor_with_another_runtime_than_containerd_blocks() {
    assert_eq!(blocker(|w| w.node.system.runtime = "docker://19.3.14".into()), Kind::Runtime);
    assert_eq!(inspection_blocker(|donor| donor.runtime_version = "docker://19.3.14".into()), Kind::Runtime);
    assert!(report(|w| w.inspection.as_mut().unwrap().runtime_version = "unknown".into()).is_clear());
}

#[test]
fn donor_with_a_fixed_node_ip_blocks() {
    let line = FileLine { path: "/etc/default/kubelet".into(), line: "--node-ip=10.0.0.4".into() };
    assert_eq!(inspection_blocker(|donor| donor.node_ips = vec![line]), Kind::NodeIp);
}

#[test]
fn script_extension_whose_protected_settings_are_not_known_blocks() {
    let script = |w: &mut World| {
        w.pool.recipe.extensions = vec![Extension {
            name: "vmssCSE".into(),
            publisher: "Microsoft.Azure.Extensions".into(),
            kind: "CustomScript".into(),
            may_have_hidden_settings: true,
            ..Extension::default()
        }];
        w.options.protected_settings_of.clear();
    };
    let blocked = report(script);
    assert_eq!(blocked.blockers[0].kind, Kind::ProtectedSettings);
    assert!(blocked.to_string().contains("extension `vmssCSE`"), "{blocked}");
    let accepted = report(|w| {
        script(w);
        w.options.no_original = true;
    });
    assert!(accepted.is_clear() && matches!(&accepted.warnings[..], [Warning::Accepted(_)]), "{accepted:?}");
    let given = |change: &dyn Fn(&mut World)| {
        report(|w| {
            script(w);
            change(w);
        })
    };
    assert!(given(&|w| w.options.protected_settings_of = ["VMSScse".to_owned()].into()).is_clear());
    let vault = r#"{"protectedSettingsFromKeyVault":{"secretUrl":"u"}}"#;
    assert!(given(&|w| w.pool.recipe.extensions[0].others = Some(vault.into())).is_clear());
    assert!(given(&|w| w.pool.recipe.extensions[0].kind = "AADSSHLoginForLinux".into()).is_clear());
}

#[test]
fn control_plane_node_blocks() {
    let label = "node-role.kubernetes.io/control-plane";
    assert_eq!(blocker(|w| _ = w.node.labels.insert(label.into(), String::new())), Kind::ControlPlane);
}

#[test]
fn node_that_is_not_ready_blocks() {
    assert_eq!(blocker(|w| w.node.readiness = Readiness::Unreported), Kind::NotReady);
}

#[test]
fn instance_that_is_not_running_or_changing_blocks() {
    assert_eq!(blocker(|w| w.instance.as_mut().unwrap().power = PowerState::Stopping), Kind::Instance);
    assert_eq!(blocker(|w| w.instance.as_mut().unwrap().provisioning = Provisioning::Failed), Kind::Instance);
    let busy = Provisioning::InProgress("Updating".into());
    assert_eq!(blocker(|w| w.instance.as_mut().unwrap().provisioning = busy), Kind::Instance);
    assert!(report(|w| w.instance.as_mut().unwrap().protection = Protection::FULL).is_clear());
}

#[test]
fn hold_of_another_run_blocks_and_the_own_does_not() {
    assert_eq!(blocker(|w| w.node.held_by = Some("r8".into())), Kind::Held);
    assert!(report(|w| w.node.held_by = Some("r9".into())).is_clear());
}

#[test]
fn descendant_of_a_rejected_version_blocks() {
    assert_eq!(
        blocker(|w| {
            let mut child = version("2026.11.08");
            child.tags = tags([("kiln-ancestors", "2026.11.01")]);
            w.versions = vec![child];
            w.definitions[0].tags = tags([("kiln-rejected", "2026.11.01")]);
            w.instance = Some(instance(0, exact("2026.11.08")));
        }),
        Kind::RejectedAncestor
    );
}

#[test]
fn rejected_patch_blocks_without_consent() {
    let same = |allow: bool| {
        report(|w| {
            w.options.force = true;
            w.options.allow_rejected_patch = allow;
            w.definitions[0].tags =
                tags([("kiln-rejected", "2026.11.08"), ("kiln-rejected-01", "2026.11.08 kernel=5.4.0-1036-azure")]);
        })
    };
    assert_eq!(same(false).blockers[0].kind, Kind::SamePatch);
    assert!(same(true).is_clear());
}

#[test]
fn rejected_package_is_found_in_stored_contents() {
    let with_curl = |curl: &str| {
        report(|w| {
            let facts = |version: &str, curl: &str| {
                let mut inspection = inspection();
                inspection.packages.insert("curl".into(), curl.into());
                VersionFacts::new(version.parse().unwrap(), &inspection)
            };
            w.contents = vec![facts("2026.11.01", "7.57.0"), facts("2026.11.08", "7.58.0")];
            w.definitions[0].tags = tags([("kiln-rejected", "2026.11.08")]);
            let inspection = w.inspection.as_mut().unwrap();
            inspection.packages.insert("curl".into(), curl.into());
            inspection.packages.insert("vim".into(), "8.0".into());
        })
    };
    assert_eq!(with_curl("7.58.0").blockers[0].kind, Kind::SamePatch);
    assert!(with_curl("7.58.1").is_clear());
}

#[test]
fn ephemeral_os_disk_blocks() {
    assert_eq!(blocker(|w| w.pool.ephemeral_os_disk = true), Kind::EphemeralDisk);
}

#[test]
fn unreadable_disk_blocks() {
    assert_eq!(blocker(|w| w.disk = None), Kind::NoDisk);
}

#[test]
fn failed_inspection_blocks() {
    assert_eq!(blocker(|w| w.inspection = Err("the pod was refused".into())), Kind::NotInspected);
}

#[test]
fn nearly_full_disk_blocks() {
    assert_eq!(inspection_blocker(|i| i.disk.used_bytes = i.disk.size_bytes / 100 * 91), Kind::DiskFull);
    assert!(report(|w| w.inspection.as_mut().unwrap().disk.used_bytes = (30 << 30) / 100 * 90).is_clear());
}

#[test]
fn mount_by_uuid_without_nofail_blocks() {
    assert_eq!(inspection_blocker(|i| i.fstab = parse_fstab("UUID=2 /data ext4 defaults 0 2\n")), Kind::Fstab);
}

#[test]
fn static_address_blocks() {
    let place = FileLine { path: "/etc/netplan/50.yaml".into(), line: "addresses: [10.0.0.4/24]".into() };
    assert_eq!(inspection_blocker(|i| i.static_addresses.push(place)), Kind::StaticAddress);
}

#[test]
fn own_name_in_a_unit_file_blocks() {
    let place = FileLine { path: "/etc/systemd/system/kubelet.service".into(), line: "--hostname-override=x".into() };
    assert_eq!(inspection_blocker(|i| i.literal_host_names.push(place)), Kind::HostName);
}

#[test]
fn unusable_join_credential_blocks() {
    let unknown = JoinCredential::Unknown { why: "no kubeconfig".into() };
    assert_eq!(inspection_blocker(|i| i.join_credential = unknown), Kind::JoinCredential);
    let token = JoinCredential::BootstrapToken { token_id: "abcdef".parse().unwrap(), renewed_by: None };
    assert_eq!(inspection_blocker(|i| i.join_credential = token), Kind::JoinCredential);
}

/// A worker after `kubeadm join`.
fn kubeadm(world: &mut World) {
    let inspection = world.inspection.as_mut().unwrap();
    inspection.join_credential = JoinCredential::NodeCertificate { path: "/etc/kubernetes/kubelet.conf".into() };
    inspection.custom_data = CustomData::found(SecretBytes::new("#cloud-config\nruncmd: [kubeadm join]\n"));
}

#[test]
fn canary_that_joins_by_the_recipe_needs_its_secrets() {
    assert!(report(kubeadm).is_clear());
    let missing = |world: &mut World| {
        kubeadm(world);
        world.canary_secrets = Err("Azure does not return its custom data".into());
    };
    assert_eq!(blocker(missing), Kind::CanarySecrets);
    let without_canary = |world: &mut World| {
        missing(world);
        world.options.canary = false;
    };
    assert!(report(without_canary).is_clear());
    assert!(report(|w| w.canary_secrets = Err("unused".into())).is_clear());
}

#[test]
fn recipe_that_stays_in_the_model_needs_no_copy() {
    let lost = |world: &mut World| {
        kubeadm(world);
        world.original = OriginalState::Lost("its custom data cannot be read".into());
    };
    assert!(report(lost).is_clear());
}

#[test]
fn lost_original_recipe_needs_consent() {
    let lost = |consent: bool| {
        report(|w| {
            w.options.force = true;
            w.options.no_original = consent;
            w.original = OriginalState::Lost("its custom data is gone".into());
        })
    };
    assert_eq!(lost(false).blockers[0].kind, Kind::Original);
    assert!(lost(true).is_clear());
}

#[test]
fn locks_block_and_are_named() {
    let lock = || Lock { name: "keep".into(), level: "CanNotDelete".into(), scope: "/subscriptions/s".into() };
    let locked = report(|w| w.locks = Ok(vec![lock()]));
    assert_eq!(locked.blockers[0].kind, Kind::Locked);
    assert_eq!(locked.blockers[0].found, "CanNotDelete lock `keep` on `/subscriptions/s`");
}

#[test]
fn locks_that_cannot_be_read_are_a_warning() {
    let unread = report(|w| w.locks = Err("403 AuthorizationFailed".into()));
    assert!(unread.is_clear());
    assert_eq!(unread.warnings, [Warning::LocksUnread("403 AuthorizationFailed".into())]);
}

#[test]
fn disk_encrypted_by_an_extension_blocks() {
    assert_eq!(blocker(|w| w.disk.as_mut().unwrap().encrypted_by_extension = true), Kind::DiskEncryption);
    assert!(report(|w| w.disk.as_mut().unwrap().encryption_set = Some("/set".into())).is_clear());
}

#[test]
fn definition_without_nvme_blocks_a_pool_with_nvme_only_if_no_other_can_be_created() {
    let nvme = |w: &mut World| w.pool.size = "Standard_D8s_v6".into();
    assert!(report(nvme).is_clear(), "a second definition is created");
    let blocked = report(|w| {
        nvme(w);
        let wanted = DefinitionRequirements::new(w.disk.as_ref().unwrap(), &w.pool);
        let [_, second] = super::super::definition::definition_names(&w.definition_name, &wanted);
        w.definitions.push(ImageDefinition { name: second, ..w.definitions[0].clone() });
    });
    assert_eq!(blocked.blockers[0].kind, Kind::Definition);
    assert!(blocked.blockers[0].found.contains("no NVMe in its feature DiskControllerTypes"), "{blocked}");
}

#[test]
fn different_security_types_of_disk_and_pool_block() {
    assert_eq!(blocker(|w| w.pool.security_type = SecurityType::TrustedLaunch), Kind::SecurityDiffers);
}

#[test]
fn security_type_without_snapshot_support_blocks() {
    assert_eq!(blocker(|w| w.disk.as_mut().unwrap().security_type = SecurityType::Confidential), Kind::SecurityType);
}

#[test]
fn purchase_plan_must_match_an_existing_definition() {
    let plan = || Plan { name: "n".into(), publisher: "p".into(), product: "o".into() };
    assert_eq!(blocker(|w| w.pool.plan = Some(plan())), Kind::PurchasePlan);
    let same = report(|w| {
        w.pool.plan = Some(plan());
        w.definitions[0].plan = Some(plan());
    });
    assert!(same.is_clear());
    let none_yet = report(|w| {
        w.pool.plan = Some(plan());
        w.definitions.clear();
    });
    assert!(none_yet.is_clear());
}

#[test]
fn mismatched_definition_blocks_only_if_no_other_can_be_created() {
    let other = |w: &mut World| w.definitions[0].generation = Generation::V2;
    assert!(report(other).is_clear());
    assert_eq!(
        blocker(|w| {
            other(w);
            let wanted = DefinitionRequirements::new(w.disk.as_ref().unwrap(), &w.pool);
            let [_, second] = super::super::definition::definition_names(&w.definition_name, &wanted);
            w.definitions.push(ImageDefinition { name: second, ..w.definitions[0].clone() });
        }),
        Kind::Definition
    );
}

#[test]
fn too_long_definition_name_blocks() {
    assert_eq!(
        blocker(|w| {
            w.definitions.clear();
            w.definition_name.definition = "k".repeat(81);
        }),
        Kind::DefinitionName
    );
}

#[test]
fn consent_accepts_a_managed_pool_with_a_warning() {
    let managed = |allow: bool| {
        report(|w| {
            w.options.force = true;
            w.options.allow_managed_pool = allow;
            w.pool.tags = tags([("aks-managed-poolName", "np1")]);
        })
    };
    assert_eq!(managed(false).blockers[0].kind, Kind::Managed);
    assert!(managed(true).is_clear());
    let text = managed(true).to_string();
    assert!(text.starts_with("warning: accepted: AKS manages the pool (`aks-managed-poolName`)"), "{text}");
}

#[test]
fn busy_pool_and_missing_unit_are_warnings() {
    let busy = report(|w| w.pool.provisioning = Provisioning::InProgress("Updating".into()));
    assert_eq!(busy.warnings, [Warning::PoolBusy("Updating".into())]);
    let bare = report(|w| w.inspection.as_mut().unwrap().first_boot_unit = None);
    assert_eq!(bare.warnings, [Warning::NoFirstBootUnit]);
}

#[test]
fn all_blockers_are_reported_at_once() {
    let several = report(|w| {
        w.node.readiness = Readiness::Unreported;
        w.pool.automatic_repairs = true;
        w.pool.upgrade_mode = UpgradeMode::Rolling;
    });
    let kinds: Vec<Kind> = several.blockers.iter().map(|blocker| blocker.kind).collect();
    assert_eq!(kinds, [Kind::UpgradePolicy, Kind::AutomaticRepairs, Kind::NotReady]);
}
