//! Disks of folders under a real overlayfs: what one machine writes no other sees, and a copy stays what it was.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_cloud::{
    Architecture, CaptureRequest, Factory, Gallery, Generation, ImageLine, ImageSource, InstanceId, LineIdentity,
    LineName, PoolName, PowerDown, Publication, RecipeChange, SecurityType, Storage, Tags,
};
use kiln_local::{Body, DiskPath, Kind, Local, LocalOptions, MachineKey, PoolSpec, Power, PowerError, QemuImg, Store};

/// On or off; what machines write is written by the test.
#[derive(Debug, Default)]
struct Switch(Mutex<BTreeSet<MachineKey>>);

impl Power for Switch {
    async fn switch_on(&self, body: &Body) -> Result<(), PowerError> {
        self.0.lock().unwrap().insert(body.name.clone());
        Ok(())
    }

    async fn switch_off(&self, name: &MachineKey, _: PowerDown) -> Result<(), PowerError> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }

    async fn is_on(&self, name: &MachineKey) -> Result<bool, PowerError> {
        Ok(self.0.lock().unwrap().contains(name))
    }
}

struct Bench {
    folder: tempfile::TempDir,
    local: Local<Switch>,
}

impl Bench {
    /// A pool of two on a base.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        sh(&format!(
            "mkdir -p {0}/etc {0}/dir/deep {0}/kept; cd {0}; chmod 755 .; echo base > etc/os; echo x > dir/x; echo y > dir/deep/y; \
             echo gone > gone; echo file > swapped; mkdir folded; echo f > folded/f; ln -s etc/os link; echo k > kept/k",
            base.display()
        ));
        let next = AtomicU64::new(0);
        let new_id = move || format!("00000000-0000-4000-8000-{:012x}", next.fetch_add(1, Ordering::Relaxed));
        let clock = || "2026-11-15T12:00:00Z".parse().unwrap();
        let options = LocalOptions { clock: Arc::new(clock), new_id: Arc::new(new_id), qemu_img: QemuImg::default() };
        let store = Store::create(&folder.path().join("state")).unwrap();
        let local = Local::new(store, Arc::default(), options);
        local.import_image("debian", Kind::Nspawn, &base).await.unwrap();
        let spec = PoolSpec {
            name: pool(),
            image: "/local/images/debian".into(),
            capacity: 2,
            size: "1x512".parse().unwrap(),
            custom_data: None,
            tags: Tags::new(),
        };
        local.create_pool(&spec).await.unwrap();
        Self { folder, local }
    }

    /// Runs a script in the root of a machine, and says what is there afterwards.
    async fn within(&self, machine: &str, script: &str) -> String {
        let body = self.local.body(&machine.parse().unwrap()).await.unwrap();
        let DiskPath::Folders { lower, upper, work } = body.disk else { panic!("no folders") };
        // overlayfs names the highest first.
        let lower: Vec<String> = lower.iter().rev().map(|path| path.display().to_string()).collect();
        let mount = self.folder.path().join("mount");
        fs::create_dir_all(&mount).unwrap();
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.join(":"), upper.display(), work.display());
        let mount = mount.display();
        sh(&format!(
            "mount -t overlay overlay -o {options} {mount}; cd {mount}; {script}\n\
             find . -printf '%P %y %m %U %l\\n' | sort; find . -type f | sort | xargs sha256sum"
        ))
    }

    async fn capture(&self, machine: &str, name: &str) {
        let key: MachineKey = machine.parse().unwrap();
        let (pool, instance) = key.instance().unwrap();
        let (pool, instance): (PoolName, InstanceId) = (pool.parse().unwrap(), instance.parse().unwrap());
        self.local.power_off(&pool, &instance, PowerDown::KeepHardware).await.unwrap();
        let request = CaptureRequest {
            name: name.parse().unwrap(),
            location: "local".into(),
            disk: format!("/local/disks/{machine}"),
            tags: Tags::new(),
        };
        self.local.capture_os_disk(&request).await.unwrap();
        self.local.start(&pool, &instance).await.unwrap();
    }

    fn layers(&self) -> usize {
        fs::read_dir(self.folder.path().join("state/layers")).unwrap().count()
    }
}

/// In mounts of its own, which end with it.
fn sh(script: &str) -> String {
    let output = Command::new("unshare").args(["--mount", "sh", "-euc", script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn pool() -> PoolName {
    "workers".parse().unwrap()
}

fn line() -> LineName {
    LineName { gallery: "SIG_local".parse().unwrap(), definition: "workers-image".into() }
}

/// New instances of the pool are made from a capture from now on.
async fn switch(local: &Local<Switch>, capture: &str, number: &str) {
    let gallery = Gallery { name: line().gallery, location: "local".into(), description: String::new() };
    local.create_gallery(&gallery).await.unwrap();
    let definition = ImageLine {
        name: line(),
        location: "local".into(),
        generation: Generation::V2,
        architecture: Architecture::X64,
        security_type: SecurityType::Standard,
        identity: LineIdentity { publisher: "kiln".into(), offer: "o".into(), sku: "s".into() },
        plan: None,
        tags: Tags::new(),
    };
    local.create_line(&definition).await.unwrap();
    let publication = Publication {
        line: line(),
        number: number.parse().unwrap(),
        location: "local".into(),
        source: format!("/local/captures/{capture}"),
        regions: vec!["local".into()],
        replicas: 1,
        storage: Storage::Local,
        excluded: false,
        disk_encryption_set: None,
        tags: Tags::new(),
    };
    local.publish(&publication).await.unwrap();
    local.delete_capture(&capture.parse().unwrap()).await.unwrap();
    let revision = local.describe_pool(&pool()).await.unwrap().revision.unwrap();
    let change = RecipeChange { image: Some(ImageSource::Definition(line())), custom_data: None };
    local.set_recipe(&pool(), &change, &revision).await.unwrap();
    let read = local.describe_pool(&pool()).await.unwrap();
    local.add_instances(&read, 1).await.unwrap();
}

/// Everything that overlayfs writes down in its own way: what is gone, folders made anew, one kind in place of another.
const LIFE: &str = "echo new > new; rm gone; rm -r dir; mkdir dir; echo z > dir/z; rm swapped; mkdir swapped; \
                    echo s > swapped/s; rm -r folded; echo file > folded; chmod 700 etc; mv kept/k kept/moved; ln -s new other";

#[tokio::test]
async fn a_clone_is_the_donor_as_it_was_and_neither_writes_to_the_other() {
    let bench = Bench::new().await;
    let untouched = bench.within("workers_1", "").await;
    let donor = bench.within("workers_0", LIFE).await;
    assert_ne!(donor, untouched);
    assert_eq!(bench.within("workers_1", "").await, untouched, "the base is shared and never written");
    bench.capture("workers_0", "c1").await;
    assert_eq!(bench.within("workers_0", "").await, donor, "the donor has its disk");

    let donor_later = bench.within("workers_0", "echo later > later; rm new; echo changed > etc/os").await;
    switch(&bench.local, "c1", "1.0.0").await;
    assert_eq!(bench.within("workers_2", "").await, donor, "the clone is what the donor was");

    let clone = bench.within("workers_2", "echo clone > clone; rm dir/z; echo mine > etc/os").await;
    assert_eq!(bench.within("workers_0", "").await, donor_later);
    bench.capture("workers_2", "c2").await;
    switch(&bench.local, "c2", "1.0.1").await;
    assert_eq!(bench.within("workers_3", "").await, clone, "a clone of a clone");
    bench.within("workers_3", "rm -r etc dir").await;
    assert_eq!(bench.within("workers_2", "").await, clone);
    assert_eq!(bench.within("workers_1", "").await, untouched);
}

#[tokio::test]
async fn a_long_chain_is_joined_and_nothing_on_the_disk_changes() {
    let bench = Bench::new().await;
    bench.within("workers_0", LIFE).await;
    // What each round does undoes or covers something of the round before.
    let rounds = [
        "echo round > round; rm -rf dir; echo was > dir",
        "rm round dir; mkdir dir round; echo d > dir/d; ln new hard; mkfifo pipe",
        "rm -r dir round; mkdir -p dir/deep; echo deep > dir/deep/y; rm -f pipe hard",
        "rm -r swapped; echo file > swapped; rm folded; mkdir folded; chmod 711 folded",
        "rm swapped; mkdir swapped; rmdir folded; ln -s x folded",
    ];
    let mut most = 0;
    for round in 0..20 {
        let script = format!("{}; date -u -d @{round} > stamp", rounds[round % rounds.len()].replace("rm ", "rm -rf "));
        let before = bench.within("workers_0", &script).await;
        let name = format!("c{round}");
        bench.capture("workers_0", &name).await;
        assert_eq!(bench.within("workers_0", "").await, before, "round {round}");
        bench.local.delete_capture(&name.parse().unwrap()).await.unwrap();
        most = most.max(bench.layers());
    }
    let shown = bench.local.machines().await.unwrap();
    assert!(shown[0].layers < 10, "{} layers after 20 captures", shown[0].layers);
    assert!(most <= 19, "{most}");
    assert_eq!(bench.layers(), shown[0].layers + 2, "what was joined is gone");
}
