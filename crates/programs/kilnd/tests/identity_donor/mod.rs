//! A donor's disk as a folder: it has every item of the identity list, data of tenants, and cached images.

#![expect(dead_code, reason = "each test uses a part of this module")]

mod bolt;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kilnd::args::Locations;
use kilnd::node::Node;
use kilnd::sources::VmId;

pub(crate) const DONOR: &str = "11111111-2222-4333-8444-555555555555";
pub(crate) const DONOR_NAME: &str = "donor000001";
/// The text in every file of a tenant.
pub(crate) const TENANT: &str = "tenant-data-7f3a91";
/// The text in every secret; it must neither be shown nor be on a clone.
pub(crate) const SECRET: &str = "s3cr3t-0d1e2f";
/// The secret half of the donor's bootstrap token.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A folder that is a machine's disk.
pub(crate) struct Disk {
    pub(crate) folder: tempfile::TempDir,
}

impl Disk {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("written");
    }

    pub(crate) fn secret(&self, path: &str, text: impl AsRef<[u8]>) {
        self.write(path, text);
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o600)).expect("a mode");
    }

    pub(crate) fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    pub(crate) fn copy(&self) -> Self {
        let copy = empty();
        let from = format!("{}/.", self.path().display());
        let done = Command::new("cp").args(["-a", &from]).arg(copy.path()).status().expect("cp");
        assert!(done.success());
        copy
    }

    /// Sets the VM id that the firmware reports.
    pub(crate) fn set_vm_id(&self, id: &str) {
        self.write("/sys/class/dmi/id/product_uuid", format!("{id}\n"));
    }

    /// Runs kilnd on this disk, in the private network.
    pub(crate) fn kilnd(&self, args: &[&str]) -> Output {
        let mut kilnd = testkit::private().command(env!("CARGO_BIN_EXE_kilnd"));
        kilnd.arg("--root").arg(self.path()).args(args).output().expect("kilnd")
    }

    /// Opens the disk as a node in this process.
    pub(crate) fn node(&self) -> Node {
        let locations = Locations {
            root: self.path().to_owned(),
            imds: None,
            wire_server: None,
            dmi: None,
            cd: Vec::new(),
            credentials: None,
            systemd: None,
            links: None,
            time_scale: 1,
        };
        Node::open(&locations).expect("a node")
    }

    /// Every file with its bytes, mode and modification time, except below `/run` and `/sys`.
    pub(crate) fn everything(&self) -> BTreeMap<String, (Vec<u8>, u32, i64)> {
        let mut all = BTreeMap::new();
        walk(self.path(), "", &mut all);
        all.retain(|path, _| !path.starts_with("/run/") && !path.starts_with("/sys/"));
        all
    }

    /// The files that contain a text.
    pub(crate) fn files_containing(&self, text: &str) -> Vec<String> {
        let contains = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        self.everything().into_iter().filter(|(_, (bytes, ..))| contains(bytes)).map(|(path, _)| path).collect()
    }
}

pub(crate) fn empty() -> Disk {
    Disk { folder: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder") }
}

pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn is_id(text: &str) -> bool {
    text.parse::<VmId>().is_ok()
}

fn walk(folder: &Path, shown: &str, into: &mut BTreeMap<String, (Vec<u8>, u32, i64)>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = format!("{shown}/{}", entry.file_name().to_string_lossy());
        let metadata = entry.path().symlink_metadata().expect("metadata");
        if metadata.is_dir() {
            walk(&entry.path(), &path, into);
        } else {
            let bytes = if metadata.is_symlink() {
                fs::read_link(entry.path()).expect("a link").into_os_string().into_encoded_bytes()
            } else {
                fs::read(entry.path()).expect("bytes")
            };
            into.insert(path, (bytes, metadata.mode(), metadata.mtime_nsec()));
        }
    }
}

/// Gives the donor a NodeConfig whose `credentialFrom` names this file.
pub(crate) fn set_credential_source(disk: &Disk, kind: &str, path: &str) {
    let document = serde_json::json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"generation": 3},
        "spec": {"credentialFrom": {"kind": kind, "name": path}},
    });
    disk.write("/etc/kiln/generations/3-h/config.json", document.to_string());
}

/// A donor that joined with a bootstrap token and ran for a while.
pub(crate) fn donor() -> Disk {
    let disk = empty();
    disk.set_vm_id(DONOR);
    disk.write("/var/lib/kiln/vm-id", format!("{DONOR}\n"));
    disk.write(
        "/var/lib/kiln/state.json",
        "{\"committed\":{\"number\":3,\"hash\":\"h\",\"folder\":\"3-h\",\"source\":\"imds\"}}",
    );
    disk.write("/etc/kiln/generations/3-h/kubelet.env", "KUBELET_ARGS=\n");
    disk.secret("/etc/kiln/generations/3-h/credential", format!("abcdef.{TOKEN}"));
    symlink("generations/3-h", disk.at("/etc/kiln/current")).expect("a link");
    disk.write("/usr/lib/systemd/system/kiln-identity.service", "[Unit]\n");
    fs::create_dir_all(disk.at("/etc/systemd/system/sysinit.target.wants")).expect("a folder");
    symlink(
        "/usr/lib/systemd/system/kiln-identity.service",
        disk.at("/etc/systemd/system/sysinit.target.wants/kiln-identity.service"),
    )
    .expect("a link");
    machine(&disk);
    platform(&disk);
    kubernetes(&disk);
    containers(&disk);
    disk
}

fn machine(disk: &Disk) {
    disk.write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    disk.write("/var/lib/dbus/machine-id", "0123456789abcdef0123456789abcdef\n");
    disk.write("/etc/hostname", format!("{DONOR_NAME}\n"));
    for kind in ["rsa", "ecdsa", "ed25519"] {
        disk.secret(&format!("/etc/ssh/ssh_host_{kind}_key"), format!("private {kind} {SECRET}"));
        disk.write(&format!("/etc/ssh/ssh_host_{kind}_key.pub"), format!("public {kind}"));
    }
    disk.write("/etc/ssh/sshd_config", "UsePAM yes\n");
    disk.write("/var/lib/dhcp/dhclient6.duid", "donor's duid");
    disk.write("/var/lib/dhcp/dhclient.eth0.leases", "fixed-address 10.0.0.4;");
    disk.write("/var/log/journal/0123456789abcdef0123456789abcdef/system.journal", "donor's past");
    disk.secret("/var/lib/systemd/random-seed", "donor's seed");
    disk.secret("/var/lib/systemd/credential.secret", SECRET);
    disk.write("/etc/iscsi/initiatorname.iscsi", "InitiatorName=iqn.1993-08.org.debian:01:donor\n");
    disk.write("/etc/nvme/hostid", "donor-nvme-id\n");
    disk.write("/etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:donor-nvme-id\n");
    disk.write("/root/.ssh/authorized_keys", "ssh-ed25519 AAAA donor-admin\n");
    disk.write("/home/ann/.ssh/authorized_keys", "ssh-ed25519 AAAA donor-ann\n");
    disk.write("/root/.bash_history", format!("export PASSWORD={SECRET}\n"));
    disk.write("/var/lib/systemd/coredump/core.1", TENANT);
    disk.write(
        "/etc/kiln/seal.d/agent.json",
        r#"{"name": "agent", "paths": ["/opt/agent/id"], "why": "one host per id"}"#,
    );
    disk.write("/etc/hosts", format!("127.0.0.1 localhost\n127.0.1.1 {DONOR_NAME}.internal {DONOR_NAME}\n"));
    disk.write("/etc/mailname", format!("{DONOR_NAME}\n"));
    disk.write("/etc/hostid", "d0n0");
    disk.write("/var/lib/NetworkManager/secret_key", SECRET);
    disk.write("/var/lib/whoopsie/whoopsie-id", "donor's reports");
    for log in ["auth.log", "syslog", "syslog.1", "waagent.log", "wtmp", "azure/cluster-provision.log"] {
        disk.write(&format!("/var/log/{log}"), format!("{DONOR_NAME} {TENANT}\n"));
    }
    disk.write("/opt/agent/id", "donor's agent");
    disk.write("/opt/agent/agent.conf", "kept");
}

fn platform(disk: &Disk) {
    let netplan = "network:\n    ethernets:\n        eth0:\n            dhcp4: true\n            match:\n                driver: hv_netvsc\n                macaddress: 00:0d:3a:01:02:03\n            set-name: eth0\n    version: 2\n";
    disk.secret("/etc/netplan/50-cloud-init.yaml", netplan);
    disk.write("/run/systemd/network/10-netplan-eth0.network", "[Match]\nPermanentMACAddress=00:0d:3a:01:02:03\n");
    disk.write(
        "/etc/systemd/network/10-cloud-init-eth0.network",
        "[Match]\nMACAddress=00:0d:3a:01:02:03\nName=eth0\n\n[Network]\nDHCP=ipv4\n",
    );
    disk.write("/etc/udev/rules.d/70-persistent-net.rules", "ATTR{address}==\"00:0d:3a:01:02:03\", NAME=\"eth0\"\n");
    disk.secret("/var/lib/waagent/Certificates.pem", SECRET);
    disk.write("/var/lib/waagent/Incarnation", "1");
    disk.secret("/var/lib/cloud/instances/donor/user-data.txt", format!("#cloud-config\n# {SECRET}\n"));
    disk.secret("/var/lib/kiln/custom-data", "IyBzZWNyZXQK");
    symlink("/var/lib/cloud/instances/donor", disk.at("/var/lib/cloud/instance")).expect("a link");
    disk.write("/var/lib/waagent/provisioned", DONOR);
    disk.secret("/var/lib/waagent/ovf-env.xml", format!("<Environment>{SECRET}</Environment>"));
    disk.write("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\n");
    disk.write("/etc/fstab", "UUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 defaults 0 2\n");
    disk.write("/proc/sys/kernel/osrelease", "6.8.0-1021-azure\n");
    disk.write(
        "/var/lib/dpkg/status",
        "Package: kubelet\nStatus: install ok installed\nVersion: 1.29.3-1.1\n\n\
         Package: containerd.io\nStatus: install ok installed\nVersion: 1.7.22-1\n\n\
         Package: bash\nStatus: install ok installed\nVersion: 5.2.21-2\n",
    );
}

fn kubernetes(disk: &Disk) {
    disk.secret("/var/lib/kubelet/bootstrap-kubeconfig", format!("users:\n- user:\n    token: abcdef.{TOKEN}\n"));
    disk.secret(
        "/var/lib/kubelet/kubeconfig",
        "users:\n- user:\n    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n",
    );
    disk.secret("/var/lib/kubelet/pki/kubelet-client-current.pem", SECRET);
    disk.write("/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/scratch/file", TENANT);
    disk.write("/var/lib/kubelet/cpu_manager_state", "{}");
    disk.write("/var/lib/kubelet/memory_manager_state", "{}");
    disk.write("/var/lib/kubelet/checkpoints/c", TENANT);
    disk.write("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", "{}");
    disk.write("/var/lib/cni/networks/kubenet/10.244.0.7", "pod");
    disk.write("/var/lib/calico/nodename", DONOR_NAME);
    disk.write("/etc/cni/net.d/10-calico.conflist", format!("{{\"nodename\": \"{DONOR_NAME}\"}}"));
    disk.write("/var/lib/kubelet/allocated_pods_state", TENANT);
    disk.write("/var/lib/kubelet/plugins/kubernetes.io/csi/x/vol_data.json", TENANT);
    disk.write("/var/log/pods/ns_pod_1/c/0.log", TENANT);
    disk.write(
        "/etc/default/kubelet",
        format!("# {DONOR_NAME}\nARGS=--hostname-override={DONOR_NAME}\nTOKEN={DONOR_NAME}{SECRET} {DONOR_NAME}\n"),
    );
}

fn containers(disk: &Disk) {
    let at = "/var/lib/containerd";
    disk.write(&format!("{at}/io.containerd.content.v1.content/blobs/sha256/aa"), "image layer");
    let snapshots = format!("{at}/io.containerd.snapshotter.v1.overlayfs");
    disk.write(&format!("{snapshots}/snapshots/1/fs/bin/pause"), "of an image");
    disk.write(&format!("{snapshots}/snapshots/300/fs/data/file"), TENANT);
    fs::create_dir_all(disk.at(&format!("{snapshots}/snapshots/300/work/work"))).expect("a folder");
    disk.secret(&format!("{snapshots}/metadata.db"), bolt::snapshots(&[(1, 3), (300, 2)]));
    disk.secret(
        &format!("{at}/io.containerd.metadata.v1.bolt/meta.db"),
        bolt::images(&["registry.k8s.io/pause:3.9", "sha256:abc", "docker.io/library/nginx:1.27"]),
    );
    disk.write(&format!("{at}/io.containerd.grpc.v1.cri/sandboxes/s1/hostname"), TENANT);
    disk.write(&format!("{at}/io.containerd.grpc.v1.cri/containers/c1/status"), TENANT);
}
