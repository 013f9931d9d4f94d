//! First boots under mandatory access control, in QEMU: a container has the kernel of its host, which rarely has SELinux or `AppArmor`. Real
//! systemd, kernel and policies; the kubelet is a fake. cloud-init is off, because under emulation it would take most of the time; `e2e_images`
//! has it.
//!
//! Debian's SELinux policy is refpolicy, as on Azure Linux. kilnd needs no dedicated domain: its units run in `initrc_t`, the domain of
//! services without one.

mod booted;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use kiln_machines::command::{run, tail};
use kiln_machines::qemu::{self, AZURE_ASSET_TAG, Accelerator, Disk, VirtualMachine};
use kiln_machines::tools;
use serde_json::json;
use test_deps::TestDep;
use testkit::require;

/// The limit of a machine. It takes 80 s on an idle host.
const SECONDS: u32 = 900;

/// Enough for the journal of one boot.
const REPORT_SIZE: u64 = 16 << 20;

/// A server for `kilnd watch`, which commits the generation when it answers.
const KUBELET: &str = r#"#!/usr/bin/perl
use strict; use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1:10248', Listen => 5, ReuseAddr => 1) or die "$!";
while (my $client = $server->accept) {
    while (my $line = <$client>) { last if $line =~ /^\r?\n$/ }
    print $client "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    close $client;
}
"#;

const KUBELET_UNIT: &str =
    "[Unit]\nDescription=kubelet\n[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n";

const REPORT_UNIT: &str = "[Unit]\nDescription=Report on this boot and turn the machine off\n[Service]\nType=exec\n\
                           ExecStart=/usr/local/sbin/report\n[Install]\nWantedBy=multi-user.target\n";

/// Waits until kilnd has done everything, also its deferred work, and writes the report to the third disk.
const REPORT: &str = r#"#!/bin/sh
is_done() {
    grep -q '"committed"' /var/lib/kiln/state.json && grep -q swapfile /proc/swaps && test -e /etc/ssh/ssh_host_ecdsa_key
}
for i in $(seq 300); do is_done && break; sleep 1; done
mkdir -p /run/report && cd /run/report
for unit in kiln-identity.service kiln-config.service kiln-watch.service kubelet.service; do
    echo "$unit $(systemctl show --property=ActiveState --value $unit) $(systemctl show --property=Result --value $unit)"
done >units
cat /proc/$(systemctl show --property=MainPID --value kiln-watch.service)/attr/current | tr -d '\0' >domain
cp /run/kiln/ready /var/lib/kiln/state.json .
# Everything that was written during this boot, by kilnd or others.
find /boot /etc /home /opt /root /run/kiln /srv /usr/lib/kiln /usr/lib/systemd /usr/local /var -newerct "$(uptime -s)" >changed
/usr/local/sbin/report-security
journalctl --boot --no-pager --output=short-monotonic >journal
tar cf /dev/nvme2n1 . && sync
echo REPORT-DONE >/dev/ttyS0
systemctl poweroff --force --force
"#;

/// Builds the root folder and its image, in private namespaces. Labels are set before `kilnd enable`, as when an RPM is installed.
const BUILD: &str = r#"set -eu
lower=$1 folder=$2; shift 2
root=$folder/root
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work,xino=on" "$root"
rm -f "$root/var/lib/dbus/machine-id"
mount -t proc proc "$root/proc"
if grep -q enforcing "$root/etc/selinux/config"; then
    chroot "$root" setfiles -F -m /etc/selinux/default/contexts/files/file_contexts /
else
    rm -r "$root/etc/selinux"
fi
umount "$root/proc"
"$root/usr/bin/kilnd" enable --yes --root "$root"
"$@"
"#;

fn root_of(part: TestDep) -> PathBuf {
    require(part).ancestors().find(|path| path.ends_with("root")).expect("a root folder").to_owned()
}

/// An image in the making: the files that are laid over the test dependency's root folder.
struct Image {
    folder: tempfile::TempDir,
    tools: PathBuf,
}

impl Image {
    /// An image with kilnd's package, a fake kubelet and a unit that reports. `security` is the part of the report about access control.
    fn new(security: &str) -> Self {
        // On a disk: not every tmpfs stores labels.
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        for name in ["upper", "work", "root", "media"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let image = Self { folder, tools: root_of(TestDep::BenchTools) };
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
        for pattern in [".", "kubelet.service.d", "containerd.service.d"] {
            for entry in
                fs::read_dir(units.join(pattern)).expect("units").flatten().filter(|entry| entry.path().is_file())
            {
                let path = Path::new("usr/lib/kiln/units").join(pattern).join(entry.file_name());
                image.write(&path, &fs::read(entry.path()).expect("a unit"), 0o644);
            }
        }
        let program = fs::read(env!("CARGO_BIN_EXE_kilnd")).expect("kilnd");
        let kubelets = json!({"kubelets": {"1.34.4": "/usr/bin/kubelet"}}).to_string();
        let report = format!("#!/bin/sh\n{security}");
        let run =
            |command: &str| format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd {command} --cd /dev/nvme1n1\n");
        let (boot, watch) = (run("boot"), run("watch --time-scale 10"));
        for (path, content, mode) in [
            ("usr/bin/kilnd", &program[..], 0o755),
            ("usr/lib/kiln/image.json", kubelets.as_bytes(), 0o644),
            ("usr/bin/kubelet", KUBELET.as_bytes(), 0o755),
            ("usr/lib/systemd/system/kubelet.service", KUBELET_UNIT.as_bytes(), 0o644),
            ("usr/lib/systemd/system/report.service", REPORT_UNIT.as_bytes(), 0o644),
            ("usr/lib/systemd/system/kiln-config.service.d/test.conf", boot.as_bytes(), 0o644),
            ("usr/lib/systemd/system/kiln-watch.service.d/test.conf", watch.as_bytes(), 0o644),
            ("usr/local/sbin/report", REPORT.as_bytes(), 0o755),
            ("usr/local/sbin/report-security", report.as_bytes(), 0o755),
            ("etc/cloud/cloud-init.disabled", b"", 0o644),
            ("etc/machine-id", b"", 0o644),
        ] {
            image.write(Path::new(path), content, mode);
        }
        for unit in ["kubelet.service", "report.service"] {
            image.enable("multi-user.target", unit);
        }
        image
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) {
        let file = self.folder.path().join("upper").join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        fs::write(&file, content).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn enable(&self, target: &str, unit: &str) {
        let wants = self.folder.path().join(format!("upper/etc/systemd/system/{target}.wants"));
        fs::create_dir_all(&wants).expect("folders");
        symlink(format!("/usr/lib/systemd/system/{unit}"), wants.join(unit)).expect("a link");
    }

    /// Copies files and folders of the root with the tools.
    fn copy_from_tools(&self, paths: &[&str]) {
        let mut command = Command::new("cp");
        command.args(["--archive", "--parents"]).args(paths).arg(self.folder.path().join("upper"));
        run(command.current_dir(&self.tools)).expect("copied");
    }

    /// Boots the image with provisioning media and reads its report.
    fn first_boot(&self, kernel_arguments: &str) -> Report {
        let at = |name: &str| self.folder.path().join(name);
        let mut build = Command::new("unshare");
        build.args(["--mount", "--net", "sh", "-c", BUILD, "sh"]);
        build.arg(root_of(TestDep::ImageRoot)).arg(self.folder.path());
        build.args(tools::program(Some(&self.tools), "mke2fs")).args(["-q", "-F", "-t", "ext4"]);
        build.args(["-E", "lazy_itable_init=1", "-d"]).args([at("root"), at("root.raw")]).arg("3G");
        run(build.env("MKE2FS_CONFIG", self.tools.join("etc/mke2fs.conf"))).expect("an image");

        let document = max_pods(1, 30)
            // There is no network, and every attempt would take time from the rest.
            .with("/spec/update/pollSeconds", json!(3600))
            .with("/spec/platform/reportReady", json!(false))
            .with("/spec/platform/hostName", json!("node-1"))
            .with("/spec/platform/users", json!([{"name": "ann", "sshKeys": ["ssh-ed25519 AAAA ann"], "sudo": true}]))
            .with("/spec/os/swap/sizeMib", json!(16))
            .with("/spec/os/sysctl", json!({"vm.max_map_count": "262144"}))
            .with("/spec/os/time", json!({"servers": ["time.example"], "zone": "UTC"}))
            .with("/spec/kubelet/configuration/failSwapOn", json!(false))
            .with("/spec/files", json!([{"path": "/etc/motd", "content": "a\n"}, {"path": "/srv/app/b", "content": "b\n"}]))
            .with("/spec/units", json!([{"name": "kubelet.service", "dropIns": [{"name": "10-a.conf", "content": "[Service]\nLimitNOFILE=4096\n"}]}]));
        fs::write(at("media/ovf-env.xml"), ovf_env("node-1", Some(&document))).expect("written");
        qemu::make_iso(Some(&self.tools), &at("media.iso"), &at("media")).expect("media");
        let report = at("report.raw");
        fs::File::create(&report).and_then(|file| file.set_len(REPORT_SIZE)).expect("a file");

        let boot = root_of(TestDep::BenchRoot).join("boot");
        let mut kernels = fs::read_dir(&boot).expect("a folder").flatten().map(|entry| entry.path());
        let kernel = kernels.find(|path| path.to_string_lossy().contains("/vmlinuz-")).expect("a kernel");
        let arguments = format!("console=ttyS0 root=/dev/nvme0n1 rw mitigations=off panic=-1 {kernel_arguments}");
        let (root, media) = (at("root.raw"), at("media.iso"));
        let disks = [("root", &root), ("media", &media), ("report", &report)];
        let machine = VirtualMachine {
            memory_mib: 1024,
            vm_id: Some(ONE),
            asset_tag: Some(AZURE_ASSET_TAG),
            disks: disks.map(|(id, file)| Disk { id, file, format: "raw", log: None }).to_vec(),
            kernel: Some((&kernel, &arguments)),
            ..VirtualMachine::new(Some(&self.tools), Accelerator::Emulation)
        };
        let ended = machine.run(SECONDS).expect("QEMU");
        let is_reported = ended.console.contains("REPORT-DONE") && !ended.is_killed;
        assert!(is_reported, "{}", tail(&ended.console, 60));
        let folder = tempfile::tempdir().expect("a folder");
        run(Command::new("tar").arg("-xf").arg(&report).arg("-C").arg(folder.path())).expect("a report");
        Report(folder)
    }
}

struct Report(tempfile::TempDir);

impl Report {
    fn text(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.kiln_journal()))
    }

    /// The journal of kilnd and its units.
    fn kiln_journal(&self) -> String {
        let journal = fs::read_to_string(self.0.path().join("journal")).unwrap_or_default();
        journal.lines().filter(|line| line.contains("kiln")).collect::<Vec<_>>().join("\n")
    }

    /// kilnd has configured the machine, the gate is open, the kubelet runs, and the generation was committed.
    #[track_caller]
    fn assert_configured(&self) {
        let expected = "kiln-identity.service active success\nkiln-config.service active success\n\
                        kiln-watch.service active success\nkubelet.service active success\n";
        assert_eq!(self.text("units"), expected, "{}", self.kiln_journal());
        assert!(!self.text("ready").is_empty());
        let state: serde_json::Value = serde_json::from_str(&self.text("state.json")).expect("JSON");
        assert_eq!(state["committed"]["number"], 1, "{state}\n{}", self.kiln_journal());
        let changed = self.text("changed");
        for path in [
            "/etc/kiln/current",
            "/etc/motd",
            "/etc/shadow",
            "/etc/ssh/ssh_host_ecdsa_key",
            "/etc/systemd/system/kubelet.service.d/10-a.conf",
            "/home/ann/.ssh/authorized_keys",
            "/run/kiln/ready",
            "/srv/app/b",
            "/var/lib/kiln/state.json",
            "/var/lib/kiln/swapfile",
        ] {
            assert!(changed.lines().any(|line| line == path), "kilnd did not write `{path}`\n{changed}");
        }
    }
}

/// `setfiles` lists files whose label is not the one of the policy. It may not read the last file: the denial proves that denials are recorded.
const SELINUX_REPORT: &str = "\
getenforce >mode
xargs -d '\\n' stat --format='%C %n' <changed >contexts
list=/etc/selinux/default/contexts/files/file_contexts
{ find $(cat changed) -maxdepth 0 ! -type d; find /usr/lib/kiln /etc/kiln /var/lib/kiln /home/ann; } | setfiles -n -v -F -m -f - $list 2>&1 | cat >labels
setfiles -n -f /run/report/changed $list
";

/// The domain of services without one, in refpolicy.
const DOMAIN: &str = "system_u:system_r:initrc_t:s0";

#[test]
fn first_boot_with_selinux_enforcing_has_no_denial_and_every_file_has_its_label() {
    let image = Image::new(SELINUX_REPORT);
    image.write(Path::new("etc/selinux/config"), b"SELINUX=enforcing\nSELINUXTYPE=default\n", 0o644);
    let release = b"NAME=\"Microsoft Azure Linux\"\nID=azurelinux\nVERSION_ID=\"3.0\"\n";
    image.write(Path::new("usr/lib/os-release"), release, 0o644);
    let report = image.first_boot("security=selinux");
    assert_eq!(report.text("mode"), "Enforcing\n");

    let journal = report.text("journal");
    let denials = || journal.lines().filter(|line| line.contains("avc:  denied"));
    let is_about_kiln = |line: &&str| {
        ["kiln", "swapfile", ":initrc_t:", "ssh", "kubelet", "unlabeled_t"].iter().any(|word| line.contains(word))
    };
    // The policy denies something to other services too; that is Debian's business. `setfiles` may not read a report, which is `initrc_t`'s.
    let is_control = |line: &&str| line.contains("comm=\"setfiles\"") && line.contains("name=\"changed\"");
    assert!(denials().any(|line| is_control(&line)), "denials are recorded");
    let ours: Vec<&str> = denials().filter(|line| is_about_kiln(line) && !is_control(line)).collect();
    assert!(ours.is_empty(), "{ours:#?}");

    let labels = report.text("labels");
    // containerd creates its folders in `/opt` without asking the policy.
    let wrong: Vec<&str> =
        labels.lines().filter(|line| line.contains("relabel") && !line.contains(" /opt/containerd/")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    report.assert_configured();
    assert_eq!(report.text("domain").trim(), DOMAIN);
    let contexts = report.text("contexts");
    let unlabelled: Vec<&str> = contexts.lines().filter(|line| line.contains("unlabeled_t")).collect();
    assert!(unlabelled.is_empty(), "{unlabelled:#?}");
    let has = |label: &str, path: &str| {
        let line = format!("system_u:object_r:{label}:s0 {path}");
        assert!(contexts.lines().any(|known| known == line), "no `{line}` in\n{contexts}");
    };
    has("shadow_t", "/etc/shadow");
    has("swapfile_t", "/var/lib/kiln/swapfile");
    has("sshd_key_t", "/etc/ssh/ssh_host_ecdsa_key");
    has("initrc_runtime_t", "/run/kiln/ready");
}

/// A program that may read nothing but libraries: its denial proves that denials are recorded.
const CONTROL: &str = "\
#include <tunables/global>
profile control /usr/local/bin/control {
  #include <abstractions/base>
  /usr/local/bin/control mr,
}
";

const APPARMOR_REPORT: &str = "\
cat /sys/module/apparmor/parameters/enabled >mode
cat /sys/kernel/security/apparmor/profiles >profiles
aa-status >status
cp /usr/bin/cat /usr/local/bin/control && control /etc/shadow
";

#[test]
fn first_boot_with_apparmor_active_has_no_denial() {
    let image = Image::new(APPARMOR_REPORT);
    let release = b"NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n";
    image.write(Path::new("usr/lib/os-release"), release, 0o644);
    image.copy_from_tools(&[
        "etc/apparmor",
        "etc/apparmor.d",
        "usr/lib/apparmor",
        "usr/lib/systemd/system/apparmor.service",
        "usr/sbin/aa-status",
        "usr/sbin/apparmor_parser",
        "usr/share/apparmor-features",
    ]);
    image.write(Path::new("etc/apparmor.d/control"), CONTROL.as_bytes(), 0o644);
    image.enable("sysinit.target", "apparmor.service");
    let report = image.first_boot("apparmor=1 security=apparmor");
    assert_eq!(report.text("mode"), "Y\n");
    assert!(report.text("profiles").contains("control (enforce)"), "{}", report.text("profiles"));
    assert!(report.text("status").contains("profiles are in enforce mode"), "{}", report.text("status"));

    let journal = report.text("journal");
    let denials = || journal.lines().filter(|line| line.contains("apparmor=\"DENIED\""));
    let is_control = |line: &&str| line.contains("profile=\"control\"");
    assert!(denials().any(|line| is_control(&line)), "denials are recorded");
    let others: Vec<&str> = denials().filter(|line| !is_control(line)).collect();
    assert!(others.is_empty(), "{others:#?}");
    report.assert_configured();
    assert_eq!(report.text("domain").trim(), "unconfined");
}
