//! Random operations through the client, under faults that it hides, keep the simulated Azure equal to a model.

use std::collections::{BTreeMap, BTreeSet};

use kiln_azure::{Azure, Error};
use kiln_sim_azure::{Speed, WorldSpec};
use kiln_types::{
    Factory, InstanceId, OperationHandle, Pool, PowerDown, PowerState, Protection, Provisioning, RecipeChange, Secret,
    SnapshotName, SnapshotRequest, Tags,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::embedded::Embedded;

/// Faults that the client hides: throttling, an expired token (twice, but not in a row, since a second rejection is final), a lost response
/// to a read, a forgotten operation.
const HIDDEN_FAULTS: &str = "faults:
- {kind: throttled-arm, times: 100000, probability: 0.05}
- {kind: throttled-compute, times: 100000, probability: 0.05}
- {kind: token-expires, skip: 15}
- {kind: token-expires, skip: 60}
- {kind: reset-after-processing, method: GET, times: 100000, probability: 0.05}
- {kind: status-url-missing, type: operations, times: 100000, probability: 0.05}
";

#[derive(Debug, Clone)]
enum Step {
    Protect(Index, bool),
    PowerOff(Index, bool),
    Start(Index),
    Tag(u8),
    Grow(u32),
    Remove(Index),
    Recipe(u8),
    Snapshot(Index, u8),
    DeleteSnapshot(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (any::<Index>(), any::<bool>()).prop_map(|(i, on)| Step::Protect(i, on)),
        (any::<Index>(), any::<bool>()).prop_map(|(i, away)| Step::PowerOff(i, away)),
        any::<Index>().prop_map(Step::Start),
        (0u8..4).prop_map(Step::Tag),
        (1u32..3).prop_map(Step::Grow),
        any::<Index>().prop_map(Step::Remove),
        any::<u8>().prop_map(Step::Recipe),
        (any::<Index>(), 0u8..3).prop_map(|(i, name)| Step::Snapshot(i, name)),
        (0u8..3).prop_map(Step::DeleteSnapshot),
    ]
}

/// The expected state.
#[derive(Debug)]
struct Model {
    instances: BTreeMap<InstanceId, (PowerState, Protection)>,
    tags: Tags,
    snapshots: BTreeSet<SnapshotName>,
}

struct Run {
    embedded: Embedded,
    azure: Azure,
    model: Model,
}

impl Run {
    async fn new(seed: u64) -> Result<Self, Error> {
        let mut spec = WorldSpec::default();
        spec.pools[0].capacity = 3;
        let embedded = Embedded::seeded(spec, Speed::Factor(1.0), HIDDEN_FAULTS, seed);
        let azure = embedded.azure();
        let read = azure.describe_pool(&embedded.pool()).await?;
        let instances = azure.instances(&embedded.pool()).await?;
        let model = Model {
            instances: instances.into_iter().map(|i| (i.id, (i.power, i.protection))).collect(),
            tags: read.tags,
            snapshots: BTreeSet::new(),
        };
        Ok(Self { embedded, azure, model })
    }

    async fn pool(&self) -> Result<Pool, Error> {
        self.azure.describe_pool(&self.embedded.pool()).await
    }

    fn pick(&self, index: Index) -> Option<InstanceId> {
        let ids: Vec<_> = self.model.instances.keys().cloned().collect();
        (!ids.is_empty()).then(|| ids[index.index(ids.len())].clone())
    }

    /// Waits for a write to the pool and checks that it changed the ETag.
    async fn pool_write(&self, before: &Pool, handle: OperationHandle) -> Result<(), Error> {
        self.azure.settle(&handle).await?;
        let after = self.pool().await?;
        assert_ne!(after.revision, before.revision, "a write did not change the ETag");
        assert_eq!(after.provisioning, Provisioning::Succeeded);
        Ok(())
    }

    async fn take(&mut self, step: &Step) -> Result<(), Error> {
        let pool = self.embedded.pool();
        match step {
            Step::Protect(index, on) => {
                let Some(id) = self.pick(*index) else { return Ok(()) };
                let wanted = if *on { Protection::FULL } else { Protection::NONE };
                let before = self.azure.describe_instance(&pool, &id).await?;
                self.azure.set_protection(&pool, &before, wanted).await?;
                let after = self.azure.describe_instance(&pool, &id).await?;
                assert_eq!(before.revision != after.revision, before.protection != wanted, "{before:?} {after:?}");
                self.model.instances.get_mut(&id).unwrap().1 = wanted;
            }
            Step::PowerOff(index, away) => {
                let Some(id) = self.pick(*index) else { return Ok(()) };
                let how = if *away { PowerDown::Deallocate } else { PowerDown::KeepHardware };
                let handle = self.azure.power_off(&pool, &id, how).await?;
                self.azure.settle(&handle).await?;
                let power = &mut self.model.instances.get_mut(&id).unwrap().0;
                // Stopping a deallocated instance keeps it deallocated.
                *power = if *away || *power == PowerState::Deallocated {
                    PowerState::Deallocated
                } else {
                    PowerState::Stopped
                };
            }
            Step::Start(index) => {
                let Some(id) = self.pick(*index) else { return Ok(()) };
                let handle = self.azure.start(&pool, &id).await?;
                self.azure.settle(&handle).await?;
                self.model.instances.get_mut(&id).unwrap().0 = PowerState::Running;
            }
            Step::Tag(value) => {
                let before = self.pool().await?;
                let change = Tags::from([("kiln-run".to_owned(), format!("r{value}"))]);
                let handle = self.azure.tag_pool(&before, &change).await?;
                self.pool_write(&before, handle).await?;
                self.model.tags.extend(change);
            }
            Step::Grow(more) => {
                let before = self.pool().await?;
                let handle = self.azure.add_instances(&before, *more).await?;
                self.pool_write(&before, handle).await?;
                for instance in self.azure.instances(&pool).await? {
                    self.model.instances.entry(instance.id).or_insert((PowerState::Running, Protection::NONE));
                }
                assert_eq!(self.model.instances.len(), (before.capacity + more) as usize);
            }
            Step::Remove(index) => {
                let Some(id) = self.pick(*index) else { return Ok(()) };
                let before = self.pool().await?;
                let handle = self.azure.remove_instances(&pool, std::slice::from_ref(&id)).await?;
                self.pool_write(&before, handle).await?;
                self.model.instances.remove(&id);
            }
            Step::Recipe(text) => {
                let before = self.pool().await?;
                let change =
                    RecipeChange { image: None, custom_data: Some(Secret::new(format!("#cloud-config\n# {text}\n"))) };
                let handle = self.azure.set_recipe(&pool, &change, before.revision.as_ref().unwrap()).await?;
                self.pool_write(&before, handle).await?;
                assert_eq!(self.pool().await?.recipe, before.recipe, "the readable part of the recipe is unchanged");
            }
            Step::Snapshot(index, name) => {
                let Some(id) = self.pick(*index) else { return Ok(()) };
                let name = snapshot_name(*name);
                if self.model.snapshots.contains(&name) {
                    return Ok(());
                }
                let disk = self.azure.describe_instance(&pool, &id).await?.os_disk.unwrap();
                let location = self.pool().await?.location;
                let request =
                    SnapshotRequest { name: name.clone(), location, disk, encryption_set: None, tags: Tags::new() };
                let handle = self.azure.snapshot_os_disk(&request).await?;
                self.azure.settle(&handle).await?;
                self.model.snapshots.insert(name);
            }
            Step::DeleteSnapshot(name) => {
                let name = snapshot_name(*name);
                let handle = self.azure.delete_snapshot(&name).await?;
                self.azure.settle(&handle).await?;
                self.model.snapshots.remove(&name);
            }
        }
        Ok(())
    }

    /// Compares the simulated Azure with the model.
    async fn compare(&self) -> Result<(), Error> {
        let read = self.pool().await?;
        assert_eq!(read.tags, self.model.tags);
        assert_eq!(read.capacity as usize, self.model.instances.len());
        let instances = self.azure.instances(&read.name).await?;
        let seen: BTreeMap<_, _> = instances.iter().map(|i| (i.id.clone(), (i.power, i.protection))).collect();
        assert_eq!(seen.len(), instances.len(), "ids are unique");
        assert_eq!(seen, self.model.instances);
        let machines: BTreeSet<_> = instances.iter().map(|i| i.vm_id.as_str()).collect();
        let disks: BTreeSet<_> = instances.iter().map(|i| i.os_disk.as_deref()).collect();
        assert_eq!(
            (machines.len(), disks.len()),
            (instances.len(), instances.len()),
            "each instance has its own VM and disk"
        );
        for name in (0..3).map(snapshot_name) {
            let found = self.azure.find_snapshot(&name).await?.is_some();
            assert_eq!(found, self.model.snapshots.contains(&name), "{name}");
        }
        Ok(())
    }
}

fn snapshot_name(number: u8) -> SnapshotName {
    format!("snapshot_{number}").parse().unwrap()
}

proptest! {
    // A case takes a few hundred requests; 24 cases cover every pair of steps about once.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_match_the_model_and_change_the_etag(seed: u64, steps in prop::collection::vec(step(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let outcome: Result<(), Error> = runtime.block_on(async {
            let mut run = Run::new(seed).await?;
            for step in &steps {
                run.take(step).await?;
                run.compare().await?;
            }
            Ok(())
        });
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
