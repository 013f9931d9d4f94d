//! The life cycle of a pool and its image through the ports, with Azure's durations in virtual time.

use std::time::Duration;

use kiln_sim_azure::{Speed, WorldSpec};
use kiln_types::{
    Canary, CanaryName, Factory, FactoryError, ImageSource, Instance, OperationHandle, OperationState, PowerDown,
    PowerState, Protection, Provisioning, RecipeChange, Secret, SecretBytes, Storage, Tags, TargetRegion, VersionState,
    node_name_of, tags,
};
use tokio::time::Instant;

use crate::embedded::Embedded;
use crate::stage::{Stage, day};

#[tokio::test(start_paused = true)]
async fn node_names_are_the_computer_names_in_lower_case() {
    let mut spec = WorldSpec::default();
    spec.pools[0].capacity = 50;
    let embedded = Embedded::new(spec, Speed::Instant, "");
    let pool = embedded.pool();
    assert!(embedded.sim.machines().iter().any(|machine| machine.computer_name == format!("{pool}00000B")));
    let instances = embedded.azure().instances(&pool).await.unwrap();
    assert_eq!(instances.len(), 50);
    for instance in instances {
        assert_eq!(instance.node_name, node_name_of(&pool, &instance.id).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn pool_is_read_with_its_recipe_and_nodes() {
    let stage = Stage::new("");
    let pool = stage.pool().await;
    assert_eq!((pool.capacity, pool.provisioning.clone()), (10, Provisioning::Succeeded));
    assert!(pool.revision.is_some());
    let scripts: Vec<_> =
        pool.recipe.extensions.iter().filter(|e| e.is_custom_script()).map(|e| e.name.as_str()).collect();
    assert_eq!((pool.recipe.extensions.len(), scripts), (2, vec!["vmssCSE"]));
    assert!(matches!(pool.recipe.image, ImageSource::Marketplace(_)));

    let instances = stage.azure.instances(&pool.name).await.unwrap();
    assert_eq!(instances.len(), 10);
    for instance in &instances {
        assert_eq!(node_name_of(&pool.name, &instance.id).unwrap(), instance.node_name);
        assert!(instance.latest_model && instance.revision.is_some() && instance.os_disk.is_some(), "{instance:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn donor_is_protected_stopped_snapshotted_and_released() {
    let stage = Stage::new("");
    let (azure, pool) = (&stage.azure, stage.embedded.pool());
    let before = stage.donor().await;
    azure.set_protection(&pool, &before, Protection::FULL).await.unwrap();
    let held = stage.donor().await;
    assert_eq!(held.protection, Protection::FULL);
    assert_ne!(held.revision, before.revision, "each write changes the ETag");

    let began = Instant::now();
    stage.settle(azure.power_off(&pool, &held.id, PowerDown::KeepHardware).await.unwrap()).await;
    assert!(began.elapsed() >= Duration::from_secs(183), "{:?}", began.elapsed());
    assert_eq!(stage.donor().await.power, PowerState::Stopped);
    let snapshot = stage.snapshot().await;
    assert_eq!(snapshot.provisioning, Provisioning::Succeeded);
    assert_eq!(snapshot.tags[tags::BUILT_FROM_TAG], before.node_name);
    stage.settle(azure.start(&pool, &held.id).await.unwrap()).await;

    let running = stage.donor().await;
    assert_eq!(running.power, PowerState::Running);
    let restore =
        async |vm_id: &str| azure.restore_protection(&pool, &running.id, vm_id, before.protection).await.unwrap();
    assert!(!restore("another machine").await);
    assert_eq!(stage.donor().await.protection, Protection::FULL);
    assert!(restore(&before.vm_id).await);
    let released = stage.donor().await;
    assert_eq!((released.protection, &released.vm_id), (before.protection, &before.vm_id));
    assert!(restore(&before.vm_id).await);
    assert_eq!(stage.donor().await.revision, released.revision, "nothing is written if the protection is as wanted");

    stage.settle(azure.delete_snapshot(&snapshot.name).await.unwrap()).await;
    assert_eq!(azure.find_snapshot(&snapshot.name).await.unwrap(), None);
    stage.settle(azure.delete_snapshot(&snapshot.name).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn setting_protection_or_user_data_changes_nothing_else() {
    let stage = Stage::new("");
    let (azure, pool) = (&stage.azure, stage.embedded.pool());
    let before = stage.donor().await;
    azure.set_protection(&pool, &before, Protection::FULL).await.unwrap();
    let held = stage.donor().await;
    let first = SecretBytes::new("first");
    assert!(azure.set_user_data(&pool, &held.id, &held.vm_id, &first).await.unwrap());
    let fed = stage.donor().await;
    assert_eq!(fed.protection, Protection::FULL, "setting user data keeps the protection");
    azure.set_protection(&pool, &fed, Protection::NONE).await.unwrap();
    let released = stage.donor().await;
    assert_eq!(
        azure.user_data(&pool, &released.id).await.unwrap(),
        first,
        "setting the protection keeps the user data"
    );
    assert!(!azure.set_user_data(&pool, &released.id, "another", &SecretBytes::new("late")).await.unwrap());
    assert_eq!(azure.user_data(&pool, &released.id).await.unwrap(), first, "another machine keeps its user data");
    // Removing it is a write, too.
    assert!(azure.set_user_data(&pool, &released.id, &released.vm_id, &SecretBytes::default()).await.unwrap());
    assert_eq!(azure.user_data(&pool, &released.id).await.unwrap(), SecretBytes::default());
    let fed_again = stage.donor().await;
    let rest = |i: &Instance| (i.node_name.clone(), i.vm_id.clone(), i.os_disk.clone(), i.runs.clone(), i.tags.clone());
    assert_eq!(rest(&fed_again), rest(&before));
}

#[tokio::test(start_paused = true)]
async fn concurrently_changed_instance_is_not_overwritten() {
    let stage = Stage::new("");
    let pool = stage.embedded.pool();
    let old = stage.donor().await;
    stage.azure.set_protection(&pool, &old, Protection::FULL).await.unwrap();
    let partly = Protection { from_scale_in: true, ..Protection::NONE };
    let error = stage.azure.set_protection(&pool, &old, partly).await.unwrap_err();
    assert!(error.precondition(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn user_data_of_the_model_is_for_new_instances_only() {
    let stage = Stage::new("");
    let (azure, pool) = (&stage.azure, stage.embedded.pool());
    let before = stage.pool().await;
    let (none, seen) = azure.pool_user_data(&pool).await.unwrap();
    assert_eq!((none, Some(&seen)), (SecretBytes::default(), before.revision.as_ref()));
    let new = SecretBytes::new("new nodes");
    stage.settle(azure.set_pool_user_data(&pool, &new, &seen).await.unwrap()).await;
    let (read, revision) = azure.pool_user_data(&pool).await.unwrap();
    assert_eq!(read, new);
    assert_eq!(stage.pool().await.recipe, before.recipe, "the rest of the model stays");
    let error = azure.set_pool_user_data(&pool, &SecretBytes::new("late"), &seen).await.unwrap_err();
    assert!(error.precondition(), "{error}");

    assert_eq!(azure.user_data(&pool, &stage.donor().await.id).await.unwrap(), SecretBytes::default());
    stage.settle(azure.add_instances(&stage.pool().await, 1).await.unwrap()).await;
    let instances = azure.instances(&pool).await.unwrap();
    let youngest = instances.iter().max_by_key(|one| one.id.as_str().parse::<u32>().unwrap()).unwrap();
    assert_eq!(azure.user_data(&pool, &youngest.id).await.unwrap(), new);

    let (_, later) = azure.pool_user_data(&pool).await.unwrap();
    assert_ne!(later, revision);
    stage.settle(azure.set_pool_user_data(&pool, &SecretBytes::default(), &later).await.unwrap()).await;
    assert_eq!(azure.pool_user_data(&pool).await.unwrap().0, SecretBytes::default());
}

#[tokio::test(start_paused = true)]
async fn version_is_published_tested_included_used_and_deleted() {
    let stage = Stage::new("");
    let (azure, pool) = (&stage.azure, stage.embedded.pool());
    let (region, definition) = (stage.embedded.sim.spec().location.clone(), stage.definition());
    stage.make_definition().await;
    assert_eq!(azure.versions(&definition).await.unwrap(), []);
    let snapshot = stage.snapshot().await;

    // A second client polls the publication with nothing but the text of the handle.
    let handle = azure.publish(&stage.publication(&snapshot.id, Storage::ZoneRedundant)).await.unwrap();
    let stored = serde_json::to_string(&handle).unwrap();
    let second = stage.embedded.azure();
    let handle: OperationHandle = serde_json::from_str(&stored).unwrap();
    assert!(matches!(second.observe(&handle).await.unwrap(), OperationState::Running(_)));
    tokio::time::sleep(Duration::from_mins(50)).await;
    let creating = &second.versions(&definition).await.unwrap()[0];
    assert_eq!(creating.state, VersionState::Creating);
    assert!(!creating.usable_in(&region));
    second.settle(&handle).await.unwrap();
    let made = azure.versions(&definition).await.unwrap().remove(0);
    assert_eq!(
        (made.state.clone(), made.excluded, made.storage),
        (VersionState::Succeeded, true, Some(Storage::ZoneRedundant))
    );
    assert!(!made.usable_in(&region));

    // The canary: one instance of exactly this version.
    let canary = Canary {
        name: CanaryName::from_run("r42").unwrap(),
        pool: pool.clone(),
        definition: definition.clone(),
        number: day(),
        size: None,
        zone: None,
        custom_data: None,
        tags: Tags::from([("kiln-run".to_owned(), "r42".to_owned())]),
        bootstrap: None,
    };
    stage.settle(azure.create_canary(&canary).await.unwrap()).await;
    let tried = azure.instances(canary.name.pool()).await.unwrap();
    assert_eq!(tried.len(), 1);
    assert_eq!(tried[0].runs, ImageSource::ExactVersion(definition.clone(), day()));
    let nodes: Vec<_> = azure.instances(&pool).await.unwrap().into_iter().map(|i| i.node_name).collect();
    assert!(!nodes.contains(&tried[0].node_name), "a canary must not have the name of a node: {}", tried[0].node_name);
    let error = azure.create_canary(&canary).await.unwrap_err();
    assert!(error.precondition(), "an existing canary is not created again: {error}");
    stage.settle(azure.delete_canary(&canary.name).await.unwrap()).await;
    assert!(azure.describe_pool(canary.name.pool()).await.unwrap_err().not_found());

    // Include the version, use it in the pool, and strip the recipe.
    stage.settle(azure.set_excluded(&definition, &day(), false).await.unwrap()).await;
    assert!(azure.versions(&definition).await.unwrap()[0].usable_in(&region));
    let read = stage.pool().await;
    let change = RecipeChange {
        image: Some(ImageSource::Definition(definition.clone())),
        custom_data: Some(Secret::new("#cloud-config\n")),
    };
    stage.settle(azure.set_recipe(&pool, &change, read.revision.as_ref().unwrap()).await.unwrap()).await;
    let changed = stage.pool().await;
    assert_eq!(changed.recipe.image, ImageSource::Definition(definition.clone()));
    assert_eq!(changed.recipe.extensions, read.recipe.extensions, "a patch keeps fields that it does not contain");
    stage.settle(azure.remove_extension(&pool, "vmssCSE").await.unwrap()).await;
    let stripped = stage.pool().await;
    assert_eq!(stripped.recipe.extensions.len(), 1);

    // New nodes use the version, existing ones keep theirs.
    stage.settle(azure.add_instances(&stripped, 1).await.unwrap()).await;
    let instances = azure.instances(&pool).await.unwrap();
    let new: Vec<_> =
        instances.iter().filter(|i| i.runs == ImageSource::ExactVersion(definition.clone(), day())).collect();
    assert_eq!((instances.len(), new.len()), (11, 1));
    let id = new[0].id.clone();
    stage.settle(azure.remove_instances(&pool, &[id]).await.unwrap()).await;
    assert_eq!(azure.instances(&pool).await.unwrap().len(), 10);

    let read = azure.find_definition(&definition).await.unwrap().unwrap();
    stage
        .settle(azure.tag_definition(&read, &Tags::from([("kiln-paused".to_owned(), "bad".to_owned())])).await.unwrap())
        .await;
    assert_eq!(azure.find_definition(&definition).await.unwrap().unwrap().tags["kiln-paused"], "bad");
    stage.settle(azure.delete_version(&definition, &day()).await.unwrap()).await;
    assert_eq!(azure.versions(&definition).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_runs_can_set_the_run_tag() {
    let stage = Stage::new("");
    let read = stage.pool().await;
    let tag = |run: &str| Tags::from([("kiln-run".to_owned(), run.to_owned())]);
    stage.settle(stage.azure.tag_pool(&read, &tag("a")).await.unwrap()).await;
    let error = stage.embedded.azure().tag_pool(&read, &tag("b")).await.unwrap_err();
    assert!(error.precondition(), "{error}");
    let after = stage.pool().await.tags;
    assert_eq!((after["kiln-run"].as_str(), after.len()), ("a", read.tags.len() + 1), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn publication_falls_back_to_local_replicas_after_deleting_the_failed_version() {
    let stage = Stage::new(
        "faults: [{kind: zrs-not-supported, method: PUT, type: Microsoft.Compute/galleries/images/versions}]",
    );
    stage.make_definition().await;
    let snapshot = stage.snapshot().await;
    let mut begun = Vec::new();
    let publication = stage.publication(&snapshot.id, Storage::ZoneRedundant);
    let storage = stage
        .azure
        .publish_or_fall_back(&publication, |p, handle| begun.push((p.storage, handle.clone())))
        .await
        .unwrap();
    assert_eq!(storage, Storage::Local);
    assert_eq!(begun.iter().map(|(s, _)| *s).collect::<Vec<_>>(), [Storage::ZoneRedundant, Storage::Local]);
    assert_eq!(stage.embedded.count("DELETE", "/versions/2026.11.15"), 1);
    assert!(
        stage.embedded.checker.exchanges().iter().all(|e| e.status != 409),
        "the deletion ends before the name is used again"
    );
    let version = &stage.azure.versions(&stage.definition()).await.unwrap()[0];
    assert_eq!((version.state.clone(), version.storage), (VersionState::Succeeded, Some(Storage::Local)));
}

#[tokio::test(start_paused = true)]
async fn region_without_zones_ends_with_local_replicas() {
    let spec = WorldSpec { location: "westcentralus".into(), ..WorldSpec::default() };
    let stage = Stage::within(Embedded::new(spec, Speed::Factor(1.0), ""));
    stage.make_definition().await;
    let snapshot = stage.snapshot().await;
    let publication = stage.publication(&snapshot.id, Storage::ZoneRedundant);
    assert_eq!(stage.azure.publish_or_fall_back(&publication, |_, _| ()).await.unwrap(), Storage::Local);
    let versions = stage.azure.versions(&stage.definition()).await.unwrap();
    assert_eq!(versions.iter().map(|v| v.storage).collect::<Vec<_>>(), [Some(Storage::Local)]);
}

#[tokio::test(start_paused = true)]
async fn version_has_the_requested_tags_replicas_and_keys() {
    let stage = Stage::new("");
    stage.make_definition().await;
    let snapshot = stage.snapshot().await;
    let keys = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/diskEncryptionSets/d";
    let mut publication = stage.publication(&snapshot.id, Storage::ZoneRedundant);
    publication.regions[0].replicas = 5;
    publication.regions.push(TargetRegion { name: "eastus".to_owned(), replicas: 2 });
    publication.disk_encryption_set = Some(keys.to_owned());
    publication.tags.extend([("cost-center".to_owned(), "42".to_owned()), ("kiln-run".to_owned(), "r1".to_owned())]);
    stage.settle(stage.azure.publish(&publication).await.unwrap()).await;
    let seen = stage.embedded.checker.exchanges();
    let put = seen.iter().find(|e| e.method == "PUT" && e.url.contains("/versions/")).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&put.request_body).unwrap();
    let region = &body["properties"]["publishingProfile"]["targetRegions"][0];
    assert_eq!(region["regionalReplicaCount"], 5);
    let other = &body["properties"]["publishingProfile"]["targetRegions"][1];
    assert_eq!((&other["name"], &other["regionalReplicaCount"]), (&"eastus".into(), &2.into()));
    assert_eq!(region["encryption"]["osDiskImage"]["diskEncryptionSetId"], keys);
    let made = stage.azure.versions(&stage.definition()).await.unwrap().remove(0);
    assert_eq!(made.tags, publication.tags);
}
