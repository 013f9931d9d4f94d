//! A state folder with a power that only remembers, and what can be seen of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_local::{
    Body, DiskPath, Error, Kind, Local, LocalOptions, MachineKey, PoolSpec, Power, PowerError, QemuImg, Store,
};
use kiln_types::{
    Architecture, Canary, CanaryName, DefinitionIdentity, DefinitionName, Factory, Gallery, Generation,
    ImageDefinition, ImageSource, Instance, InstanceId, MachineDisk, MachineName, MachineSpec, Pool, PoolName,
    PowerDown, Priority, Publication, Secret, SecurityType, SnapshotRequest, Storage, Tags,
};

/// Machines that are on or off and write a file at each boot.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    on: Mutex<BTreeMap<MachineKey, DiskPath>>,
    boots: AtomicU64,
    broken: Mutex<Option<MachineKey>>,
}

impl Remembered {
    pub(crate) fn on(&self) -> BTreeSet<MachineKey> {
        self.on.lock().unwrap().keys().cloned().collect()
    }

    pub(crate) fn copy(&self) -> Self {
        let on = Mutex::new(self.on.lock().unwrap().clone());
        Self { on, boots: AtomicU64::new(self.boots.load(Ordering::Relaxed)), broken: Mutex::default() }
    }

    /// From now on this machine can be switched neither on nor off.
    pub(crate) fn break_machine(&self, machine: Option<MachineKey>) {
        *self.broken.lock().unwrap() = machine;
    }

    fn check(&self, act: &'static str, machine: &MachineKey) -> Result<(), PowerError> {
        if self.broken.lock().unwrap().as_ref() != Some(machine) {
            return Ok(());
        }
        Err(PowerError { act, machine: machine.clone(), source: "there is a hole in it".into() })
    }
}

impl Power for Remembered {
    async fn switch_on(&self, body: &Body) -> Result<(), PowerError> {
        self.check("switch on", &body.name)?;
        let mut on = self.on.lock().unwrap();
        if on.contains_key(&body.name) {
            return Ok(());
        }
        let DiskPath::Folders { lower, upper, .. } = &body.disk else { panic!("{body:?}") };
        // Who writes writes alone.
        for (other, disk) in on.iter() {
            let DiskPath::Folders { lower: below, upper: writes, .. } = disk else { panic!("{disk:?}") };
            assert!(
                writes.file_name().is_some() && writes != upper,
                "{other} and {} write to {}",
                body.name,
                upper.display()
            );
            assert!(!below.contains(upper), "{} writes what is below {other}", body.name);
            assert!(!lower.contains(writes), "{other} writes what is below {}", body.name);
        }
        for folder in lower.iter().chain([upper]) {
            assert!(folder.is_dir(), "{} stands on {}, which is gone", body.name, folder.display());
        }
        let boot = self.boots.fetch_add(1, Ordering::Relaxed);
        fs::write(upper.join(format!("booted-{}", body.name)), boot.to_string()).unwrap();
        on.insert(body.name.clone(), body.disk.clone());
        Ok(())
    }

    async fn switch_off(&self, name: &MachineKey, _: PowerDown) -> Result<(), PowerError> {
        self.check("switch off", name)?;
        self.on.lock().unwrap().remove(name);
        Ok(())
    }

    async fn is_on(&self, name: &MachineKey) -> Result<bool, PowerError> {
        Ok(self.on.lock().unwrap().contains_key(name))
    }
}

pub(crate) const POOL: &str = "workers";

pub(crate) fn options() -> LocalOptions {
    // Shared, so that two "processes" of one test never make the same id.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let new_id = || format!("00000000-0000-4000-8000-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed));
    let clock = || "2026-11-15T12:00:00Z".parse().unwrap();
    LocalOptions { clock: Arc::new(clock), new_id: Arc::new(new_id), qemu_img: QemuImg::default() }
}

/// A state folder beside a base with one file.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    base: Arc<tempfile::TempDir>,
    pub(crate) power: Arc<Remembered>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = scratch();
        let base = Arc::new(scratch());
        fs::write(base.path().join("etc-base"), "base").unwrap();
        Store::create(&folder.path().join("state")).unwrap();
        Self { folder, base, power: Arc::default() }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.base.path().to_owned()
    }

    /// Another process.
    pub(crate) fn process(&self) -> Local<Remembered> {
        Local::new(Store::open(&self.state()).unwrap(), self.power.clone(), options())
    }

    /// The same world, apart, on the same base.
    pub(crate) fn copy(&self) -> Self {
        let folder = scratch();
        copy(self.folder.path(), folder.path());
        Self { folder, base: self.base.clone(), power: Arc::new(self.power.copy()) }
    }
}

/// In memory where that is possible: thousands of documents are made durable here, and no machine fails.
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
        tags: Tags::new(),
    }
}

pub(crate) fn line() -> DefinitionName {
    DefinitionName { gallery: "SIG_local".parse().unwrap(), definition: "workers-image".into() }
}

pub(crate) fn gallery() -> Gallery {
    Gallery { name: line().gallery, location: "local".into(), description: "for tests".into() }
}

pub(crate) fn image_definition() -> ImageDefinition {
    ImageDefinition {
        name: line(),
        location: "local".into(),
        generation: Generation::V2,
        architecture: Architecture::X64,
        security_type: SecurityType::Standard,
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
        tags: Tags::from([("day".to_owned(), name.to_owned())]),
    }
}

pub(crate) fn publication(snapshot: &str, number: &str) -> Publication {
    Publication {
        definition: line(),
        number: number.parse().unwrap(),
        location: "local".into(),
        source: format!("/local/snapshots/{snapshot}"),
        regions: vec!["local".into()],
        replicas: 1,
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
        tags: Tags::new(),
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

/// An image, and a pool of two made from it.
pub(crate) async fn with_pool(local: &Local<Remembered>, base: &Path) -> Result<Pool, Error> {
    local.import_image("debian", Kind::Nspawn, base).await?;
    local.create_pool(&pool_spec(2)).await?;
    local.describe_pool(&pool()).await
}

/// A version of the first instance's disk, which is off for it and on again afterwards.
pub(crate) async fn with_version(local: &Local<Remembered>, number: &str) -> Result<(), Error> {
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

/// Names of files on a disk, by layer, with the base first.
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
