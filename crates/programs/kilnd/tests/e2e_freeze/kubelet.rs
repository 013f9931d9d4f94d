//! kiln's pods on a real kubelet and a real containerd, whose own files are on the file system that is frozen. The kubelet runs without an API
//! server: it reads pods from a folder in memory, and ends a pod when its file is removed.

use std::fs;
use std::path::Path;

use kiln_kubernetes::{Task, task_pod};
use kiln_types::{FreezeEnd, ThawReport};
use serde_json::{Value, json};
use test_deps::{Cache, KubePrograms};

use super::booted::{Booted, copy_image, debian, fsck, make_image, printed, scratch, wait};
use super::image::{KILN_IMAGE, archive};

/// What containers on the kernel of the host need.
const ARGUMENTS: [&str; 4] = [
    "--capability=all",
    "--drop-capability=CAP_SYS_TIME,CAP_SYS_MODULE",
    "--bind=/dev/kmsg",
    "--system-call-filter=@keyring bpf",
];

/// Masks the kernel settings that the kubelet writes, which are the host's; then starts everything.
const START: &str = r"
set -e
for path in kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops vm/overcommit_memory vm/panic_on_oom; do
    copy=/run/$(basename $path)
    cat /proc/sys/$path >$copy
    mount --bind $copy /proc/sys/$path
done
for group in /sys/fs/cgroup/*/; do mount -o remount,bind,rw $group || true; done
ip link set lo up
mkdir -p /run/manifests
systemctl restart containerd
ctr --namespace k8s.io images import /usr/share/images.tar
systemd-run --unit=kubelet /usr/bin/kubelet --config=/etc/kubelet.json --hostname-override=node
";

const CONTAINERD: &str = r#"version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pause:test"
restrict_oom_score_adj = true
"#;

/// The VM ids of the donor and its clone.
const DONOR: &str = "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90";
const CLONE: &str = "7d1c0b5e-93a4-4c11-a0f6-2f4f5b1d3c77";

fn kubelet_config() -> Value {
    json!({
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "staticPodPath": "/run/manifests", "readOnlyPort": 10_255, "address": "127.0.0.1", "cgroupDriver": "cgroupfs",
        "failSwapOn": false, "makeIPTablesUtilChains": false, "imageGCHighThresholdPercent": 100,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "evictionHard": {"memory.available": "50Mi"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    })
}

fn node(folder: &Path) -> std::path::PathBuf {
    let cache = Cache::of_user().unwrap_or_else(|error| panic!("{error}"));
    let kubelet = KubePrograms::of_user(cache).find("kubelet").unwrap_or_else(|missing| panic!("{missing}"));
    make_image(folder, "2500M", |root| {
        let write = |path: &str, content: &[u8]| {
            let path = root.join(path);
            let written = fs::create_dir_all(path.parent().expect("a folder")).and_then(|()| fs::write(&path, content));
            written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        };
        // Follows the link, if it is one to a program with many names.
        fs::copy(&kubelet, root.join("usr/bin/kubelet")).expect("copied");
        write("usr/share/images.tar", &archive(&root.join("usr/bin/kilnd"), &debian()));
        write("etc/containerd/config.toml", CONTAINERD.as_bytes());
        write("etc/kubelet.json", kubelet_config().to_string().as_bytes());
        write("var/lib/kiln/vm-id", DONOR.as_bytes());
    })
}

/// A pod that writes to an emptyDir all the time, with the node's shell: kiln's image has none.
fn writer() -> Value {
    let library = "/host/usr/lib/x86_64-linux-gnu";
    let run = format!("{library}/ld-linux-x86-64.so.2 --library-path {library} /host/usr/bin/dash -c");
    let mut words: Vec<&str> = run.split(' ').collect();
    words.push("i=0; while :; do i=$((i + 1)); echo tenant-data $i >>/data/log; done");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer", "namespace": "default"},
        "spec": {
            "hostNetwork": true,
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}, {"name": "data", "emptyDir": {}}],
            "containers": [{
                "name": "writer", "image": KILN_IMAGE, "imagePullPolicy": "Never", "command": words,
                "volumeMounts": [
                    {"name": "host", "mountPath": "/host", "readOnly": true}, {"name": "data", "mountPath": "/data"},
                ],
            }],
        },
    })
}

/// kiln's pod for a task.
fn task(task: Task) -> Value {
    let (node, run, namespace) = ("node".parse().unwrap(), "run-1".parse().unwrap(), "kiln".parse().unwrap());
    serde_json::to_value(task_pod(task, &node, &run, &namespace, KILN_IMAGE, "")).expect("a pod")
}

fn put(machine: &Booted, name: &str, pod: &Value) {
    fs::write(machine.path(&format!("/run/manifests/{name}.json")), pod.to_string()).expect("written");
}

fn remove(machine: &Booted, name: &str) {
    fs::remove_file(machine.path(&format!("/run/manifests/{name}.json"))).expect("removed");
}

/// The status of a pod, as the kubelet reports it.
fn status(machine: &Booted, name: &str) -> Option<Value> {
    let output = machine.command(&["curl", "--silent", "http://127.0.0.1:10255/pods"]).output().expect("curl");
    let pods: Value = serde_json::from_slice(&output.stdout).ok()?;
    let is_named = |pod: &&Value| pod["metadata"]["name"].as_str().is_some_and(|full| full.starts_with(name));
    pods["items"].as_array()?.iter().find(is_named).map(|pod| pod["status"].clone())
}

/// Waits until a pod is Ready.
#[track_caller]
fn wait_ready(machine: &Booted, name: &str) -> Value {
    wait(&format!("`{name}` is Ready"), || {
        let status = status(machine, name)?;
        assert_ne!(status["phase"], "Failed", "{status}");
        let conditions = status["conditions"].as_array()?.clone();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.iter().any(is_ready).then_some(status)
    })
}

#[test]
fn pods_of_a_frozen_node_go_on_and_its_clone_has_none_of_their_data() {
    let folder = scratch();
    let donor = Booted::new("freeze-kubelet", &node(folder.path()), &ARGUMENTS);
    let started = donor.command(&["sh", "-c", START]).output().expect("nsenter");
    assert!(started.status.success(), "{}", printed(&started));
    put(&donor, "writer", &writer());
    let before = wait_ready(&donor, "writer")["containerStatuses"][0].clone();

    put(&donor, "freeze", &task(Task::Freeze));
    wait_ready(&donor, "kiln-freeze");
    let copy = folder.path().join("copy.img");
    copy_image(&donor.image, &copy);
    // As after a deletion, the kubelet asks kilnd to terminate.
    remove(&donor, "freeze");
    wait("kilnd has reported the thaw", || fs::read(donor.path("/run/kiln/freeze.json")).ok());
    put(&donor, "thaw", &task(Task::Thaw));
    let log = wait("the thaw pod has ended", || {
        status(&donor, "kiln-thaw").filter(|status| status["phase"] == "Succeeded")?;
        let output =
            donor.command(&["sh", "-c", "cat /var/log/pods/kiln_kiln-thaw-*/thaw/*.log"]).output().expect("cat");
        Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|log| log.contains('{'))
    });
    let report: ThawReport = serde_json::from_str(&log[log.find('{').expect("JSON")..]).expect("a report");
    let freeze = report.freeze.as_ref().expect("a freeze");
    assert_eq!(
        (freeze.end, freeze.run.as_str(), &report.thawed[..]),
        (FreezeEnd::Requested, "run-1", &[][..]),
        "{report:?}"
    );
    assert!(freeze.frozen_ms < 10_000, "{report:?}");
    println!("frozen for {} ms under a real kubelet", freeze.frozen_ms);
    let now = wait_ready(&donor, "writer")["containerStatuses"][0].clone();
    assert_eq!((&now["containerID"], &now["restartCount"]), (&before["containerID"], &json!(0)), "{now}");
    drop(donor);

    let checked = fsck(&copy);
    assert_eq!(checked.status.code(), Some(0), "the copy is damaged: {}", printed(&checked));
    let clone = Booted::new("freeze-kubelet-clone", &copy, &ARGUMENTS);
    let found = |what: &str| {
        let search = format!("grep -rl {what} /var/lib/kubelet/pods 2>/dev/null | wc -l");
        let output = clone.command(&["sh", "-c", &search]).output().expect("grep");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(found("tenant-data"), "1", "the donor was not drained");
    fs::create_dir(clone.path("/run/dmi")).expect("a folder");
    fs::write(clone.path("/run/dmi/product_uuid"), CLONE).expect("written");
    let reset = "systemctl stop containerd; kilnd identity --dmi /run/dmi && systemctl start containerd && ctr --namespace k8s.io images list";
    let output = clone.command(&["sh", "-c", reset]).output().expect("nsenter");
    assert!(output.status.success() && printed(&output).contains(KILN_IMAGE), "{}", printed(&output));
    assert!(printed(&output).contains("clone boot"), "{}", printed(&output));
    assert_eq!(found("tenant-data"), "0");
    let ids =
        ["/etc/machine-id", "/var/lib/kiln/vm-id"].map(|path| fs::read_to_string(clone.path(path)).expect("an id"));
    assert!(ids[1].trim().eq_ignore_ascii_case(CLONE), "{ids:?}");
}
