//! A donor that keeps running, with a pod that writes to its disk all the time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use test_deps::TestDep;

use super::cluster::Cluster;
use super::image::KILN_IMAGE;
use super::inside::{KILN, in_sandbox, node_root, root_of};
use super::machines::{kiln, output_of};
use super::{Background, READY_SECONDS, REPORTED, disk, prototype, wait_ready};

/// Appends lines to a file in an emptyDir, with the node's shell: kiln's image has none.
const WRITER: &str = "sleep() { $run /host/usr/bin/sleep $1; }; i=0; while :; do i=$((i + 1)); echo line $i >>/data/log; sleep 0.05; done";

/// The pod that writes. It never restarts, and a drain would evict it.
fn writer() -> Value {
    let library = "/host/usr/lib/x86_64-linux-gnu";
    let run = format!("{library}/ld-linux-x86-64.so.2 --library-path {library}");
    let mut words: Vec<&str> = run.split(' ').collect();
    words.extend(["/host/usr/bin/dash", "-c", WRITER]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer", "namespace": "default"},
        "spec": {
            "nodeName": "vms000000", "restartPolicy": "Always", "automountServiceAccountToken": false,
            "volumes": [
                {"name": "host", "hostPath": {"path": "/"}},
                {"name": "data", "emptyDir": {}},
            ],
            "containers": [{
                "name": "writer", "image": KILN_IMAGE, "imagePullPolicy": "Never", "command": words,
                "env": [{"name": "run", "value": run}],
                "volumeMounts": [
                    {"name": "host", "mountPath": "/host", "readOnly": true}, {"name": "data", "mountPath": "/data"},
                ],
            }],
        },
    })
}

/// What must not change while the donor is copied: the pod and its container, and the boot of the node.
fn running(cluster: &Cluster) -> Option<(Value, Value, Value, Value)> {
    let pod = cluster.get(&["pod", "writer"])?;
    let container = &pod["status"]["containerStatuses"][0];
    container["state"]["running"].is_object().then(|| {
        let node = cluster.get(&["node", "vms000000"]).unwrap_or_default();
        let boot = node["status"]["nodeInfo"]["bootID"].clone();
        (pod["metadata"]["uid"].clone(), container["containerID"].clone(), container["restartCount"].clone(), boot)
    })
}

/// The lowest layers of the donor's disk: what the snapshot consists of.
fn copied_disk(state: &Path) -> PathBuf {
    let machines = fs::read_dir(state.join("machines")).expect("a folder").flatten().map(|entry| entry.path());
    let read = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok();
    let donor = machines.filter_map(read).find(|machine| machine["name"] == "vms_0").expect("the donor's record");
    let layers = donor["disk"]["chain"]["layers"].as_array().expect("layers").clone();
    let top = layers.last().and_then(Value::as_str).expect("a layer below the one that the donor writes to");
    state.join("layers").join(top).join("disk.qcow2")
}

fn tool(name: &str, arguments: &[&str]) -> Output {
    let words = kiln_local::sandbox::program(Some(&root_of(TestDep::BenchTools)), name);
    Command::new(&words[0]).args(&words[1..]).args(arguments).output().expect("a program")
}

#[test]
fn clone_of_a_running_virtual_machine_joins_while_the_donors_pods_go_on() {
    let name = "live::clone_of_a_running_virtual_machine_joins_while_the_donors_pods_go_on";
    in_sandbox(name, |state| {
        let cluster = Cluster::start(&state.join("kube"));
        let (kernel, tools) = (root_of(TestDep::BenchRoot), root_of(TestDep::BenchTools));
        let address = cluster.join.address().to_string();
        let base = disk::create_disk(&state.join("image"), &node_root(), &kernel, &tools, &address);
        let document = state.join("node.json");
        fs::write(&document, cluster.document().to_string()).expect("written");
        let mut nodes = Command::new(KILN);
        nodes.args(["local", "nodes", "--kubeconfig"]).arg(cluster.plane.kubeconfig());
        let _nodes = Background(nodes.spawn().expect("kiln runs"));
        kiln(&["local", "image", "import", "debian", base.to_str().expect("plain")]);
        let data = document.to_str().expect("plain");
        kiln(&["local", "pool", "create", "vms", "--image", "debian", "--size", "1x2048", "--user-data", data]);
        let donor = wait_ready(&cluster, "vms000000");
        cluster.apply(&writer());
        let before = Cluster::wait("the pod writes", READY_SECONDS, || running(&cluster));

        let words = [
            "update",
            "--target-node",
            "vms000000",
            "--live",
            "--no-original",
            "--no-canary",
            "--new-updated-nodes",
            "1",
        ];
        let run = prototype(&cluster, &words).output().expect("kiln runs");
        assert!(run.status.success(), "{}", output_of(&run));
        let text = output_of(&run);
        let frozen = text.split("had / frozen for ").nth(1).and_then(|rest| rest.split(' ').next());
        let frozen: u64 = frozen.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no report: {text}"));
        println!("the donor's file systems were frozen for {frozen} ms");
        assert!(frozen > 0 && frozen < 10_000, "{frozen} ms");
        assert_eq!(running(&cluster), Some(before), "the donor's pod was restarted");
        assert!(cluster.is_ready("vms000000"));
        let node = cluster.get(&["node", "vms000000"]).expect("a node");
        assert!(node["spec"]["unschedulable"].is_null(), "{}", node["spec"]);

        let raw = state.join("copied.raw").display().to_string();
        let copied = copied_disk(state).display().to_string();
        let flat = tool("qemu-img", &["convert", "--force-share", "-f", "qcow2", "-O", "raw", &copied, &raw]);
        assert!(flat.status.success(), "{}", output_of(&flat));
        let checked = tool("e2fsck", &["-f", "-n", &raw]);
        assert_eq!(checked.status.code(), Some(0), "the copied file system is damaged: {}", output_of(&checked));
        fs::remove_file(&raw).expect("removed");

        // A Ready node runs containerd; its report shows that it has an identity of its own.
        let clone = wait_ready(&cluster, "vms000001");
        for (line, what) in REPORTED.into_iter().enumerate() {
            assert!(!clone[line].is_empty() && clone[line] != donor[line], "{what}: {donor:?} {clone:?}");
        }
    });
}
