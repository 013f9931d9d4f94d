//! Each operation, once and repeated.

use std::fs;

use crate::support::{
    Setup, canary, files_on, gallery, id, image_definition, line, machine_name, machine_spec, pool, pool_spec,
    publication, snapshot_request, version_of, with_pool, with_version,
};
use kiln_local::{DiskPath, Error, Local, MachineKey, MachineKind, MachineRunner, QemuImg, Store};
use kiln_types::{
    ErrorClass, Factory, FactoryError, ImageSource, MachineState, Machines, OperationHandle, OperationState, PowerDown,
    PowerState, Protection, Provisioning, RecipeChange, SavedExtension, Secret, SecretBytes, Tags,
};

fn key(text: &str) -> MachineKey {
    text.parse().unwrap()
}

#[tokio::test]
async fn new_pool_has_running_machines_whose_node_names_identify_them() {
    let setup = Setup::new();
    let local = setup.process();
    let read = with_pool(&local, &setup.base()).await.unwrap();
    assert_eq!((read.capacity, read.provisioning), (2, Provisioning::Succeeded));
    let instances = local.instances(&pool()).await.unwrap();
    let names: Vec<&str> = instances.iter().map(|instance| instance.node_name.as_str()).collect();
    assert_eq!(names, ["workers000000", "workers000001"]);
    for instance in &instances {
        let found = kiln_types::instance_from_node_name(&instance.node_name).unwrap();
        assert_eq!(found, (pool(), instance.id.clone()));
        assert_eq!((instance.power, &instance.provisioning), (PowerState::Running, &Provisioning::Succeeded));
        assert!(instance.latest_model);
    }
    assert_ne!(instances[0].vm_id, instances[1].vm_id);
    let numbers: Vec<u16> = local.machines().await.unwrap().iter().map(|machine| machine.number).collect();
    assert_eq!(numbers, [1, 2]);
    let config = local.machine_config(&key("workers_0")).await.unwrap();
    assert_eq!(config.custom_data.as_ref().map(Secret::expose), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));

    local.create_pool(&pool_spec(2)).await.unwrap();
    assert_eq!(local.instances(&pool()).await.unwrap(), instances);
}

#[tokio::test]
async fn pool_with_invalid_node_names_is_refused() {
    let setup = Setup::new();
    let local = setup.process();
    local.import_image("debian", MachineKind::Nspawn, &setup.base()).await.unwrap();
    for name in ["Workers".to_owned(), "a_b".to_owned(), "p".repeat(58)] {
        let spec = kiln_local::PoolSpec { name: name.parse().unwrap(), ..pool_spec(1) };
        assert!(matches!(local.create_pool(&spec).await, Err(Error::Invalid { .. })), "{name}");
    }
    assert!(local.pools().await.unwrap().is_empty());
}

#[tokio::test]
async fn snapshot_is_not_changed_by_the_donor_or_its_clones() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    let donor = local.describe_instance(&pool(), &id(0)).await.unwrap();
    let request = snapshot_request("c1", &donor);

    let running = local.snapshot_os_disk(&request).await.unwrap_err();
    assert!(matches!(running, Error::Running { .. }), "{running}");
    assert_eq!(running.class(), ErrorClass::Refused);
    assert_eq!(local.find_snapshot(&request.name).await.unwrap(), None);

    for _ in 0..2 {
        let handle = local.power_off(&pool(), &id(0), PowerDown::KeepHardware).await.unwrap();
        assert_eq!(local.observe(&handle).await.unwrap(), OperationState::Succeeded);
    }
    assert_eq!(local.describe_instance(&pool(), &id(0)).await.unwrap().power, PowerState::Stopped);
    let before = files_on(&local.machine_config(&key("workers_0")).await.unwrap().disk);
    for _ in 0..2 {
        local.snapshot_os_disk(&request).await.unwrap();
    }
    let snapshot = local.find_snapshot(&request.name).await.unwrap().unwrap();
    assert_eq!((snapshot.source, snapshot.tags), (donor.os_disk.clone(), request.tags.clone()));
    assert_eq!(fs::read_dir(setup.state().join("layers")).unwrap().count(), 3);

    let other = local.describe_instance(&pool(), &id(1)).await.unwrap();
    let taken = local.snapshot_os_disk(&snapshot_request("c1", &other)).await.unwrap_err();
    assert!(taken.precondition(), "{taken}");

    local.start(&pool(), &id(0)).await.unwrap();
    local.create_gallery(&gallery()).await.unwrap();
    local.create_definition(&image_definition()).await.unwrap();
    local.publish(&publication("c1", "1.0.0")).await.unwrap();
    local.publish(&publication("c1", "1.0.0")).await.unwrap();
    local.delete_snapshot(&request.name).await.unwrap();
    local.delete_snapshot(&request.name).await.unwrap();
    local.create_canary(&canary("1.0.0")).await.unwrap();
    local.create_canary(&canary("1.0.0")).await.unwrap();
    let mut clone = files_on(&local.machine_config(&key("kiln-canary-r1_0")).await.unwrap().disk);
    assert!(clone.remove("booted-kiln-canary-r1_0").is_some());
    assert_eq!(clone, before, "the clone has later changes of the donor");
    let donor = files_on(&local.machine_config(&key("workers_0")).await.unwrap().disk);
    assert!(!donor.contains_key("booted-kiln-canary-r1_0") && donor != before);
}

/// Creates empty files instead of qcow2 files.
const FAKE_QEMU_IMG: &str = "shift $(($# - 1)); touch \"$1\"";

#[tokio::test]
async fn running_virtual_machine_is_switched_to_a_new_layer_and_keeps_running() {
    let setup = Setup::new();
    let mut options = crate::support::options();
    options.qemu_img = QemuImg::new(["sh", "-c", FAKE_QEMU_IMG, "qemu-img"]);
    let local = Local::new(Store::open(&setup.state()).unwrap(), setup.runner.clone(), options);
    let base = setup.base().join("base.raw");
    fs::write(&base, "disk").unwrap();
    local.import_image("debian", MachineKind::Qemu, &base).await.unwrap();
    local.create_pool(&pool_spec(2)).await.unwrap();
    let (donor, name) = (local.describe_instance(&pool(), &id(0)).await.unwrap(), key("workers_0"));
    let before = setup.runner.disk(&name).unwrap();

    // QEMU refuses: the machine continues on its old layer, and nothing claims to be its snapshot.
    setup.runner.break_machine(Some(name.clone()));
    let request = snapshot_request("c1", &donor);
    let refused = local.snapshot_os_disk(&request).await.unwrap_err();
    assert!(refused.to_string().contains("switch the disk"), "{refused}");
    assert_eq!(local.find_snapshot(&request.name).await.unwrap(), None);
    assert_eq!(setup.runner.disk(&name).unwrap(), before);
    setup.runner.break_machine(None);

    for _ in 0..2 {
        local.snapshot_os_disk(&request).await.unwrap();
    }
    let now = setup.runner.disk(&name).unwrap();
    assert!(setup.runner.on().contains(&name) && now != before);
    assert_eq!(local.machine_config(&name).await.unwrap().disk, now, "a restart continues on the same layer");
    let snapshot = local.find_snapshot(&request.name).await.unwrap().unwrap();
    assert_eq!((snapshot.source, snapshot.tags), (donor.os_disk.clone(), request.tags.clone()));
    local.delete_snapshot(&request.name).await.unwrap();
    let DiskPath::Qcow2(file) = now else { panic!("not a qcow2 file") };
    assert!(file.exists(), "the layer in use was removed");
}

#[tokio::test]
async fn layer_is_removed_with_its_last_reference() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    let layers = || fs::read_dir(setup.state().join("layers")).unwrap().count();
    assert_eq!(layers(), 2);
    let donor = local.describe_instance(&pool(), &id(0)).await.unwrap();
    local.power_off(&pool(), &id(0), PowerDown::KeepHardware).await.unwrap();
    local.snapshot_os_disk(&snapshot_request("c1", &donor)).await.unwrap();
    assert_eq!(layers(), 3, "the donor has a new top layer");
    local.remove_instances(&pool(), &[id(0)]).await.unwrap();
    assert_eq!(layers(), 2, "only the snapshot refers to the old layer");
    local.create_gallery(&gallery()).await.unwrap();
    local.create_definition(&image_definition()).await.unwrap();
    local.publish(&publication("c1", "1.0.0")).await.unwrap();
    local.delete_snapshot(&"c1".parse().unwrap()).await.unwrap();
    assert_eq!(layers(), 2, "only the version refers to it");
    local.create_canary(&canary("1.0.0")).await.unwrap();
    local.delete_version(&line(), &"1.0.0".parse().unwrap()).await.unwrap();
    assert_eq!(layers(), 3, "the canary refers to it");
    local.delete_canary(&canary("1.0.0").name).await.unwrap();
    assert_eq!(layers(), 1);
    local.delete_pool(&pool()).await.unwrap();
    assert_eq!(layers(), 0);
    assert!(setup.runner.on().is_empty());
    assert_eq!(fs::read_dir(setup.state().join("trash")).unwrap().count(), 0);
}

#[tokio::test]
async fn latest_skips_excluded_versions() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    with_version(&local, "1.0.0").await.unwrap();
    let to_definition = RecipeChange { image: Some(ImageSource::Definition(line())), custom_data: None };
    let revision = async || local.describe_pool(&pool()).await.unwrap().revision.unwrap();
    let refused = local.set_recipe(&pool(), &to_definition, &revision().await).await.unwrap_err();
    assert!(matches!(refused, Error::NothingIncluded { .. }), "{refused}");

    for _ in 0..2 {
        local.set_excluded(&line(), &"1.0.0".parse().unwrap(), false).await.unwrap();
    }
    local.set_recipe(&pool(), &to_definition, &revision().await).await.unwrap();
    with_version(&local, "1.0.1").await.unwrap();
    let read = local.describe_pool(&pool()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
    let instances = local.instances(&pool()).await.unwrap();
    let runs: Vec<(String, bool)> = instances.iter().map(|i| (version_of(&i.runs), i.latest_model)).collect();
    assert_eq!(runs[2], ("1.0.0".to_owned(), true));
    assert!(!runs[0].1 && !runs[1].1, "{runs:?}");
    let numbers: Vec<String> =
        local.versions(&line()).await.unwrap().iter().map(|version| version.number.to_string()).collect();
    assert_eq!(numbers, ["1.0.0", "1.0.1"]);
}

#[tokio::test]
async fn change_based_on_an_older_revision_is_refused() {
    let setup = Setup::new();
    let local = setup.process();
    let read = with_pool(&local, &setup.base()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
    let again = local.add_instances(&read, 1).await.unwrap_err();
    assert!(again.precondition(), "{again}");
    assert!(local.tag_pool(&read, &Tags::new()).await.unwrap_err().precondition());
    let change = RecipeChange { image: None, custom_data: Some(Secret::new("other")) };
    let stale = local.set_recipe(&pool(), &change, read.revision.as_ref().unwrap()).await.unwrap_err();
    assert!(stale.precondition(), "{stale}");
    assert_eq!(local.describe_pool(&pool()).await.unwrap().capacity, 3);
    assert_eq!(setup.runner.on().len(), 3);

    let seen = local.describe_instance(&pool(), &id(0)).await.unwrap();
    local.set_protection(&pool(), &seen, Protection::FULL).await.unwrap();
    let protected = local.describe_instance(&pool(), &id(0)).await.unwrap();
    assert_eq!(protected.protection, Protection::FULL);
    local.set_protection(&pool(), &seen, Protection::FULL).await.unwrap();
    assert_eq!(local.describe_instance(&pool(), &id(0)).await.unwrap(), protected);
    let stale = local.set_protection(&pool(), &seen, Protection::NONE).await.unwrap_err();
    assert!(stale.precondition(), "{stale}");
    assert!(!local.restore_protection(&pool(), &id(0), "another machine", Protection::NONE).await.unwrap());
    assert!(local.restore_protection(&pool(), &id(0), &seen.vm_id, Protection::NONE).await.unwrap());
    assert_eq!(local.describe_instance(&pool(), &id(0)).await.unwrap().protection, Protection::NONE);
}

#[tokio::test]
async fn removed_instance_reduces_the_capacity_and_its_number_is_not_reused() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    for _ in 0..2 {
        local.remove_instances(&pool(), &[id(1)]).await.unwrap();
        assert_eq!(local.describe_pool(&pool()).await.unwrap().capacity, 1);
    }
    let read = local.describe_pool(&pool()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
    let ids: Vec<String> = local.instances(&pool()).await.unwrap().iter().map(|i| i.id.to_string()).collect();
    assert_eq!(ids, ["0", "2"]);
    assert!(local.describe_instance(&pool(), &id(1)).await.unwrap_err().not_found());
    assert!(local.start(&pool(), &id(1)).await.unwrap_err().not_found());
}

#[tokio::test]
async fn machine_is_in_creation_until_it_has_started() {
    let setup = Setup::new();
    let local = setup.process();
    local.import_image("debian", MachineKind::Nspawn, &setup.base()).await.unwrap();
    setup.runner.break_machine(Some(key("workers_0")));
    let failed = local.create_pool(&pool_spec(2)).await.unwrap_err();
    assert!(failed.retryable(), "{failed}");
    let read = local.describe_pool(&pool()).await.unwrap();
    assert_eq!(read.provisioning, Provisioning::InProgress("Updating".into()));
    let made: Vec<Provisioning> =
        local.instances(&pool()).await.unwrap().into_iter().map(|instance| instance.provisioning).collect();
    assert_eq!(
        made,
        [Provisioning::InProgress("Creating".into()), Provisioning::Succeeded],
        "the other machine was started"
    );
    setup.runner.break_machine(None);
    assert_eq!(local.describe_pool(&pool()).await.unwrap().provisioning, Provisioning::Succeeded);
    assert_eq!(setup.runner.on().len(), 2);
}

#[tokio::test]
async fn pool_in_deletion_cannot_be_created_again() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    setup.runner.break_machine(Some(key("workers_0")));
    local.delete_pool(&pool()).await.unwrap_err();
    let refused = local.create_pool(&pool_spec(2)).await.unwrap_err();
    assert!(matches!(refused, Error::AlreadyExists { .. }), "{refused}");
    setup.runner.break_machine(None);
    local.delete_pool(&pool()).await.unwrap();
    local.create_pool(&pool_spec(2)).await.unwrap();
    assert_eq!(setup.runner.on().len(), 2);
}

#[tokio::test]
async fn restore_starts_only_machines_that_were_not_powered_off() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    local.power_off(&pool(), &id(1), PowerDown::Deallocate).await.unwrap();
    assert_eq!(local.describe_instance(&pool(), &id(1)).await.unwrap().power, PowerState::Deallocated);
    local.suspend().await.unwrap();
    assert!(setup.runner.on().is_empty());
    setup.process().restore().await.unwrap();
    assert_eq!(setup.runner.on().into_iter().map(String::from).collect::<Vec<_>>(), ["workers_0"]);
}

#[tokio::test]
async fn pool_with_the_name_of_a_canary_is_not_deleted_as_one() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    let name = canary("1.0.0").name;
    let spec = kiln_local::PoolSpec { name: name.pool().clone(), ..pool_spec(1) };
    local.create_pool(&spec).await.unwrap();
    let refused = local.delete_canary(&name).await.unwrap_err();
    assert!(matches!(refused, Error::NotCanary { .. }), "{refused}");
    assert_eq!(setup.runner.on().len(), 3);
}

#[tokio::test]
async fn user_data_of_the_pool_is_for_new_machines_only() {
    let setup = Setup::new();
    let local = setup.process();
    let first = SecretBytes::new("hunter1");
    local.import_image("debian", MachineKind::Nspawn, &setup.base()).await.unwrap();
    let spec = kiln_local::PoolSpec { user_data: first.clone(), ..pool_spec(2) };
    local.create_pool(&spec).await.unwrap();
    let vm_id = local.describe_instance(&pool(), &id(0)).await.unwrap().vm_id;

    let own = SecretBytes::new([0, 255]);
    assert!(!local.set_user_data(&pool(), &id(0), "another", &own).await.unwrap());
    assert_eq!(local.user_data(&pool(), &id(0)).await.unwrap(), first);
    assert!(local.set_user_data(&pool(), &id(0), &vm_id, &own).await.unwrap());
    assert!(local.set_user_data(&pool(), &id(0), &vm_id, &own).await.unwrap());
    // Another process reads the same.
    let local = setup.process();
    assert_eq!(local.user_data(&pool(), &id(0)).await.unwrap(), own);
    assert_eq!(local.user_data(&pool(), &id(1)).await.unwrap(), first);
    let served = local.encoded_user_data().await.unwrap();
    let served: Vec<(&str, &str)> = served.iter().map(|(key, data)| (key.as_str(), data.expose())).collect();
    assert_eq!(served, [("workers_0", "AP8="), ("workers_1", "aHVudGVyMQ==")]);

    let (read, seen) = local.pool_user_data(&pool()).await.unwrap();
    assert_eq!(read, first);
    let second = SecretBytes::new("second");
    local.set_pool_user_data(&pool(), &second, &seen).await.unwrap();
    let late = local.set_pool_user_data(&pool(), &first, &seen).await.unwrap_err();
    assert_eq!(late.class(), ErrorClass::Precondition);
    assert_eq!(local.user_data(&pool(), &id(1)).await.unwrap(), first);
    assert!(!local.describe_instance(&pool(), &id(1)).await.unwrap().latest_model);
    local.add_instances(&local.describe_pool(&pool()).await.unwrap(), 1).await.unwrap();
    assert_eq!(local.user_data(&pool(), &id(2)).await.unwrap(), second);

    // A repeated `create` replaces it everywhere, and without user data it keeps it.
    local.create_pool(&kiln_local::PoolSpec { user_data: first.clone(), ..spec.clone() }).await.unwrap();
    local.create_pool(&kiln_local::PoolSpec { user_data: SecretBytes::default(), ..spec }).await.unwrap();
    for number in 0..3 {
        assert_eq!(local.user_data(&pool(), &id(number)).await.unwrap(), first);
    }
    assert_eq!(local.pool_user_data(&pool()).await.unwrap().0, first);
    assert!(!format!("{:?}", local.machines().await.unwrap()).contains("hunter1"));
}

#[tokio::test]
async fn missing_resources_are_none_or_not_found() {
    let setup = Setup::new();
    let local = setup.process();
    assert!(local.describe_pool(&pool()).await.unwrap_err().not_found());
    assert!(local.instances(&pool()).await.unwrap_err().not_found());
    assert_eq!(local.find_gallery(&line().gallery).await.unwrap(), None);
    assert_eq!(local.find_definition(&line()).await.unwrap(), None);
    assert!(local.versions(&line()).await.unwrap().is_empty());
    assert!(local.create_definition(&image_definition()).await.unwrap_err().not_found(), "its gallery does not exist");
    assert!(local.set_excluded(&line(), &"1.0.0".parse().unwrap(), true).await.unwrap_err().not_found());
    local.delete_version(&line(), &"1.0.0".parse().unwrap()).await.unwrap();
    local.delete_canary(&canary("1.0.0").name).await.unwrap();
    local.remove_extension(&pool(), "vmssCSE").await.unwrap();
    let saved = SavedExtension { extension: kiln_types::Extension::default(), protected_settings: None };
    assert_eq!(local.put_extension(&pool(), &saved).await.unwrap_err().class(), ErrorClass::Invalid);
    let foreign = OperationHandle::new("{\"kind\":\"write\"}");
    assert_eq!(local.observe(&foreign).await.unwrap_err().class(), ErrorClass::Invalid);
    let escape = kiln_types::DefinitionName { definition: "../../etc/x".into(), ..line() };
    assert_eq!(local.find_definition(&escape).await.unwrap_err().class(), ErrorClass::Invalid);
}

#[tokio::test]
async fn launched_machine_is_listed_by_its_owner_and_deleted_with_its_disk() {
    let setup = Setup::new();
    let local = setup.process();
    with_pool(&local, &setup.base()).await.unwrap();
    let spec = machine_spec("m1", "/local/images/debian", "alice");
    let made = local.create(&spec).await.unwrap();
    assert_eq!(local.create(&spec).await.unwrap(), made);
    assert!(setup.runner.is_running(&key("m1")).await.unwrap());
    let foreign = local.create(&machine_spec("m1", "/local/images/debian", "bob")).await.unwrap_err();
    assert!(foreign.precondition(), "{foreign}");
    local.confirm(&machine_name("m1")).await.unwrap();
    local.confirm(&machine_name("m1")).await.unwrap();
    let listed = local.list(kiln_types::OWNER_TAG, "alice").await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].tags[kiln_types::LAUNCH_TAG], kiln_types::LAUNCH_DONE);
    assert!(matches!(&listed[0].state, MachineState::Present { provisioning: Provisioning::Succeeded, .. }));
    assert!(local.list(kiln_types::OWNER_TAG, "bob").await.unwrap().is_empty());

    local.collect(&listed[0], kiln_types::OWNER_TAG, "bob").await.unwrap();
    assert!(local.describe(&machine_name("m1")).await.unwrap().is_some(), "it belongs to another owner");
    local.delete(&machine_name("m1")).await.unwrap();
    local.delete(&machine_name("m1")).await.unwrap();
    assert_eq!(local.describe(&machine_name("m1")).await.unwrap(), None);
    assert_eq!(fs::read_dir(setup.state().join("layers")).unwrap().count(), 2);

    let again = local.create(&spec).await.unwrap();
    local.collect(&listed[0], kiln_types::OWNER_TAG, "alice").await.unwrap();
    assert_eq!(local.describe(&machine_name("m1")).await.unwrap(), Some(again.clone()), "it is another machine");
    local.collect(&again, kiln_types::OWNER_TAG, "alice").await.unwrap();
    assert_eq!(local.describe(&machine_name("m1")).await.unwrap(), None);
}

#[tokio::test]
async fn imported_image_must_match_its_kind_and_keeps_its_name() {
    let setup = Setup::new();
    let local = setup.process();
    let file = setup.base().join("etc-base");
    assert!(local.import_image("debian", MachineKind::Nspawn, &file).await.is_err());
    assert!(local.import_image("debian", MachineKind::Qemu, &setup.base()).await.is_err());
    assert!(local.import_image("debian", MachineKind::Nspawn, &setup.base().join("gone")).await.is_err());
    assert!(local.import_image("../debian", MachineKind::Nspawn, &setup.base()).await.is_err());
    for _ in 0..2 {
        local.import_image("debian", MachineKind::Nspawn, &setup.base()).await.unwrap();
    }
    assert!(local.import_image("debian", MachineKind::Qemu, &file).await.unwrap_err().precondition());
}

#[test]
fn folder_of_another_format_and_other_folders_are_refused() {
    let setup = Setup::new();
    let head = setup.state().join("store.json");
    fs::write(&head, "{\"format\": 3, \"more\": true}").unwrap();
    let newer = Store::open(&setup.state()).unwrap_err();
    assert!(matches!(newer, Error::NewerFormat { format: 3, supported: 2, .. }), "{newer}");
    assert!(matches!(Store::create(&setup.state()), Err(Error::NewerFormat { .. })));
    fs::write(&head, "{\"format\": 1}").unwrap();
    fs::remove_dir(setup.state().join("definitions")).unwrap();
    let older = Store::create(&setup.state()).unwrap_err();
    assert!(matches!(older, Error::OlderFormat { format: 1, .. }) && older.to_string().contains("--state"), "{older}");
    assert!(!setup.state().join("definitions").exists(), "the folder was changed");
    assert!(matches!(Store::open(setup.folder.path()), Err(Error::NoStore { .. })));
    fs::write(&head, "{").unwrap();
    assert!(matches!(Store::open(&setup.state()), Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn only_the_owner_may_read_documents() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new();
    with_pool(&setup.process(), &setup.base()).await.unwrap();
    let mode = |path: &str| fs::metadata(setup.state().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("pools/workers.json"), 0o600);
    assert_eq!(mode("machines/workers_0.json"), 0o600);
    assert_eq!(mode(""), 0o700);
}
