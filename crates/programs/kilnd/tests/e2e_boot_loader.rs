//! `kiln-boot-loader.service` on systems without `update-grub`: with systemd's real `kernel-install`, and with a stand-in for `grubby`, which Debian does not have.

use std::path::Path;

use testkit::nspawn::{Blueprint, Machine};

const UNIT: &str = "kiln-boot-loader.service";

/// Records its arguments.
const GRUBBY: &str = "#!/bin/sh\necho \"$*\" >>/var/lib/grubby\n";

fn machine(name: &str) -> Blueprint {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units").join(UNIT);
    Blueprint::new(name).file(&format!("/etc/systemd/system/{UNIT}"), std::fs::read(unit).expect("the unit"))
}

/// Writes the file as kilnd does, and starts the unit.
fn set_arguments(machine: &Machine, arguments: &str) {
    let text = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {arguments}\"\n");
    machine.write("/etc/default/grub.d/90-kiln.cfg", text.as_bytes(), 0o644);
    let started = machine.run(&["systemctl", "start", UNIT]);
    assert_eq!(started.code, Some(0), "{started}\n{}", machine.journal(Some(UNIT)));
}

#[test]
fn kernel_install_writes_the_arguments_into_every_entry() {
    let machine = machine("kernel-install")
        .file("/etc/kernel/install.conf", "layout=bls\n")
        .file("/etc/kernel/entry-token", "kiln-test\n")
        .file("/etc/kernel/cmdline", "root=/dev/sda1 quiet\n")
        .file("/usr/lib/modules/6.1.0-test/vmlinuz", "kernel")
        .file("/boot/kiln-test/.keep", "")
        .boot();
    let options = || {
        let text = machine.shell("cat /boot/loader/entries/kiln-test-6.1.0-test.conf").stdout;
        let line = text.lines().find_map(|line| line.strip_prefix("options")).map(str::trim).unwrap_or_default();
        line.to_owned()
    };
    set_arguments(&machine, "nosmt quiet hugepages=4");
    let line = options();
    assert!(line.starts_with("root=/dev/sda1 quiet nosmt hugepages=4"), "{line}");
    set_arguments(&machine, "hugepages=8");
    let line = options();
    assert!(line.starts_with("root=/dev/sda1 quiet hugepages=8"), "the image's own argument stays: {line}");
    machine.shell("rm /etc/default/grub.d/90-kiln.cfg");
    assert_eq!(machine.run(&["systemctl", "start", UNIT]).code, Some(0));
    let line = options();
    assert!(line.starts_with("root=/dev/sda1 quiet") && !line.contains("hugepages"), "{line}");
}

#[test]
fn grubby_adds_new_arguments_and_removes_old_ones() {
    let machine = machine("grubby").executable("/usr/sbin/grubby", GRUBBY).boot();
    set_arguments(&machine, "nosmt hugepages=4");
    set_arguments(&machine, "hugepages=8");
    let calls = machine.read("/var/lib/grubby").unwrap_or_default();
    let wanted = "--update-kernel=ALL --args=nosmt hugepages=4\n\
                  --update-kernel=ALL --remove-args=nosmt hugepages=4\n\
                  --update-kernel=ALL --args=hugepages=8\n";
    assert_eq!(calls, wanted);
}
