//! A state folder whose machines exist only in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_local::{
    DiskPath, Error, Local, LocalOptions, MachineConfig, MachineKey, MachineKind, MachineRunner, PoolSpec, QemuImg,
    RunnerError, Store,
};
use kiln_types::{
    Architecture, Canary, CanaryName, DefinitionIdentity, DefinitionName, Factory, Gallery, Generation,
    ImageDefinition, ImageFeatures, ImageSource, Instance, InstanceId, MachineDisk, MachineName, MachineSpec, Pool,
    PoolName, PowerDown, Priority, Publication, Secret, SecurityType, SnapshotRequest, Storage, Tags,
};

/// Machines in memory. A machine writes a file when it starts.
#[derive(Debug, Default)]
pub(crate) struct FakeRunner {
    on: Mutex<BTreeMap<MachineKey, DiskPath>>,
    boots: AtomicU64,
    broken: Mutex<Option<MachineKey>>,
}

impl FakeRunner {
    pub(crate) fn on(&self) -> BTreeSet<MachineKey> {
        self.on.lock().unwrap().keys().cloned().collect()
    }

    /// The disk that a running machine uses.
    pub(crate) fn disk(&self, name: &MachineKey) -> Option<DiskPath> {
        self.on.lock().unwrap().get(name).cloned()
    }

    pub(crate) fn copy(&self) -> Self {
        let on = Mutex::new(self.on.lock().unwrap().clone());
        Self { on, boots: AtomicU64::new(self.boots.load(Ordering::Relaxed)), broken: Mutex::default() }
    }

    /// Makes starting and stopping a machine fail.
    pub(crate) fn break_machine(&self, machine: Option<MachineKey>) {
        *self.broken.lock().unwrap() = machine;
    }

    fn check(&self, act: &'static str, machine: &MachineKey) -> Result<(), RunnerError> {
        if self.broken.lock().unwrap().as_ref() != Some(machine) {
            return Ok(());
        }
        Err(RunnerError { act, machine: machine.clone(), source: "it is broken".into() })
    }
}

impl MachineRunner for FakeRunner {
    async fn start(&self, config: &MachineConfig) -> Result<(), RunnerError> {
        self.check("start", &config.name)?;
        let mut on = self.on.lock().unwrap();
        if on.contains_key(&config.name) {
            return Ok(());
        }
        let DiskPath::Folders { lower, upper, .. } = &config.disk else {
            on.insert(config.name.clone(), config.disk.clone());
            return Ok(());
        };
        // No machine writes to a layer that another one uses.
        for (other, disk) in on.iter() {
            let DiskPath::Folders { lower: below, upper: writes, .. } = disk else { panic!("{disk:?}") };
            assert!(
                writes.file_name().is_some() && writes != upper,
                "{other} and {} write to {}",
                config.name,
                upper.display()
            );
            assert!(!below.contains(upper), "{} writes to a lower layer of {other}", config.name);
            assert!(!lower.contains(writes), "{other} writes to a lower layer of {}", config.name);
        }
        for folder in lower.iter().chain([upper]) {
            assert!(folder.is_dir(), "{} needs {}, which does not exist", config.name, folder.display());
        }
        let boot = self.boots.fetch_add(1, Ordering::Relaxed);
        fs::write(upper.join(format!("booted-{}", config.name)), boot.to_string()).unwrap();
        on.insert(config.name.clone(), config.disk.clone());
        Ok(())
    }

    async fn stop(&self, name: &MachineKey, _: PowerDown) -> Result<(), RunnerError> {
        self.check("stop", name)?;
        self.on.lock().unwrap().remove(name);
        Ok(())
    }

    async fn switch_disk(&self, name: &MachineKey, disk: &Path) -> Result<(), RunnerError> {
        self.check("switch the disk of", name)?;
        assert!(disk.is_file(), "{} does not exist", disk.display());
        let before = self.on.lock().unwrap().insert(name.clone(), DiskPath::Qcow2(disk.to_owned()));
        assert!(
            before.is_some_and(|before| before != DiskPath::Qcow2(disk.to_owned())),
            "{name} was off or switched to its own disk"
        );
        Ok(())
    }

    async fn is_running(&self, name: &MachineKey) -> Result<bool, RunnerError> {
        Ok(self.on.lock().unwrap().contains_key(name))
    }
}

pub(crate) const POOL: &str = "workers";

pub(crate) fn options() -> LocalOptions {
    // Shared, so that two "processes" of a test never create the same id.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let new_id = || format!("00000000-0000-4000-8000-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed));
    let clock = || "2026-11-15T12:00:00Z".parse().unwrap();
    LocalOptions { clock: Arc::new(clock), new_id: Arc::new(new_id), qemu_img: QemuImg::default() }
}

/// A state folder, and a base with one file.
pub(crate) struct Setup {
    pub(crate) folder: tempfile::TempDir,
    base: Arc<tempfile::TempDir>,
    pub(crate) runner: Arc<FakeRunner>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let folder = scratch();
        let base = Arc::new(scratch());
        fs::write(base.path().join("etc-base"), "base").unwrap();
        Store::create(&folder.path().join("state")).unwrap();
        Self { folder, base, runner: Arc::default() }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.base.path().to_owned()
    }

    /// The factory, as another process would open it.
    pub(crate) fn process(&self) -> Local<FakeRunner> {
        Local::new(Store::open(&self.state()).unwrap(), self.runner.clone(), options())
    }

    /// A copy of the state folder, on the same base.
    pub(crate) fn copy(&self) -> Self {
        let folder = scratch();
        copy(self.folder.path(), folder.path());
        Self { folder, base: self.base.clone(), runner: Arc::new(self.runner.copy()) }
    }
}

/// A folder in memory if possible: the tests sync thousands of files.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

pub(crate) fn pool() -> PoolName {
    POOL.parse().unwrap()
}

pub(crate) fn id(number: u64) -> InstanceId {
    number.to_string().parse().unwrap()
}

pub(crate) fn pool_spec(capacity: u32) -> PoolSpec {
    PoolSpec {
        name: pool(),
        image: "/local/images/debian".into(),
        capacity,
        size: "1x512".parse().unwrap(),
        custom_data: Some(Secret::new("hunter2")),
        user_data: kiln_types::SecretBytes::default(),
        tags: Tags::new(),
    }
}

pub(crate) fn line() -> DefinitionName {
    DefinitionName { gallery: "SIG_local".parse().unwrap(), definition: "workers-image".into() }
}

pub(crate) fn gallery() -> Gallery {
    Gallery { name: line().gallery, location: "local".into(), description: "for tests".into(), tags: Tags::new() }
}

pub(crate) fn image_definition() -> ImageDefinition {
    ImageDefinition {
        name: line(),
        location: "local".into(),
        generation: Generation::V2,
        architecture: Architecture::X64,
        security_type: SecurityType::Standard,
        features: ImageFeatures::default(),
        identity: DefinitionIdentity { publisher: "kiln".into(), offer: "o".into(), sku: "s".into() },
        plan: None,
        tags: Tags::new(),
    }
}

pub(crate) fn snapshot_request(name: &str, instance: &Instance) -> SnapshotRequest {
    SnapshotRequest {
        name: name.parse().unwrap(),
        location: "local".into(),
        disk: instance.os_disk.clone().unwrap(),
        encryption_set: None,
        tags: Tags::from([("day".to_owned(), name.to_owned())]),
    }
}

pub(crate) fn publication(snapshot: &str, number: &str) -> Publication {
    Publication {
        definition: line(),
        number: number.parse().unwrap(),
        location: "local".into(),
        source: format!("/local/snapshots/{snapshot}"),
        regions: vec![kiln_types::TargetRegion { name: "local".into(), replicas: 1 }],
        storage: Storage::ZoneRedundant,
        excluded: true,
        disk_encryption_set: None,
        tags: Tags::new(),
    }
}

pub(crate) fn canary(number: &str) -> Canary {
    Canary {
        name: CanaryName::from_run("r1").unwrap(),
        pool: pool(),
        definition: line(),
        number: number.parse().unwrap(),

        size: None,
        zone: None,
        custom_data: None,
        tags: Tags::new(),
        bootstrap: None,
    }
}

pub(crate) fn machine_spec(name: &str, image: &str, owner: &str) -> MachineSpec {
    MachineSpec {
        name: name.parse().unwrap(),
        location: "local".into(),
        zone: None,
        size: "1x512".into(),
        image: image.into(),
        subnet: String::new(),
        security_group: None,
        custom_data: Secret::new("hunter2"),
        admin_user: String::new(),
        ssh_public_key: String::new(),
        priority: Priority::Regular,
        identities: Vec::new(),
        disk: MachineDisk { kind: String::new(), size_gib: None, encryption_set: None },
        security_type: SecurityType::Standard,
        encryption_at_host: false,
        tags: Tags::from([
            (kiln_types::OWNER_TAG.to_owned(), owner.to_owned()),
            (kiln_types::LAUNCH_TAG.to_owned(), "2026-11-15T12:00:00Z".to_owned()),
        ]),
    }
}

pub(crate) fn machine_name(name: &str) -> MachineName {
    name.parse().unwrap()
}

/// Creates an image and a pool of two machines.
pub(crate) async fn with_pool(local: &Local<FakeRunner>, base: &Path) -> Result<Pool, Error> {
    local.import_image("debian", MachineKind::Nspawn, base).await?;
    local.create_pool(&pool_spec(2)).await?;
    local.describe_pool(&pool()).await
}

/// Creates a version from the first instance's disk, and starts the instance again.
pub(crate) async fn with_version(local: &Local<FakeRunner>, number: &str) -> Result<(), Error> {
    let snapshot = format!("snapshot-{number}");
    let donor = local.describe_instance(&pool(), &id(0)).await?;
    local.power_off(&pool(), &id(0), PowerDown::KeepHardware).await?;
    local.snapshot_os_disk(&snapshot_request(&snapshot, &donor)).await?;
    local.start(&pool(), &id(0)).await?;
    local.create_gallery(&gallery()).await?;
    local.create_definition(&image_definition()).await?;
    local.publish(&publication(&snapshot, number)).await?;
    local.delete_snapshot(&snapshot.parse().unwrap()).await?;
    Ok(())
}

/// The files of a disk with their content.
pub(crate) fn files_on(disk: &DiskPath) -> BTreeMap<String, String> {
    let DiskPath::Folders { lower, upper, .. } = disk else { panic!("{disk:?}") };
    let mut files = BTreeMap::new();
    for folder in lower.iter().chain([upper]) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let content = fs::read_to_string(entry.path()).unwrap();
            files.insert(entry.file_name().into_string().unwrap(), content);
        }
    }
    files
}

pub(crate) fn version_of(image: &ImageSource) -> String {
    match image {
        ImageSource::ExactVersion(_, number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
