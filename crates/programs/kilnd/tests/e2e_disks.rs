//! Disks that are mounted before or after kubelet has started, on a real systemd and real file systems.

mod booted;

use std::path::{Path, PathBuf};
use std::process::Command;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use booted::stage::{IMAGE, Stage};
use kilnd::apply::deferred::{DiskError, Preparation, clean};
use serde_json::{Value, json};
use test_deps::TestDep;
use testkit::nspawn::Machine;

/// The disk is a file, because systemd in a container ignores devices in `fstab`.
const DISK: &str = "/var/lib/disk.img";

#[test]
fn temporary_disk_is_mounted_after_kubelet_start_and_at_the_next_boot() {
    let mut image: Value = serde_json::from_str(IMAGE).expect("JSON");
    image["temporaryDisk"] = json!(DISK);
    let mut blueprint = Stage::with_fakes("disk").file("/usr/lib/kiln/image.json", image.to_string());
    // The kernel attaches the file to a loop device, and detaches it with the unmount.
    let loops = std::fs::read_dir("/dev").expect("/dev").flatten().map(|entry| entry.path());
    for device in loops.filter(|path| path.to_string_lossy().starts_with("/dev/loop")) {
        blueprint = blueprint.argument(format!("--bind={}", device.display()));
    }
    let mut machine = blueprint.build();
    machine.shell(&format!(
        "truncate -s 16M {DISK} && mkdir /tmp/on-it && echo scratch >/tmp/on-it/file && mkfs.ext4 -q -d /tmp/on-it {DISK}"
    ));
    machine.hardware("dmi/product_uuid", ONE);
    let document = max_pods(1, 30).with("/spec/platform/temporaryDisk/mountPath", json!("/mnt"));
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&document)));
    machine.boot();
    machine.wait_for("mnt.mount", "active");
    assert_eq!(machine.shell("findmnt --noheadings --output FSTYPE /mnt; cat /mnt/file").stdout, "ext4\nscratch\n");
    let usec = |unit: &str, property: &str| machine.property(unit, property).parse::<u64>().unwrap_or_default();
    let kubelet = usec("kubelet.service", "ExecMainStartTimestampMonotonic");
    let mounted = usec("mnt.mount", "InactiveExitTimestampMonotonic");
    assert!(0 < kubelet && kubelet < mounted, "kubelet at {kubelet}, the disk at {mounted}");
    Stage::wait_committed(&machine, 1);

    machine.reboot();
    machine.wait_for("mnt.mount", "active");
    assert_eq!(machine.read("/mnt/file").as_deref(), Some("scratch\n"), "the file system was not formatted again");
}

/// Runs a program of the host.
#[track_caller]
fn host(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An image with an NTFS, filled by a function while it is mounted through ntfs-3g.
fn ntfs(folder: &Path, label: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let (image, mounted) = (folder.join("image"), folder.join("mounted"));
    std::fs::File::create(&image).and_then(|file| file.set_len(24 << 20)).expect("an image");
    std::fs::create_dir_all(&mounted).expect("a folder");
    let make = testkit::require(TestDep::NtfsTools);
    let (image_text, mounted_text) = (image.to_string_lossy(), mounted.to_string_lossy());
    host(&[&make.to_string_lossy(), "--quick", "--force", "--quiet", "--label", label, &image_text]);
    host(&["ntfs-3g", &image_text, &mounted_text]);
    fill(&mounted);
    host(&["umount", &mounted_text]);
    image
}

/// What Azure puts on a new disk.
fn azure_files(disk: &Path) {
    std::fs::write(disk.join("DATALOSS_WARNING_README.txt"), "WARNING: THIS IS A TEMPORARY DISK.").expect("written");
    std::fs::create_dir(disk.join("System Volume Information")).expect("a folder");
    std::fs::write(disk.join("System Volume Information/tracking.log"), "x").expect("written");
}

#[test]
fn only_the_unused_ntfs_of_azure_is_removed() {
    const LABEL: &str = "Temporary Storage";
    let folder = tempfile::tempdir().expect("a folder");
    let numbered = |disk: &Path, number: u32| disk.join(format!("a file with a long name, number {number}"));
    let in_use = |image: &Path, expected: &str| {
        let before = std::fs::read(image).expect("an image");
        let error = clean(image, "/dev/x").expect_err("in use");
        assert!(matches!(&error, DiskError::InUse { reason, .. } if reason.contains(expected)), "{error}");
        assert!(std::fs::read(image).expect("an image") == before, "the disk was changed");
    };
    let image = ntfs(folder.path(), LABEL, azure_files);
    assert_eq!(clean(&image, "/dev/x").expect("cleaned"), Preparation::Wiped);
    assert_eq!(clean(&image, "/dev/x").expect("left alone"), Preparation::Unchanged, "there is no NTFS any more");

    in_use(&ntfs(folder.path(), "Data", azure_files), "its label is `Data`");
    let with_file = |disk: &Path| {
        azure_files(disk);
        std::fs::write(disk.join("database"), "x").expect("written");
    };
    in_use(&ntfs(folder.path(), LABEL, with_file), "it contains `database`");
    // So many names do not fit into the record of the folder.
    let with_many = |disk: &Path| {
        (0..300).for_each(|number| std::fs::write(numbered(disk, number), "x").expect("written"));
    };
    in_use(&ntfs(folder.path(), LABEL, with_many), "and 299 more");
    let deleted = |disk: &Path| {
        azure_files(disk);
        with_many(disk);
        (0..300).for_each(|number| std::fs::remove_file(numbered(disk, number)).expect("removed"));
    };
    assert_eq!(clean(&ntfs(folder.path(), LABEL, deleted), "/dev/x").expect("cleaned"), Preparation::Wiped);
    // A damaged one cannot be judged.
    let image = ntfs(folder.path(), LABEL, azure_files);
    let mut bytes = std::fs::read(&image).expect("an image");
    let records: Vec<usize> = (0..bytes.len() - 5).step_by(512).filter(|at| &bytes[*at..at + 4] == b"FILE").collect();
    assert!(records.len() > 5, "{records:?}");
    for at in &records {
        bytes[*at] = b'X';
    }
    std::fs::write(&image, bytes).expect("written");
    in_use(&image, "cannot read its NTFS");
}

/// A loop device, detached at the end.
struct Loop(String);

impl Loop {
    fn attach(image: &Path) -> Self {
        Self(host(&["losetup", "--find", "--show", &image.to_string_lossy()]))
    }

    /// Replaces the content.
    fn put(&self, image: &Path) {
        host(&[
            "dd",
            &format!("if={}", image.display()),
            &format!("of={}", self.0),
            "bs=1M",
            "conv=fsync",
            "status=none",
        ]);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// Waits until the boot has failed with this message, and checks that the kubelet did not start.
#[track_caller]
fn assert_gate_shut(machine: &Machine, message: &str) {
    machine.wait_until(message, |machine| machine.journal(Some("kiln-config")).contains(message).then_some(()));
    assert_eq!(machine.property("kubelet.service", "ActiveState"), "inactive", "{message}");
    assert!(!machine.exists("/run/kiln/ready"), "{message}");
}

#[test]
fn kubelet_on_the_temporary_disk_waits_for_a_disk_that_can_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = |name: &str, fill: fn(&Path)| {
        let copy = folder.path().join(name);
        std::fs::rename(ntfs(folder.path(), "Temporary Storage", fill), &copy).expect("renamed");
        copy
    };
    let fresh = image("fresh", azure_files);
    let used = image("used", |disk| std::fs::write(disk.join("database"), "x").expect("written"));
    std::fs::copy(&used, folder.path().join("disk")).expect("a copy");
    let disk = Loop::attach(&folder.path().join("disk"));
    let device = &disk.0;
    let makefs = format!("systemd-makefs@{}.service", device.trim_start_matches('/').replace('/', "-"));
    let mut description: Value = serde_json::from_str(IMAGE).expect("JSON");
    description["temporaryDisk"] = json!(device);
    // The generator of fstab ignores devices in containers, so these are the units that it writes elsewhere.
    let mut machine = Stage::with_fakes("temporary")
        .file("/usr/lib/kiln/image.json", description.to_string())
        .file(
            "/etc/systemd/system/mnt.mount",
            format!("[Unit]\nRequires={makefs}\nAfter={makefs}\n[Mount]\nWhat={device}\nWhere=/mnt\nType=ext4\n"),
        )
        .file(
            &format!("/etc/systemd/system/{makefs}"),
            format!("[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/lib/systemd/systemd-makefs ext4 {device}\n"),
        )
        // As `nofail` in fstab: systemd tries to mount it at boot and goes on without it.
        .link("/etc/systemd/system/local-fs.target.wants/mnt.mount", "../mnt.mount")
        .argument(format!("--bind={device}"))
        .build();
    machine.hardware("dmi/product_uuid", ONE);
    let document = max_pods(1, 30)
        .with("/spec/platform/temporaryDisk/mountPath", json!("/mnt"))
        .with("/spec/platform/temporaryDisk/kubeletRoot", json!(true));
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&document)));
    Stage::speed_up_boot(&machine, 50);
    machine.boot();
    assert_gate_shut(&machine, "has an NTFS that is not Azure's unused one (it contains `database`)");
    machine.power_off();

    let file_system = |machine: &Machine| machine.shell("findmnt --noheadings --output FSTYPE /mnt || true").stdout;
    for boot in ["a new disk", "a new disk after a deallocation"] {
        disk.put(&fresh);
        machine.boot();
        machine.wait_for("kubelet.service", "active");
        assert_eq!(file_system(&machine), "ext4\n", "{boot}");
        Stage::wait_committed(&machine, 1);
        machine.power_off();
    }
    disk.put(&used);
    machine.boot();
    assert_gate_shut(&machine, "has an NTFS that is not Azure's unused one (it contains `database`)");
    machine.power_off();

    description["temporaryDisk"] = json!("/dev/disk/azure/resource-part1");
    machine.write("/usr/lib/kiln/image.json", description.to_string().as_bytes(), 0o644);
    machine.boot();
    assert_gate_shut(&machine, "the temporary disk `/dev/disk/azure/resource-part1` does not exist");
}
