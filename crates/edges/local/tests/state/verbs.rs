//! Each verb, once and again.

use std::fs;

use crate::support::{
    World, canary, files_on, gallery, id, image_definition, line, machine_name, machine_spec, pool, pool_spec,
    publication, snapshot_request, version_of, with_pool, with_version,
};
use kiln_local::{Error, Kind, MachineKey, Power, Store};
use kiln_types::{
    ErrorClass, Factory, FactoryError, ImageSource, MachineState, Machines, OperationHandle, OperationState, PowerDown,
    PowerState, Protection, Provisioning, RecipeChange, SavedExtension, Secret, Tags,
};

fn key(text: &str) -> MachineKey {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_pool_is_made_with_machines_that_run_and_are_found_by_their_nodes_names() {
    let world = World::new();
    let local = world.process();
    let read = with_pool(&local, &world.base()).await.unwrap();
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
    let body = local.body(&key("workers_0")).await.unwrap();
    assert_eq!(body.custom_data.as_ref().map(Secret::expose), Some("hunter2"));
    assert!(!format!("{body:?}").contains("hunter2"));

    local.create_pool(&pool_spec(2)).await.unwrap();
    assert_eq!(local.instances(&pool()).await.unwrap(), instances);
}

#[tokio::test]
async fn a_pool_whose_nodes_could_have_no_name_is_refused() {
    let world = World::new();
    let local = world.process();
    local.import_image("debian", Kind::Nspawn, &world.base()).await.unwrap();
    for name in ["Workers".to_owned(), "a_b".to_owned(), "p".repeat(58)] {
        let spec = kiln_local::PoolSpec { name: name.parse().unwrap(), ..pool_spec(1) };
        assert!(matches!(local.create_pool(&spec).await, Err(Error::BadText { .. })), "{name}");
    }
    assert!(local.pools().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_snapshot_is_what_the_disk_was_and_neither_side_changes_it() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
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
    let before = files_on(&local.body(&key("workers_0")).await.unwrap().disk);
    for _ in 0..2 {
        local.snapshot_os_disk(&request).await.unwrap();
    }
    let snapshot = local.find_snapshot(&request.name).await.unwrap().unwrap();
    assert_eq!((snapshot.source, snapshot.tags), (donor.os_disk.clone(), request.tags.clone()));
    assert_eq!(fs::read_dir(world.state().join("layers")).unwrap().count(), 3);

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
    let mut clone = files_on(&local.body(&key("kiln-canary-r1_0")).await.unwrap().disk);
    assert!(clone.remove("booted-kiln-canary-r1_0").is_some());
    assert_eq!(clone, before, "the donor booted again and the clone does not know");
    let donor = files_on(&local.body(&key("workers_0")).await.unwrap().disk);
    assert!(!donor.contains_key("booted-kiln-canary-r1_0") && donor != before);
}

#[tokio::test]
async fn layers_go_with_the_last_that_names_them() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
    let layers = || fs::read_dir(world.state().join("layers")).unwrap().count();
    assert_eq!(layers(), 2);
    let donor = local.describe_instance(&pool(), &id(0)).await.unwrap();
    local.power_off(&pool(), &id(0), PowerDown::KeepHardware).await.unwrap();
    local.snapshot_os_disk(&snapshot_request("c1", &donor)).await.unwrap();
    assert_eq!(layers(), 3, "the donor has a new one");
    local.remove_instances(&pool(), &[id(0)]).await.unwrap();
    assert_eq!(layers(), 2, "the snapshot alone names the old one");
    local.create_gallery(&gallery()).await.unwrap();
    local.create_definition(&image_definition()).await.unwrap();
    local.publish(&publication("c1", "1.0.0")).await.unwrap();
    local.delete_snapshot(&"c1".parse().unwrap()).await.unwrap();
    assert_eq!(layers(), 2, "the version alone names it");
    local.create_canary(&canary("1.0.0")).await.unwrap();
    local.delete_version(&line(), &"1.0.0".parse().unwrap()).await.unwrap();
    assert_eq!(layers(), 3, "the canary stands on it");
    local.delete_canary(&canary("1.0.0").name).await.unwrap();
    assert_eq!(layers(), 1);
    local.delete_pool(&pool()).await.unwrap();
    assert_eq!(layers(), 0);
    assert!(world.power.on().is_empty());
    assert_eq!(fs::read_dir(world.state().join("trash")).unwrap().count(), 0);
}

#[tokio::test]
async fn an_excluded_version_is_not_what_latest_means() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
    with_version(&local, "1.0.0").await.unwrap();
    let to_line = RecipeChange { image: Some(ImageSource::Definition(line())), custom_data: None };
    let revision = async || local.describe_pool(&pool()).await.unwrap().revision.unwrap();
    let refused = local.set_recipe(&pool(), &to_line, &revision().await).await.unwrap_err();
    assert!(matches!(refused, Error::NothingUsable { .. }), "{refused}");

    for _ in 0..2 {
        local.set_excluded(&line(), &"1.0.0".parse().unwrap(), false).await.unwrap();
    }
    local.set_recipe(&pool(), &to_line, &revision().await).await.unwrap();
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
async fn a_write_by_who_did_not_see_the_last_one_is_refused_and_instances_are_never_added_twice() {
    let world = World::new();
    let local = world.process();
    let read = with_pool(&local, &world.base()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
    let again = local.add_instances(&read, 1).await.unwrap_err();
    assert!(again.precondition(), "{again}");
    assert!(local.tag_pool(&read, &Tags::new()).await.unwrap_err().precondition());
    let change = RecipeChange { image: None, custom_data: Some(Secret::new("other")) };
    let stale = local.set_recipe(&pool(), &change, read.revision.as_ref().unwrap()).await.unwrap_err();
    assert!(stale.precondition(), "{stale}");
    assert_eq!(local.describe_pool(&pool()).await.unwrap().capacity, 3);
    assert_eq!(world.power.on().len(), 3);

    let seen = local.describe_instance(&pool(), &id(0)).await.unwrap();
    let protected = local.set_protection(&pool(), &seen, Protection::FULL).await.unwrap();
    assert_eq!(protected.protection, Protection::FULL);
    assert_eq!(local.set_protection(&pool(), &seen, Protection::FULL).await.unwrap(), protected);
    let stale = local.set_protection(&pool(), &seen, Protection::NONE).await.unwrap_err();
    assert!(stale.precondition(), "{stale}");
}

#[tokio::test]
async fn a_removed_instance_takes_its_place_with_it_and_its_number_is_not_given_again() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
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
async fn a_machine_that_does_not_start_is_shown_as_being_made_until_it_does() {
    let world = World::new();
    let local = world.process();
    local.import_image("debian", Kind::Nspawn, &world.base()).await.unwrap();
    world.power.break_machine(Some(key("workers_0")));
    let failed = local.create_pool(&pool_spec(2)).await.unwrap_err();
    assert!(failed.retryable(), "{failed}");
    let read = local.describe_pool(&pool()).await.unwrap();
    assert_eq!(read.provisioning, Provisioning::InProgress("Updating".into()));
    let made: Vec<Provisioning> =
        local.instances(&pool()).await.unwrap().into_iter().map(|instance| instance.provisioning).collect();
    assert_eq!(made, [Provisioning::InProgress("Creating".into()), Provisioning::Succeeded], "the other does not wait");
    world.power.break_machine(None);
    assert_eq!(local.describe_pool(&pool()).await.unwrap().provisioning, Provisioning::Succeeded);
    assert_eq!(world.power.on().len(), 2);
}

#[tokio::test]
async fn a_pool_that_is_still_being_deleted_is_not_made_anew() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
    world.power.break_machine(Some(key("workers_0")));
    local.delete_pool(&pool()).await.unwrap_err();
    let refused = local.create_pool(&pool_spec(2)).await.unwrap_err();
    assert!(matches!(refused, Error::InTheWay { .. }), "{refused}");
    world.power.break_machine(None);
    local.delete_pool(&pool()).await.unwrap();
    local.create_pool(&pool_spec(2)).await.unwrap();
    assert_eq!(world.power.on().len(), 2);
}

#[tokio::test]
async fn what_should_be_on_comes_back_after_the_world_ended_and_what_was_off_does_not() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
    local.power_off(&pool(), &id(1), PowerDown::Deallocate).await.unwrap();
    assert_eq!(local.describe_instance(&pool(), &id(1)).await.unwrap().power, PowerState::Deallocated);
    local.suspend().await.unwrap();
    assert!(world.power.on().is_empty());
    world.process().restore().await.unwrap();
    assert_eq!(world.power.on().into_iter().map(String::from).collect::<Vec<_>>(), ["workers_0"]);
}

#[tokio::test]
async fn a_pool_that_only_has_the_name_of_a_canary_is_not_deleted_as_one() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
    let name = canary("1.0.0").name;
    let spec = kiln_local::PoolSpec { name: name.pool().clone(), ..pool_spec(1) };
    local.create_pool(&spec).await.unwrap();
    let refused = local.delete_canary(&name).await.unwrap_err();
    assert!(matches!(refused, Error::NoCanary { .. }), "{refused}");
    assert_eq!(world.power.on().len(), 3);
}

#[tokio::test]
async fn what_is_not_there_is_none_or_said_to_be_missing() {
    let world = World::new();
    let local = world.process();
    assert!(local.describe_pool(&pool()).await.unwrap_err().not_found());
    assert!(local.instances(&pool()).await.unwrap_err().not_found());
    assert_eq!(local.find_gallery(&line().gallery).await.unwrap(), None);
    assert_eq!(local.find_definition(&line()).await.unwrap(), None);
    assert!(local.versions(&line()).await.unwrap().is_empty());
    assert!(local.create_definition(&image_definition()).await.unwrap_err().not_found(), "its gallery is missing");
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
async fn a_launched_machine_is_found_by_its_owner_and_goes_with_all_its_parts() {
    let world = World::new();
    let local = world.process();
    with_pool(&local, &world.base()).await.unwrap();
    let spec = machine_spec("m1", "/local/images/debian", "alice");
    let made = local.create(&spec).await.unwrap();
    assert_eq!(local.create(&spec).await.unwrap(), made);
    assert!(world.power.is_on(&key("m1")).await.unwrap());
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
    assert!(local.describe(&machine_name("m1")).await.unwrap().is_some(), "it is not bob's");
    local.delete(&machine_name("m1")).await.unwrap();
    local.delete(&machine_name("m1")).await.unwrap();
    assert_eq!(local.describe(&machine_name("m1")).await.unwrap(), None);
    assert_eq!(fs::read_dir(world.state().join("layers")).unwrap().count(), 2);

    let again = local.create(&spec).await.unwrap();
    local.collect(&listed[0], kiln_types::OWNER_TAG, "alice").await.unwrap();
    assert_eq!(local.describe(&machine_name("m1")).await.unwrap(), Some(again.clone()), "it is another machine");
    local.collect(&again, kiln_types::OWNER_TAG, "alice").await.unwrap();
    assert_eq!(local.describe(&machine_name("m1")).await.unwrap(), None);
}

#[tokio::test]
async fn an_image_is_a_base_that_fits_its_kind_and_keeps_its_name() {
    let world = World::new();
    let local = world.process();
    let file = world.base().join("etc-base");
    assert!(local.import_image("debian", Kind::Nspawn, &file).await.is_err());
    assert!(local.import_image("debian", Kind::Qemu, &world.base()).await.is_err());
    assert!(local.import_image("debian", Kind::Nspawn, &world.base().join("gone")).await.is_err());
    assert!(local.import_image("../debian", Kind::Nspawn, &world.base()).await.is_err());
    for _ in 0..2 {
        local.import_image("debian", Kind::Nspawn, &world.base()).await.unwrap();
    }
    assert!(local.import_image("debian", Kind::Qemu, &file).await.unwrap_err().precondition());
}

#[test]
fn a_folder_of_a_newer_program_and_one_that_is_no_state_folder_are_left_alone() {
    let world = World::new();
    let head = world.state().join("store.json");
    fs::write(&head, "{\"format\": 2, \"more\": true}").unwrap();
    let newer = Store::open(&world.state()).unwrap_err();
    assert!(matches!(newer, Error::Newer { found: 2, known: 1, .. }), "{newer}");
    assert!(matches!(Store::create(&world.state()), Err(Error::Newer { .. })));
    assert!(matches!(Store::open(world.folder.path()), Err(Error::NoStore { .. })));
    fs::write(&head, "{").unwrap();
    assert!(matches!(Store::open(&world.state()), Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn custom_data_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    with_pool(&world.process(), &world.base()).await.unwrap();
    let mode = |path: &str| fs::metadata(world.state().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("pools/workers.json"), 0o600);
    assert_eq!(mode("machines/workers_0.json"), 0o600);
    assert_eq!(mode(""), 0o700);
}
