//! The disk of a virtual machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::root::{IMAGE, UNITS, create_root, file, link};

/// Reports the identity of a machine to the test, once its kubelet has a certificate. The test cannot look into a virtual machine.
const REPORT: &str = r"[Unit]
After=kubelet.service
[Service]
ExecStart=/bin/sh -c 'until test -s /var/lib/kubelet/pki/kubelet-client-current.pem; do sleep 1; done; \
    (hostname; cat /etc/machine-id /sys/class/dmi/id/product_uuid /var/lib/kiln/vm-id; \
     sha256sum </var/lib/kubelet/pki/kubelet-client-current.pem; ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key; \
     cat /var/lib/kiln/ancestry.log) 2>&1 | \
    curl --silent --retry 30 --retry-all-errors --data-binary @- http://ADDRESS/report'
";

/// Creates the disk of a virtual machine, with its kernel next to it: the root folder of a node with kernel modules and DHCP.
pub(crate) fn create_disk(folder: &Path, debian: &Path, with_kernel: &Path, tools: &Path, report_to: &str) -> PathBuf {
    let root = folder.join("root");
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    create_root(&root, debian);
    let modules =
        Command::new("cp").arg("-a").arg(with_kernel.join("usr/lib/modules")).arg(root.join("usr/lib")).status();
    assert!(modules.is_ok_and(|status| status.success()), "cannot copy the kernel modules");
    file(&root, "etc/modules-load.d/node.conf", b"isofs\noverlay\nveth\n", 0o644);
    file(&root, "usr/lib/kiln/image.json", IMAGE.replace("host0", "eth0").as_bytes(), 0o644);
    file(&root, "etc/systemd/network/80-dhcp.network", b"[Match]\nName=eth0\n[Network]\nDHCP=ipv4\n", 0o644);
    let report = REPORT.replace("ADDRESS", report_to);
    file(&root, &format!("{UNITS}/report.service"), report.as_bytes(), 0o644);
    for unit in ["systemd-networkd", "report"] {
        link(
            &root,
            &format!("etc/systemd/system/multi-user.target.wants/{unit}.service"),
            &format!("/{UNITS}/{unit}.service"),
        );
    }
    let boot = fs::read_dir(with_kernel.join("boot")).into_iter().flatten().flatten().map(|entry| entry.path());
    let kernel = boot.into_iter().find(|path| path.to_string_lossy().contains("/vmlinuz-")).expect("a kernel");
    let disk = folder.join("node.raw");
    let words = kiln_local::sandbox::program(Some(tools), "mke2fs");
    let options = ["-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1", "-d"];
    let mut command = Command::new(&words[0]);
    let made = command.args(&words[1..]).args(options).arg(&root).arg(&disk).arg("4G").output().expect("mke2fs runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::copy(&kernel, folder.join("node.raw.vmlinuz")).expect("copied");
    fs::remove_dir_all(&root).expect("removed");
    disk
}
