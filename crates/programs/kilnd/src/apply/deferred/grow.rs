//! Grows the root partition and its file system to the size of the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::file_system;
use crate::apply::Error;

/// The unit of sizes in sysfs, whatever the sector size.
const SECTOR: u64 = 512;

/// Space that may stay free at the end of a disk, for the backup GPT and alignment, in sectors of 512 bytes.
const SLACK: u64 = 4096;

/// Block devices by name and by number.
const BLOCK: &str = "/sys/class/block";
const NUMBERS: &str = "/sys/dev/block";

/// Paths; tests use other ones.
#[derive(Clone, Debug)]
struct Disks {
    block: PathBuf,
    numbers: PathBuf,
    devices: PathBuf,
    /// The mount point of the root file system.
    root: PathBuf,
    mounts: String,
    tools: Vec<PathBuf>,
}

/// A partition on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Partition {
    disk: String,
    number: u32,
    has_room: bool,
    /// Whether the file system on it is as large as it is.
    is_full: bool,
}

/// Whether neither the root partition nor its file system can grow. True without a partition, for example on a network file system.
pub fn is_root_grown(mountinfo: &str) -> bool {
    Disks::new(mountinfo.to_owned()).root().is_none_or(|partition| !partition.has_room && partition.is_full)
}

/// Grows the root partition if there is free space after it, and the file system.
pub fn grow_root() -> Result<(), Error> {
    let path = PathBuf::from("/proc/self/mountinfo");
    let mounts = fs::read(&path).map_err(|source| Error::Io { path, source })?;
    // The mount point of a pod's volume may not be UTF-8.
    Disks::new(String::from_utf8_lossy(&mounts).into_owned()).grow()
}

impl Disks {
    /// The disks of this machine.
    fn new(mounts: String) -> Self {
        let tools =
            ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/lib/systemd", "/lib/systemd"].map(PathBuf::from).to_vec();
        let [block, numbers, devices, root] = [BLOCK, NUMBERS, "/dev", "/"].map(PathBuf::from);
        Self { block, numbers, devices, root, mounts, tools }
    }

    fn grow(&self) -> Result<(), Error> {
        if let Some(partition) = self.root().filter(|partition| partition.has_room) {
            let device = format!("/dev/{}", partition.disk);
            let number = partition.number.to_string();
            if let Some(tool) = self.tool("growpart") {
                run(&tool, &[&device, &number], "")?;
            } else {
                // The same without cloud-utils.
                run(&self.needed("sfdisk")?, &["--no-reread", "--force", "-N", &number, &device], ", +\n")?;
                // The kernel must be notified, because the partition is in use.
                run(&self.needed("partx")?, &["--update", "--nr", &number, &device], "")?;
            }
        }
        run(&self.needed("systemd-growfs")?, &["/"], "")
    }

    fn root(&self) -> Option<Partition> {
        let line = self.mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/"))?;
        let (ahead, behind) = line.split_once(" - ")?;
        let (kind, source) = behind.split_once(' ')?;
        let source = source.split(' ').next()?;
        // By number, because without an initrd the kernel names the device `/dev/root`, which does not exist. By name if the number is
        // virtual, as with btrfs.
        let by_number = fs::canonicalize(self.numbers.join(ahead.split(' ').nth(2)?));
        let folder =
            by_number.ok().or_else(|| fs::canonicalize(self.block.join(source.strip_prefix("/dev/")?)).ok())?;
        let number = |folder: &Path, file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        let index = number(&folder, "partition")?;
        let disk = folder.parent()?;
        let size = number(&folder, "size")?;
        let end = number(&folder, "start")? + size;
        // Another partition after it prevents growing.
        let others = fs::read_dir(disk).ok()?.flatten().filter_map(|entry| number(&entry.path(), "start"));
        let is_last = others.max()? < end;
        let has_room = is_last && end + SLACK < number(disk, "size")?;
        let device = self.devices.join(folder.file_name()?);
        Some(Partition {
            disk: disk.file_name()?.to_string_lossy().into_owned(),
            number: u32::try_from(index).ok()?,
            has_room,
            is_full: file_system::is_full(kind, &device, &self.root, size * SECTOR),
        })
    }

    fn tool(&self, name: &str) -> Option<PathBuf> {
        self.tools.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    fn needed(&self, name: &str) -> Result<PathBuf, Error> {
        self.tool(name)
            .ok_or_else(|| Error::Tool { tool: name.to_owned(), output: "not found in this image".to_owned() })
    }
}

fn run(tool: &Path, args: &[&str], input: &str) -> Result<(), Error> {
    use std::io::Write as _;
    let failed = |output: String| Error::Tool { tool: format!("{} {}", tool.display(), args.join(" ")), output };
    let mut command = Command::new(tool);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut pipe) = child.stdin.take() {
        // Fails if the tool does not read its input.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // growpart exits with 1 and this word if there is nothing to do.
    let nothing = String::from_utf8_lossy(&output.stdout).contains("NOCHANGE");
    if output.status.success() || nothing { Ok(()) } else { Err(failed(message)) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::file_system::tests::ext4;
    use super::*;

    /// The size of the second partition, in sectors.
    const SIZE: u64 = 1_000_000;

    /// A machine whose root file system fills the second partition of a disk of this size.
    fn machine(folder: &Path, disk: u64, tools: &[&str]) -> Disks {
        let put = |path: &str, text: String| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, text).expect("written");
        };
        put("devices/sda/size", format!("{disk}\n"));
        for (name, number, start, size) in [("sda1", 1, 2048_u64, 100_000_u64), ("sda2", 2, 102_048, SIZE)] {
            put(&format!("devices/sda/{name}/partition"), format!("{number}\n"));
            put(&format!("devices/sda/{name}/start"), format!("{start}\n"));
            put(&format!("devices/sda/{name}/size"), format!("{size}\n"));
            fs::create_dir_all(folder.join("block")).expect("a folder");
            symlink(format!("../devices/sda/{name}"), folder.join("block").join(name)).expect("a link");
        }
        for tool in tools {
            fs::create_dir_all(folder.join("bin")).expect("a folder");
            let lines = format!("echo {tool} \"$@\" $(cat) >>{}/log", folder.display());
            testkit::script(&folder.join("bin").join(tool), &lines);
        }
        put("dev/sda1", String::new());
        fs::write(folder.join("dev/sda2"), ext4(SIZE * SECTOR)).expect("written");
        fs::create_dir(folder.join("numbers")).expect("a folder");
        symlink("../devices/sda/sda2", folder.join("numbers/8:2")).expect("a link");
        Disks {
            block: folder.join("block"),
            numbers: folder.join("numbers"),
            devices: folder.join("dev"),
            root: folder.to_owned(),
            mounts: "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n30 22 8:1 / /boot rw - ext4 /dev/sda1 rw\n"
                .to_owned(),
            tools: vec![folder.join("bin")],
        }
    }

    #[test]
    fn last_partition_grows_into_free_space() {
        let folder = tempfile::tempdir().expect("a folder");
        let disks = machine(folder.path(), 4_000_000, &["growpart", "sfdisk", "systemd-growfs"]);
        assert_eq!(disks.root(), Some(Partition { disk: "sda".to_owned(), number: 2, has_room: true, is_full: true }));
        disks.grow().expect("grown");
        let log = fs::read_to_string(folder.path().join("log")).expect("a log");
        assert_eq!(log, "growpart /dev/sda 2\nsystemd-growfs /\n");
    }

    #[test]
    fn file_system_smaller_than_its_partition_grows() {
        let folder = tempfile::tempdir().expect("a folder");
        let disks = machine(folder.path(), 1_104_000, &["systemd-growfs"]);
        let grown = |disks: &Disks| disks.root().is_none_or(|root| !root.has_room && root.is_full);
        assert!(grown(&disks));
        fs::write(folder.path().join("dev/sda2"), ext4(SIZE * SECTOR / 2)).expect("written");
        assert!(!grown(&disks), "the partition is full-size, but the file system has half of it");
        disks.grow().expect("grown");
        assert_eq!(fs::read_to_string(folder.path().join("log")).expect("a log"), "systemd-growfs /\n");
        fs::remove_file(folder.path().join("dev/sda2")).expect("removed");
        let unreadable = Disks { root: folder.path().join("nowhere"), ..disks };
        assert!(!grown(&unreadable), "unknown sizes do not count as grown");
    }

    #[test]
    fn root_device_is_found_by_number_or_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut disks = machine(folder.path(), 4_000_000, &[]);
        disks.mounts = "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n".to_owned();
        assert!(disks.root().expect("a root").has_room);
        disks.mounts = "22 1 0:27 / / rw,relatime shared:1 - btrfs /dev/sda2 rw\n".to_owned();
        assert!(disks.root().expect("a root by its name").has_room);
    }

    #[test]
    fn sfdisk_is_used_without_growpart() {
        let folder = tempfile::tempdir().expect("a folder");
        machine(folder.path(), 4_000_000, &["sfdisk", "partx", "systemd-growfs"]).grow().expect("grown");
        let log = fs::read_to_string(folder.path().join("log")).expect("a log");
        assert_eq!(
            log,
            "sfdisk --no-reread --force -N 2 /dev/sda , +\npartx --update --nr 2 /dev/sda\nsystemd-growfs /\n"
        );
    }

    #[test]
    fn full_disk_and_inner_partition_do_not_grow() {
        let folder = tempfile::tempdir().expect("a folder");
        let full = machine(folder.path(), 1_104_000, &["systemd-growfs"]);
        assert!(!full.root().expect("a root").has_room);
        full.grow().expect("only the file system");
        let other = tempfile::tempdir().expect("a folder");
        let mut disks = machine(other.path(), 4_000_000, &[]);
        disks.mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n".to_owned();
        assert!(!disks.root().expect("a root").has_room, "another partition follows");
        assert!(disks.grow().expect_err("no tool").to_string().contains("systemd-growfs"));
        disks.mounts = "22 1 0:1 / / rw - overlay overlay rw\n".to_owned();
        assert_eq!(disks.root(), None);
    }

    #[test]
    fn error_contains_the_output_of_the_tool() {
        let folder = tempfile::tempdir().expect("a folder");
        let tool = folder.path().join("tool");
        testkit::script(&tool, "echo no such disk >&2\nexit 3");
        let error = run(&tool, &["a"], "").expect_err("failed").to_string();
        assert!(error.contains("tool a") && error.contains("no such disk"), "{error}");
    }
}
