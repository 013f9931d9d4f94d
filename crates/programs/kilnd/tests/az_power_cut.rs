//! Power cuts that lose unsynced data. A machine in QEMU applies a document on a disk whose writes and flushes are logged; the log is then
//! replayed up to every flush. At each of them the disk must have the old or the new generation, complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use kiln_machines::command::run;
use kiln_machines::qemu::{Accelerator, Disk, VirtualMachine};
use kiln_machines::tools;
use serde_json::json;
use test_deps::TestDep;
use testkit::require;

/// The limit of the machine. It takes 10 s on an idle host.
const SECONDS: u32 = 600;

/// Runs as the machine's first process. It cuts the power right after `apply` has returned, without a sync.
const INIT: &str = "\
mount -t ext4 /dev/nvme2n1 /srv
echo START
cd /mnt
./kilnd apply --config two.json --root /srv --force && echo APPLIED
echo o >/proc/sysrq-trigger
sleep 60
";

const KERNEL: &str = "console=ttyS0 root=/dev/nvme0n1 ro mitigations=off quiet panic=-1 init=/bin/sh -- -c \
                      \"mount -t proc proc /proc && mount -t devtmpfs dev /dev && until test -b /dev/nvme1n1 -a -b \
                      /dev/nvme2n1; do sleep 0.1; done && mount -t ext4 -o ro /dev/nvme1n1 /mnt && . /mnt/init\"";

fn root_of(part: TestDep) -> PathBuf {
    require(part).ancestors().find(|path| path.ends_with("root")).expect("a root folder").to_owned()
}

fn document(generation: u64) -> String {
    let content = format!("of generation {generation}");
    let files = [format!("/etc/app/{generation}"), "/etc/app/both".to_owned()];
    json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"generation": generation},
        "spec": {
            "cluster": {
                "endpoint": "https://prod.example:443",
                "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
            "kubelet": {"version": "1.34.4", "configuration": {"maxPods": 30 + generation}},
            "files": files.map(|path| json!({"path": path, "content": content})),
        },
    })
    .to_string()
}

/// The content of all files and links below a folder, except those of a running system.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a type"));
            let relative = path.strip_prefix(root).expect("below the root").to_owned();
            if relative.starts_with("run") || relative.starts_with("lost+found") {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                found.insert(relative, target.into_os_string().into_encoded_bytes());
            } else {
                found.insert(relative, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

struct Bench {
    folder: tempfile::TempDir,
    /// The root folder with QEMU and e2fsprogs.
    tools: PathBuf,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn kilnd(&self, generation: u64, root: &Path) {
        // As in the machine: the argument is recorded as the source of the generation.
        let config = if generation == 1 { "one.json" } else { "two.json" };
        let mut command = testkit::private().command(env!("CARGO_BIN_EXE_kilnd"));
        command.args(["apply", "--force", "--config", config, "--root"]).arg(root).current_dir(self.path("exchange"));
        run(&mut command).expect("applied");
    }

    /// Writes the content of a folder to an ext4 image.
    fn image(&self, name: &str, content: &Path, size: &str) -> PathBuf {
        let image = self.path(name);
        let mut command = tools::command(Some(&self.tools), "mke2fs");
        command.env("MKE2FS_CONFIG", self.tools.join("etc/mke2fs.conf"));
        command.args(["-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1", "-d"]).arg(content).arg(&image).arg(size);
        run(&mut command).expect("an image");
        image
    }

    /// Repairs a copy of an image as a start would, with its journal, and returns a folder with its files.
    fn dump(&self, image: &Path) -> tempfile::TempDir {
        let (copy, folder) = (self.path("cut.raw"), tempfile::tempdir_in(self.folder.path()).expect("a folder"));
        fs::copy(image, &copy).expect("a copy");
        let mut fsck = tools::command(Some(&self.tools), "e2fsck");
        let status = fsck.args(["-f", "-p"]).arg(&copy).output().expect("e2fsck").status;
        assert!(matches!(status.code(), Some(0 | 1)), "the file system is damaged: {status}");
        let mut debugfs = tools::command(Some(&self.tools), "debugfs");
        run(debugfs.args(["-R", &format!("rdump / {}", folder.path().display())]).arg(&copy)).expect("a dump");
        folder
    }
}

/// The log of QEMU's `blklogwrites`, in the format of the kernel's dm-log-writes: a header sector, then entries of one sector each,
/// followed by the written data.
struct Log {
    file: File,
    sector: u64,
    left: u64,
}

impl Log {
    const MAGIC: u64 = 0x006a_7366_7773_6872;
    const FLUSH: u64 = 1;
    const DISCARD: u64 = 4;

    fn open(path: &Path) -> Self {
        let mut log = Self { file: File::open(path).expect("a log"), sector: 512, left: 0 };
        let header = log.read_sector();
        assert_eq!(number(&header, 0), Self::MAGIC, "not a log of writes");
        (log.left, log.sector) = (number(&header, 16), number(&header, 24) & 0xffff_ffff);
        log.file.seek(SeekFrom::Start(log.sector)).expect("entries");
        log
    }

    fn read_sector(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.sector).expect("a size")];
        self.file.read_exact(&mut bytes).expect("a sector");
        bytes
    }

    /// Replays writes on an image up to the next flush. Returns false at the end of the log.
    fn replay_to_flush(&mut self, image: &mut File) -> bool {
        while self.left > 0 {
            self.left -= 1;
            let entry = self.read_sector();
            let (at, sectors, flags) = (number(&entry, 0), number(&entry, 8), number(&entry, 16));
            if flags & Self::DISCARD == 0 {
                image.seek(SeekFrom::Start(at * self.sector)).expect("a position");
                for _ in 0..sectors {
                    let data = self.read_sector();
                    image.write_all(&data).expect("replayed");
                }
            }
            if flags & Self::FLUSH != 0 {
                return true;
            }
        }
        false
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn power_cut_at_any_flush_leaves_the_old_or_the_new_generation() {
    let bench = Bench { folder: tempfile::tempdir().expect("a folder"), tools: root_of(TestDep::BenchTools) };
    let (node, exchange) = (bench.path("node"), bench.path("exchange"));
    for folder in ["etc", "home", "run", "var/lib", "usr/lib/kiln"] {
        fs::create_dir_all(node.join(folder)).expect("a folder");
    }
    fs::create_dir(&exchange).expect("a folder");
    let image = json!({"kubelets": {"1.34.4": "/usr/local/bin/kubelet"}}).to_string();
    for (path, content) in [
        ("node/etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
        ("node/etc/group", "root:x:0:\n"),
        ("node/etc/shadow", "root:*:19000:0:99999:7:::\n"),
        ("node/usr/lib/kiln/image.json", &image),
        ("exchange/one.json", &document(1)),
        ("exchange/two.json", &document(2)),
        ("exchange/init", INIT),
    ] {
        fs::write(bench.path(path), content).expect("written");
    }
    fs::copy(env!("CARGO_BIN_EXE_kilnd"), exchange.join("kilnd")).expect("copied");
    bench.kilnd(1, &node);
    let old = files(&node);
    let [root, exchange, disk] = [
        bench.image("root.raw", &root_of(TestDep::BenchRoot), "3G"),
        bench.image("exchange.raw", &exchange, "256M"),
        bench.image("disk.raw", &node, "32M"),
    ];
    let (before, log) = (bench.path("before.raw"), bench.path("log"));
    fs::copy(&disk, &before).expect("a copy");
    File::create(&log).expect("a log");

    let boot = root_of(TestDep::BenchRoot).join("boot");
    let mut kernels = fs::read_dir(&boot).expect("a folder").flatten().map(|entry| entry.path());
    let kernel = kernels.find(|path| path.to_string_lossy().contains("/vmlinuz-")).expect("a kernel");
    let disk_of = |id, file, log| Disk { id, file, format: "raw", log };
    let machine = VirtualMachine {
        memory_mib: 512,
        disks: vec![
            disk_of("root", &root, None),
            disk_of("exchange", &exchange, None),
            disk_of("node", &disk, Some(&*log)),
        ],
        kernel: Some((&kernel, KERNEL)),
        ..VirtualMachine::new(Some(&bench.tools), Accelerator::Emulation)
    };
    let ended = machine.run(SECONDS).expect("QEMU");
    assert!(ended.console.contains("APPLIED") && !ended.is_killed, "{}", ended.console);

    bench.kilnd(2, &node);
    let new = files(&node);
    let generation = |state: &BTreeMap<PathBuf, Vec<u8>>| state[Path::new("etc/kiln/current")].clone();
    assert_ne!(generation(&old), generation(&new));
    let (mut log, mut image) = (Log::open(&log), File::options().write(true).open(&before).expect("an image"));
    let mut cuts = Vec::new();
    while log.replay_to_flush(&mut image) {
        let cut = cuts.len();
        let dump = bench.dump(&before);
        let left = files(dump.path());
        let current = generation(&left);
        let complete = if current == generation(&new) { &new } else { &old };
        assert_eq!(current, generation(complete), "cut {cut}: `current` is another link");
        let folder = Path::new("etc/kiln").join(String::from_utf8_lossy(&current).as_ref());
        let inside = |all: &BTreeMap<PathBuf, Vec<u8>>| -> BTreeMap<PathBuf, Vec<u8>> {
            all.iter()
                .filter(|(path, _)| path.starts_with(&folder))
                .map(|(path, bytes)| (path.clone(), bytes.clone()))
                .collect()
        };
        assert_eq!(inside(&left), inside(complete), "cut {cut}: the current generation is not complete");
        for (path, bytes) in left.iter().filter(|(path, _)| !path.starts_with("etc/kiln/generations")) {
            let is_temporary = path.to_string_lossy().ends_with(".kiln-new");
            let is_known = [&old, &new].iter().any(|all| all.get(path) == Some(bytes));
            assert!(is_temporary || is_known, "cut {cut}: `{}` is neither old nor new", path.display());
        }
        // The next apply completes an interrupted one.
        bench.kilnd(2, dump.path());
        let completed = files(dump.path());
        let different: Vec<_> = new.keys().filter(|path| completed.get(*path) != new.get(*path)).collect();
        assert!(different.is_empty(), "cut {cut}: {different:?}");
        cuts.push(current == generation(&new));
    }
    println!("{} cuts, {} of them with the new generation", cuts.len(), cuts.iter().filter(|is_new| **is_new).count());
    assert!(cuts.contains(&false), "the log starts after the change");
    assert_eq!(cuts.last(), Some(&true), "`apply` returned before its result was durable");
    assert!(cuts.is_sorted(), "a later cut has the older generation: {cuts:?}");
}
