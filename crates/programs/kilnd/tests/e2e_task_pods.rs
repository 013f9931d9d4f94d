//! kiln's pods for inspecting and preparing a node, run by a real runc with the mounts, capabilities and arguments of the pod spec. The
//! node's disk is a folder.

mod identity_donor;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use identity_donor::{DONOR, Disk, SECRET, TOKEN, donor, empty, printed};
use kiln_kubernetes::{Task, task_pod};
use kiln_node_plan::Findings;
use serde_json::{Value, json};
use test_deps::TestDep;

const CLONE: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const CUSTOM_DATA: &str = "/var/lib/cloud/instances/donor/user-data.txt";

/// The pod of a task, as the kubelet receives it from the API server.
fn pod(task: Task, key: &str) -> Value {
    let (node, run, namespace) = ("donor".parse().unwrap(), "run-1".parse().unwrap(), "kiln".parse().unwrap());
    serde_json::to_value(task_pod(task, &node, &run, &namespace, "kiln:test", key)).expect("a pod")
}

/// Runs the container of a pod on a node with this disk.
fn run(pod: &Value, disk: &Disk, name: &str) -> Output {
    let bundle = tempfile::tempdir().expect("a folder");
    fs::create_dir(bundle.path().join("rootfs")).expect("a folder");
    let config = config(pod, disk);
    fs::write(bundle.path().join("config.json"), config.to_string()).expect("written");
    let nspawn = testkit::require(TestDep::NodeRoot);
    let runc = nspawn.ancestors().nth(3).expect("a root").join("sbin/runc");
    let mut command = Command::new(&runc);
    command.arg("--root").arg(bundle.path().join("state")).arg("run").arg("--bundle").arg(bundle.path());
    command.arg(format!("kiln-test-{name}-{}", std::process::id())).output().expect("runc")
}

/// The OCI configuration of a pod's only container.
fn config(pod: &Value, disk: &Disk) -> Value {
    let container = &pod["spec"]["containers"][0];
    let context = &container["securityContext"];
    assert_eq!((&context["privileged"], &context["capabilities"]["drop"]), (&json!(false), &json!(["ALL"])));
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let added = items(&context["capabilities"]["add"]);
    let capabilities: Vec<String> = added.iter().map(|one| format!("CAP_{}", one.as_str().expect("a name"))).collect();
    let bind = |from: &Path, to: &str, writable: bool| {
        let options = json!(["rbind", "rprivate", if writable { "rw" } else { "ro" }]);
        json!({"destination": to, "type": "bind", "source": from, "options": options})
    };
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
        // A container sees the machine's `/sys`; the kernel of the test may have no DMI tables.
        bind(&disk.at("/sys"), "/sys", false),
        // In place of the image: this build of the program is dynamically linked.
        bind(Path::new(env!("CARGO_BIN_EXE_kilnd")), "/usr/local/bin/kilnd", false),
    ];
    for libraries in ["/lib", "/lib64"] {
        mounts.push(bind(Path::new(libraries), libraries, false));
    }
    for mount in items(&container["volumeMounts"]) {
        let volumes = items(&pod["spec"]["volumes"]);
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).expect("a volume");
        let from = disk.at(volume["hostPath"]["path"].as_str().expect("a path"));
        if volume["hostPath"]["type"] == "DirectoryOrCreate" {
            fs::create_dir_all(&from).expect("made");
        }
        let to = mount["mountPath"].as_str().expect("a path");
        mounts.push(bind(&from, to, mount["readOnly"] != json!(true)));
    }
    let args: Vec<Value> = items(&container["command"]).into_iter().chain(items(&container["args"])).collect();
    let kinds = ["pid", "mount", "ipc", "uts", "network"];
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]}, "args": args, "cwd": "/",
            "noNewPrivileges": context["allowPrivilegeEscalation"] == false,
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
        },
        "root": {"path": "rootfs", "readonly": context["readOnlyRootFilesystem"]},
        "mounts": mounts,
        "linux": {"namespaces": kinds.map(|kind| json!({"type": kind}))},
    })
}

/// A donor with files of root and of other users.
fn node() -> Disk {
    let disk = donor();
    for path in ["/usr/bin", "/usr/lib/systemd/system", "/etc/systemd/system"] {
        fs::create_dir_all(disk.at(path)).expect("a folder");
    }
    fs::set_permissions(disk.at("/sys/class/dmi/id/product_uuid"), fs::Permissions::from_mode(0o400)).expect("a mode");
    chown(disk.at(CUSTOM_DATA), Some(1000), Some(1000)).expect("another owner");
    disk
}

#[test]
fn inspect_pod_reads_all_files_shows_no_secret_and_changes_nothing() {
    let disk = node();
    let before = disk.everything();
    let reader = kiln_tls::Reader::new(&kiln_tls::SystemRandom::new()).expect("a key");
    let output = run(&pod(Task::Inspect, &reader.key()), &disk, "inspect");
    assert!(output.status.success(), "{}", printed(&output));
    assert!(!printed(&output).contains(SECRET) && !printed(&output).contains(TOKEN), "{}", printed(&output));
    let found: Findings = serde_json::from_slice(&output.stdout).expect("findings");
    assert_eq!(found.inspection.vm_id, DONOR);
    assert_eq!(found.inspection.packages.len(), 3);
    let opened = reader.open(&found.sealed_custom_data.expect("custom data")).expect("decrypted");
    assert_eq!(opened, disk.text(CUSTOM_DATA).into_bytes());
    assert!(disk.everything() == before);
}

#[test]
fn inspect_pod_cannot_write_and_needs_its_capability_to_read() {
    let disk = node();
    let mut writes = pod(Task::Inspect, "");
    writes["spec"]["containers"][0]["args"] = json!(["install", "--root", "/host", "--dmi", "/sys/class/dmi/id"]);
    fs::remove_file(disk.at("/var/lib/kiln/vm-id")).expect("removed");
    let before = disk.everything();
    let output = run(&writes, &disk, "writes");
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("mounted read-only"), "{}", printed(&output));
    assert!(disk.everything() == before);

    let mut bare = pod(Task::Inspect, &kiln_tls::Reader::new(&kiln_tls::SystemRandom::new()).expect("a key").key());
    bare["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] = json!([]);
    let output = run(&bare, &disk, "bare");
    assert!(printed(&output).contains("Permission denied"), "{}", printed(&output));
}

#[test]
fn install_pod_needs_no_capability_and_clones_reset_their_identity() {
    let disk = node();
    for path in ["/usr/lib/systemd/system/kiln-identity.service", "/var/lib/kiln/vm-id"] {
        fs::remove_file(disk.at(path)).expect("removed");
    }
    fs::remove_dir_all(disk.at("/etc/systemd/system/sysinit.target.wants")).expect("removed");
    let before = disk.everything();
    let output = run(&pod(Task::InstallFirstBoot, ""), &disk, "install");
    assert!(output.status.success(), "{}", printed(&output));
    let mut after = disk.everything();
    assert!(before.iter().all(|(path, old)| after.remove(path).as_ref() == Some(old)), "no existing file changed");
    assert_eq!(after.len(), 5, "{:?}", after.keys());
    assert_eq!(disk.text("/var/lib/kiln/vm-id").trim(), DONOR);

    let again = run(&pod(Task::InstallFirstBoot, ""), &disk, "again");
    assert!(again.status.success(), "{}", printed(&again));

    let clone = disk.copy();
    clone.set_vm_id(CLONE);
    let output = clone.kilnd(&["identity"]);
    assert!(printed(&output).contains("clone boot"), "{}", printed(&output));
    assert!(!clone.has("/var/lib/kubelet/pki/kubelet-client-current.pem"));
}

#[test]
fn install_pod_fails_without_a_vm_id_and_changes_nothing() {
    let disk = empty();
    for path in ["/sys/class/dmi/id", "/usr/bin", "/usr/lib/systemd/system", "/etc/systemd/system"] {
        fs::create_dir_all(disk.at(path)).expect("a folder");
    }
    let output = run(&pod(Task::InstallFirstBoot, ""), &disk, "nameless");
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(
        printed(&output).contains("cannot read the VM id, without which a clone cannot be detected"),
        "{}",
        printed(&output)
    );
    assert!(disk.everything().is_empty());
}
