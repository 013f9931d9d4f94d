//! A pool whose machines exist only in memory. The test writes to their disks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_local::{
    DiskPath, Local, LocalOptions, MachineConfig, MachineKey, MachineKind, MachineRunner, PoolSpec, QemuImg,
    RunnerError, Store,
};
use kiln_types::{
    Architecture, DefinitionIdentity, DefinitionName, Factory, Gallery, Generation, ImageDefinition, ImageFeatures,
    ImageSource, InstanceId, PoolName, PowerDown, Publication, RecipeChange, SecurityType, SnapshotRequest, Storage,
    Tags,
};

/// The running machines.
#[derive(Debug, Default)]
struct FakeRunner(Mutex<BTreeSet<MachineKey>>);

impl MachineRunner for FakeRunner {
    async fn start(&self, config: &MachineConfig) -> Result<(), RunnerError> {
        self.0.lock().unwrap().insert(config.name.clone());
        Ok(())
    }

    async fn stop(&self, name: &MachineKey, _: PowerDown) -> Result<(), RunnerError> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }

    async fn switch_disk(&self, name: &MachineKey, _: &Path) -> Result<(), RunnerError> {
        panic!("{name} is not a virtual machine")
    }

    async fn is_running(&self, name: &MachineKey) -> Result<bool, RunnerError> {
        Ok(self.0.lock().unwrap().contains(name))
    }
}

pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    local: Local<FakeRunner>,
}

impl Bench {
    /// Creates a pool of two machines on the base that `base` creates in a folder.
    pub(crate) async fn new(kind: MachineKind, qemu_img: QemuImg, base: impl FnOnce(&Path) -> PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let next = AtomicU64::new(0);
        let new_id = move || format!("00000000-0000-4000-8000-{:012x}", next.fetch_add(1, Ordering::Relaxed));
        let clock = || "2026-11-15T12:00:00Z".parse().unwrap();
        let options = LocalOptions { clock: Arc::new(clock), new_id: Arc::new(new_id), qemu_img };
        let store = Store::create(&folder.path().join("state")).unwrap();
        let local = Local::new(store, Arc::default(), options);
        local.import_image("debian", kind, &base(folder.path())).await.unwrap();
        let spec = PoolSpec {
            name: pool(),
            image: "/local/images/debian".into(),
            capacity: 2,
            size: "1x512".parse().unwrap(),
            custom_data: None,
            user_data: kiln_types::SecretBytes::default(),
            tags: Tags::new(),
        };
        local.create_pool(&spec).await.unwrap();
        Self { folder, local }
    }

    pub(crate) async fn disk(&self, machine: &str) -> DiskPath {
        self.local.machine_config(&machine.parse().unwrap()).await.unwrap().disk
    }

    pub(crate) async fn forget(&self, snapshot: &str) {
        self.local.delete_snapshot(&snapshot.parse().unwrap()).await.unwrap();
    }

    /// The number of layers below the top layer of a machine.
    pub(crate) async fn below(&self, machine: &str) -> usize {
        let machines = self.local.machines().await.unwrap();
        machines.iter().find(|one| one.name.as_str() == machine).unwrap().layers
    }

    /// Stops a machine, creates a snapshot of its disk and starts it again.
    pub(crate) async fn snapshot(&self, machine: &str, name: &str) {
        let key: MachineKey = machine.parse().unwrap();
        let (pool, instance) = key.instance().unwrap();
        let (pool, instance): (PoolName, InstanceId) = (pool.parse().unwrap(), instance.parse().unwrap());
        self.local.power_off(&pool, &instance, PowerDown::KeepHardware).await.unwrap();
        let request = SnapshotRequest {
            name: name.parse().unwrap(),
            location: "local".into(),
            disk: format!("/local/disks/{machine}"),
            encryption_set: None,
            tags: Tags::new(),
        };
        self.local.snapshot_os_disk(&request).await.unwrap();
        self.local.start(&pool, &instance).await.unwrap();
    }

    /// The number of all layers.
    pub(crate) fn layers(&self) -> usize {
        fs::read_dir(self.folder.path().join("state/layers")).unwrap().count()
    }

    /// Adds an instance that is created from a snapshot, and deletes the snapshot.
    pub(crate) async fn clone_of(&self, snapshot: &str, number: &str) {
        let local = &self.local;
        let gallery =
            Gallery { name: line().gallery, location: "local".into(), description: String::new(), tags: Tags::new() };
        local.create_gallery(&gallery).await.unwrap();
        let definition = ImageDefinition {
            name: line(),
            location: "local".into(),
            generation: Generation::V2,
            architecture: Architecture::X64,
            security_type: SecurityType::Standard,
            features: ImageFeatures::default(),
            identity: DefinitionIdentity { publisher: "kiln".into(), offer: "o".into(), sku: "s".into() },
            plan: None,
            tags: Tags::new(),
        };
        local.create_definition(&definition).await.unwrap();
        let publication = Publication {
            definition: line(),
            number: number.parse().unwrap(),
            location: "local".into(),
            source: format!("/local/snapshots/{snapshot}"),
            regions: vec![kiln_types::TargetRegion { name: "local".into(), replicas: 1 }],
            storage: Storage::Local,
            excluded: false,
            disk_encryption_set: None,
            tags: Tags::new(),
        };
        local.publish(&publication).await.unwrap();
        self.forget(snapshot).await;
        let revision = local.describe_pool(&pool()).await.unwrap().revision.unwrap();
        let change = RecipeChange { image: Some(ImageSource::Definition(line())), custom_data: None };
        local.set_recipe(&pool(), &change, &revision).await.unwrap();
        let read = local.describe_pool(&pool()).await.unwrap();
        local.add_instances(&read, 1).await.unwrap();
    }
}

fn pool() -> PoolName {
    "workers".parse().unwrap()
}

fn line() -> DefinitionName {
    DefinitionName { gallery: "SIG_local".parse().unwrap(), definition: "workers-image".into() }
}
