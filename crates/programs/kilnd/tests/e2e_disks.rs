//! Disks that are mounted after kubelet has started, on a real systemd and a real file system.

mod booted;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use booted::stage::{IMAGE, Stage};
use serde_json::{Value, json};

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
