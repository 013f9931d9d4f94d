//! The root folder of a node: a Debian with kilnd and its units, a kubelet, a network plugin and container images.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_deps::{Cache, KubePrograms};

use super::image;
use super::inside::KILN;

pub(crate) const UNITS: &str = "usr/lib/systemd/system";

/// The image's list of its programs. A new node authenticates to the join service by its identity, not with a credential on the disk.
pub(crate) const IMAGE: &str = r#"{
    "kubelets": {"1.34.4": "/usr/bin/kubelet"}, "runtimes": {"1.6.20": "/usr/bin/containerd"}, "cniPlugins": "/opt/cni/bin",
    "sandboxImage": "docker.io/library/pause:test", "interface": "host0",
    "execPlugins": {"managedIdentity": {"command": "/usr/bin/join", "args": ["{endpoint}"]}}
}"#;

/// Fetches the credential that a kubelet joins with, from a service of the cluster.
const JOIN: &str = r#"#!/bin/sh
exec curl --silent --show-error --fail --max-time 10 "$1"
"#;

/// The network plugins: one for a pod's loopback device, and one that gives each pod a veth pair. That is enough for a pod that never
/// communicates.
const PLUGIN: &str = r#"#!/bin/sh
set -eu
cat >/dev/null
wire=w$(echo "$CNI_CONTAINERID" | cut -c1-10)
number=$(( 0x$(echo "$CNI_CONTAINERID" | cut -c1-2) % 250 + 2 ))
case $CNI_COMMAND-$(basename "$0") in
ADD-loopback)
    nsenter --net="$CNI_NETNS" ip link set lo up
    echo '{"cniVersion": "0.3.1", "interfaces": [{"name": "lo"}], "ips": [{"version": "4", "address": "127.0.0.1/8", "interface": 0}]}'
    ;;
ADD-wire)
    ip link add "$wire" type veth peer name "${wire}p"
    ip link set "$wire" up
    ip link set "${wire}p" netns "$CNI_NETNS"
    nsenter --net="$CNI_NETNS" sh -euc "
        ip link set ${wire}p name $CNI_IFNAME
        ip address add 10.88.0.$number/24 dev $CNI_IFNAME
        ip link set $CNI_IFNAME up
    "
    echo "{\"cniVersion\": \"0.4.0\", \"interfaces\": [{\"name\": \"$CNI_IFNAME\", \"sandbox\": \"$CNI_NETNS\"}],
        \"ips\": [{\"version\": \"4\", \"address\": \"10.88.0.$number/24\", \"interface\": 0}]}"
    ;;
DEL-wire) ip link delete "$wire" 2>/dev/null || true ;;
VERSION-*) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}' ;;
esac
"#;

const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "wire", "plugins": [{"type": "wire"}]}"#;

/// Imports the container images on the disk into containerd, once. A clone has them already.
const IMPORT: &str = "[Unit]
ConditionPathExists=!/var/lib/imported
After=containerd.service
Requires=containerd.service
Before=kubelet.service
[Service]
Type=oneshot
ExecStart=/usr/bin/ctr --namespace k8s.io images import --snapshotter native /usr/share/images.tar
ExecStart=/usr/bin/touch /var/lib/imported
[Install]
WantedBy=multi-user.target
";

/// Creates the root folder of a node that kilnd configures from that of a Debian.
pub(crate) fn create_root(folder: &Path, debian: &Path) {
    let kubelet =
        "[Unit]\nDescription=kubelet\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=on-failure\nRestartSec=1\n";
    create_node(folder, debian, kubelet);
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
    for (unit, target) in
        [("identity", "sysinit.target"), ("config", "multi-user.target"), ("watch", "multi-user.target")]
    {
        let name = format!("kiln-{unit}.service");
        file(folder, &format!("{UNITS}/{name}"), &read(&units.join(&name)), 0o644);
        link(folder, &format!("{UNITS}/{target}.wants/{name}"), &format!("../{name}"));
    }
    for service in ["kubelet", "containerd"] {
        let name = format!("{service}.service.d/zz-kiln.conf");
        file(folder, &format!("{UNITS}/{name}"), &read(&units.join(&name)), 0o644);
    }
    file(folder, "usr/lib/kiln/image.json", IMAGE.as_bytes(), 0o644);
    file(folder, "usr/bin/join", JOIN.as_bytes(), 0o755);
}

/// Creates the root folder of a node from that of a Debian: kilnd without its units, a kubelet with this unit, a network plugin and images.
pub(crate) fn create_node(folder: &Path, debian: &Path, kubelet: &str) {
    // Hard links where both are on one file system: nothing writes to these files.
    let copied = |how: &str| {
        let _ = fs::remove_dir_all(folder);
        let status = Command::new("cp").arg(how).arg(debian).arg(folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    assert!(copied("-al") || copied("-a"), "cannot copy `{}`", debian.display());
    let kilnd = kilnd();
    file(folder, "usr/bin/kilnd", &read(&kilnd), 0o755);
    file(folder, &format!("{UNITS}/kubelet.service"), kubelet.as_bytes(), 0o644);
    file(folder, &format!("{UNITS}/images.service"), IMPORT.as_bytes(), 0o644);
    for unit in ["kubelet", "images"] {
        link(folder, &format!("{UNITS}/multi-user.target.wants/{unit}.service"), &format!("../{unit}.service"));
    }
    link_or_copy(&kubelet_program(), &folder.join("usr/bin/kubelet"));
    for plugin in ["loopback", "wire"] {
        file(folder, &format!("opt/cni/bin/{plugin}"), PLUGIN.as_bytes(), 0o755);
    }
    file(folder, "etc/cni/net.d/10-wire.conflist", NETWORK.as_bytes(), 0o644);
    file(folder, "etc/hosts", b"127.0.0.1 localhost\n10.77.0.1 kubernetes\n", 0o644);
    // There is no DNS server here. With the resolv.conf of the Debian, programs would wait for servers that do not exist.
    file(folder, "etc/resolv.conf", b"", 0o644);
    file(folder, "usr/share/images.tar", &image::archive(&kilnd, debian), 0o644);
}

/// The kilnd next to kiln in the target folder, built now if it is missing.
fn kilnd() -> PathBuf {
    let path = Path::new(KILN).with_file_name("kilnd");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "--offline", "--package", "kilnd"]).status();
        assert!(built.is_ok_and(|status| status.success()) && path.exists(), "`{}` was not built", path.display());
    }
    path
}

fn kubelet_program() -> PathBuf {
    let cache = Cache::of_user().unwrap_or_else(|error| panic!("{error}"));
    let kubelet = KubePrograms::of_user(cache).find("kubelet").unwrap_or_else(|missing| panic!("{missing}"));
    // `kubelet` may be a link to one program with many names.
    kubelet.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", kubelet.display()))
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn file(folder: &Path, path: &str, content: &[u8], mode: u32) {
    let path = folder.join(path);
    // An existing file may be a hard link, whose content must not change.
    let _ = fs::remove_file(&path);
    let written = fs::create_dir_all(path.parent().expect("a folder"))
        .and_then(|()| fs::write(&path, content))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

pub(crate) fn link(folder: &Path, path: &str, target: &str) {
    let path = folder.join(path);
    let created = fs::create_dir_all(path.parent().expect("a folder")).and_then(|()| symlink(target, &path));
    created.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Adds a hard link to a large file, or a copy if it is on another file system.
fn link_or_copy(from: &Path, to: &Path) {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop)).unwrap_or_else(|error| panic!("{error}"));
}
