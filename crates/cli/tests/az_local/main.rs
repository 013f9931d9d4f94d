//! The prototype operation on virtual machines: disks of their own, a kernel of their own, an address by DHCP.

#[path = "../e2e_local/cluster.rs"]
mod cluster;
mod disk;
#[path = "../e2e_local/image.rs"]
mod image;
#[path = "../e2e_local/inside.rs"]
mod inside;
#[path = "../e2e_local/machines.rs"]
mod machines;
#[path = "../e2e_local/root.rs"]
mod root;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use cluster::Cluster;
use image::KILN_IMAGE;
use inside::{KILN, in_world, node_root, root_of};
use machines::{kiln, machines, said, text};
use parts::Part;

/// How many seconds an emulated machine may take from switching on to a node that is ready. One on an idle computer takes one or two
/// minutes.
const PATIENCE: u32 = 900;

/// A process that ends with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn captured(state: &Path) -> bool {
    let documents = fs::read_dir(state.join("captures")).into_iter().flatten().flatten();
    documents.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".json"))
}

fn prototype(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = Command::new(KILN);
    command.arg("prototype").args(words).arg("--kubeconfig").arg(cluster.plane.kubeconfig());
    command.args(["--pod-image", KILN_IMAGE, "--output", "json", "--log-level", "info"]);
    command
}

/// The last that a machine of this name told of itself.
fn report(cluster: &Cluster, node: &str) -> Option<String> {
    let all = cluster.join.seen().into_iter().filter(|request| request.target == "/report");
    let mut texts = all.map(|request| String::from_utf8_lossy(&request.body).into_owned());
    texts.rfind(|text| text.lines().next() == Some(node))
}

#[track_caller]
fn wait_ready(cluster: &Cluster, node: &str) -> Vec<String> {
    Cluster::wait(&format!("`{node}` is ready"), PATIENCE, || {
        let known = cluster.get(&["node", node])?["spec"]["providerID"].is_string();
        (known && cluster.is_ready(node)).then_some(())
    });
    let report = Cluster::wait(&format!("`{node}` told who it is"), PATIENCE, || report(cluster, node));
    report.lines().map(str::to_owned).collect()
}

#[test]
fn a_captured_disk_becomes_virtual_machines_of_their_own_that_join_with_the_donors_token_revoked() {
    let name = "a_captured_disk_becomes_virtual_machines_of_their_own_that_join_with_the_donors_token_revoked";
    in_world(name, |state| {
        let cluster = Cluster::start(&state.join("kube"));
        let (lab, tools) = (root_of(Part::LabRoot), root_of(Part::LabTools));
        let address = cluster.join.address().to_string();
        let base = disk::make_disk(&state.join("image"), &node_root(), &lab, &tools, &address);
        let document = state.join("node.json");
        fs::write(&document, cluster.document().to_string()).expect("written");
        let mut nodes = Command::new(KILN);
        nodes.args(["local", "nodes", "--kubeconfig"]).arg(cluster.plane.kubeconfig());
        let _nodes = Background(nodes.spawn().expect("kiln runs"));
        kiln(&["local", "image", "import", "debian", base.to_str().expect("plain")]);
        let data = document.to_str().expect("plain");
        kiln(&["local", "pool", "create", "vms", "--image", "debian", "--size", "1x2048", "--user-data", data]);
        let donor = wait_ready(&cluster, "vms000000");

        let words = ["update", "--target-node", "vms000000", "--no-original", "--allow-empty-pool"];
        let mut run = prototype(&cluster, &words);
        let mut run = Background(run.stdout(Stdio::inherit()).spawn().expect("kiln runs"));
        while !captured(state) {
            assert!(run.0.try_wait().expect("a child").is_none(), "nothing was captured");
            thread::sleep(Duration::from_millis(5));
        }
        drop(run);
        cluster.revoke("first0");
        cluster.rotate("second", "fedcba9876543210");
        let resumed = prototype(&cluster, &["resume"]).output().expect("kiln runs");
        assert!(resumed.status.success(), "{}", said(&resumed));

        kiln(&["local", "pool", "scale", "vms", "2"]);
        let clone = wait_ready(&cluster, "vms000001");
        assert!(donor.len() >= 6 && clone.len() >= 6, "{donor:?} {clone:?}");
        for (of_donor, of_clone) in donor.iter().zip(&clone).take(6) {
            assert!(!of_clone.is_empty() && of_donor != of_clone, "{of_donor} {of_clone}");
        }
        let all = machines();
        assert!(clone[2].eq_ignore_ascii_case(&text(&all["vms000001"], "vmId")), "the firmware says so: {clone:?}");
        let ancestor = text(&all["vms000000"], "vmId");
        assert!(clone[6..].iter().any(|line| line.contains(&ancestor)), "{clone:?}");
    });
}
