//! The root folder of a node that cloud-init joins to its cluster in the manner of kubeadm, and the custom data that does so.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use test_deps::TestDep;

use super::cluster::Cluster;
use super::inside::root_of;
use super::root::{UNITS, create_node, file, link};

/// kubeadm's unit with its drop-in.
const KUBELET: &str = "[Unit]
Description=kubelet
Wants=containerd.service
After=containerd.service
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \\
    --config=/var/lib/kubelet/config.yaml
Restart=always
RestartSec=1
";

/// Joins the cluster as `kubeadm join` does: refuses a node that has joined, requests a certificate with the token, and deletes the token.
const JOIN: &str = r#"#!/bin/sh
set -eu
for trace in /etc/kubernetes/kubelet.conf /etc/kubernetes/pki/ca.crt; do
    if test -e "$trace"; then echo "[preflight] $trace already exists" >&2; exit 1; fi
done
mkdir -p /etc/kubernetes/pki /etc/kubernetes/manifests /var/lib/kubelet
cp "$1/ca.crt" /etc/kubernetes/pki/ca.crt
cp "$1/config.yaml" /var/lib/kubelet/config.yaml
umask 077
cat >/etc/kubernetes/bootstrap-kubelet.conf <<CONFIG
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster: {server: "$(cat "$1/endpoint")", certificate-authority: /etc/kubernetes/pki/ca.crt}
contexts:
- name: kubernetes
  context: {cluster: kubernetes, user: kubelet-bootstrap}
current-context: kubernetes
users:
- name: kubelet-bootstrap
  user:
    token: $(cat "$1/token")
CONFIG
systemctl restart --no-block kubelet.service
for attempt in $(seq 600); do
    if test -e /etc/kubernetes/kubelet.conf; then rm /etc/kubernetes/bootstrap-kubelet.conf; exit 0; fi
    sleep 0.2
done
echo "kubelet did not get a certificate" >&2
exit 1
"#;

/// Converts the provisioning media to the files of cloud-init's datasource `NoCloud`. Its datasource for Azure needs a DVD drive.
const SEED: &str = r#"#!/bin/sh
set -eu
media=/run/kiln-local/cd/ovf-env.xml
mkdir -p -m 700 /run/seed
sed -n 's/.*<wa:CustomData>\([^<]*\)<.*/\1/p' $media | base64 -d >/run/seed/user-data
host=$(sed -n 's/.*<wa:HostName>\([^<]*\)<.*/\1/p' $media)
printf '{"instance-id": "%s", "local-hostname": "%s"}\n' "$(cat /run/kiln-local/dmi/product_uuid)" "$host" >/run/seed/meta-data
"#;

const SEED_UNIT: &str = "[Unit]
DefaultDependencies=no
Before=cloud-init-local.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/seed
";

const CONTAINERD: &str = r#"version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pause:test"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"#;

/// With one datasource cloud-init does not search for others. Modules that only cost time here are left out.
const CLOUD_INIT: &str = "datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [write-files, set_hostname, update_hostname, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
";

/// Creates the root folder. kilnd is a program in it, as in the package, and not enabled.
pub(crate) fn create_cloud_root(folder: &Path) {
    create_node(folder, &root_of(TestDep::CloudRoot), KUBELET);
    file(folder, "usr/local/sbin/join-node", JOIN.as_bytes(), 0o755);
    file(folder, "usr/local/sbin/seed", SEED.as_bytes(), 0o755);
    file(folder, &format!("{UNITS}/seed.service"), SEED_UNIT.as_bytes(), 0o644);
    link(folder, &format!("{UNITS}/sysinit.target.wants/seed.service"), "../seed.service");
    link(folder, &format!("{UNITS}/multi-user.target.wants/containerd.service"), "../containerd.service");
    file(folder, "etc/containerd/config.toml", CONTAINERD.as_bytes(), 0o644);
    file(folder, "etc/cloud/cloud.cfg.d/99-test.cfg", CLOUD_INIT.as_bytes(), 0o644);
    fs::create_dir_all(folder.join("var/lib/cloud/seed")).expect("a folder");
    symlink("/run/seed", folder.join("var/lib/cloud/seed/nocloud")).expect("a link");
}

/// The pool's custom data: it writes the token and joins.
pub(crate) fn custom_data(cluster: &Cluster, token: &str) -> String {
    let kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": false}, "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
        "cgroupDriver": "cgroupfs", "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": false, "makeIPTablesUtilChains": false, "rotateCertificates": true, "resolvConf": "",
        "staticPodPath": "/etc/kubernetes/manifests",
        // The disk is the host's, which other programs may fill.
        "evictionHard": {"memory.available": "50Mi"}, "imageGCHighThresholdPercent": 100,
        "nodeLeaseDurationSeconds": 4, "nodeStatusUpdateFrequency": "1s",
    });
    let port = cluster.plane.address().port();
    let write = |name: &str, content: &str| json!({"path": format!("/run/join/{name}"), "permissions": "0600", "content": content});
    let data = json!({
        "write_files": [
            write("token", token),
            write("ca.crt", cluster.plane.authority()),
            write("endpoint", &format!("https://kubernetes:{port}")),
            write("config.yaml", &kubelet.to_string()),
        ],
        "runcmd": [["/usr/local/sbin/join-node", "/run/join"]],
    });
    format!("#cloud-config\n{data}\n")
}
