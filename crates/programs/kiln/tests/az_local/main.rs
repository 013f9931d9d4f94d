//! The prototype operation on virtual machines, with their own disks and kernels and addresses by DHCP.

#[path = "../e2e_local/cluster.rs"]
mod cluster;
mod disk;
#[path = "../e2e_local/image.rs"]
mod image;
#[path = "../e2e_local/inside.rs"]
mod inside;
mod live;
#[path = "../e2e_local/machines.rs"]
mod machines;
#[path = "../e2e_local/root.rs"]
mod root;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use cluster::Cluster;
use image::KILN_IMAGE;
use inside::{KILN, in_sandbox, node_root, root_of};
use machines::{kiln, machines, output_of, text};
use test_deps::TestDep;

/// The limit in seconds from the start of an emulated machine to a Ready node. On an idle host it takes one or two minutes.
const READY_SECONDS: u32 = 900;

/// A day without an image version.
const LATER: &str = "2099-01-01T12:00:00Z";

/// The lines of a report before the ancestry.
const REPORTED: [&str; 6] =
    ["host name", "machine id", "firmware's id", "recorded machine", "kubelet's certificate", "ssh host key"];

/// A process that is killed when the test ends.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has_snapshot(state: &Path) -> bool {
    let documents = fs::read_dir(state.join("snapshots")).into_iter().flatten().flatten();
    documents.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".json"))
}

fn prototype(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = Command::new(KILN);
    command.arg("prototype").args(words).arg("--kubeconfig").arg(cluster.plane.kubeconfig());
    command.args(["--pod-image", KILN_IMAGE, "--output", "json", "--log-level", "info"]);
    command
}

/// The last report of a machine.
fn report(cluster: &Cluster, node: &str) -> Option<String> {
    let all = cluster.join.seen().into_iter().filter(|request| request.target == "/report");
    let mut texts = all.map(|request| String::from_utf8_lossy(&request.body).into_owned());
    texts.rfind(|text| text.lines().next() == Some(node))
}

#[track_caller]
fn wait_ready(cluster: &Cluster, node: &str) -> Vec<String> {
    Cluster::wait(&format!("`{node}` is ready"), READY_SECONDS, || {
        let known = cluster.get(&["node", node])?["spec"]["providerID"].is_string();
        (known && cluster.is_ready(node)).then_some(())
    });
    let report = Cluster::wait(&format!("`{node}` reported its identity"), READY_SECONDS, || report(cluster, node));
    report.lines().map(str::to_owned).collect()
}

/// Scales the pool out and returns the reports of the new nodes, once they are Ready.
#[track_caller]
fn grow(cluster: &Cluster, count: &str) -> BTreeMap<String, Vec<String>> {
    let before = machines();
    kiln(&["local", "pool", "scale", "vms", count]);
    let new = machines().into_keys().filter(|node| !before.contains_key(node));
    new.map(|node| (node.clone(), wait_ready(cluster, &node))).collect()
}

#[test]
fn clones_of_clones_join_as_virtual_machines_after_the_donors_token_was_revoked() {
    let name = "clones_of_clones_join_as_virtual_machines_after_the_donors_token_was_revoked";
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

        let words = ["update", "--target-node", "vms000000", "--no-original", "--allow-empty-pool"];
        let mut run = prototype(&cluster, &words);
        let mut run = Background(run.stdout(Stdio::inherit()).spawn().expect("kiln runs"));
        while !has_snapshot(state) {
            assert!(run.0.try_wait().expect("a child").is_none(), "no snapshot was created");
            thread::sleep(Duration::from_millis(5));
        }
        drop(run);
        cluster.revoke("first0");
        cluster.rotate("second", "fedcba9876543210");
        let resumed = prototype(&cluster, &["resume"]).output().expect("kiln runs");
        assert!(resumed.status.success(), "{}", output_of(&resumed));

        let clones = grow(&cluster, "3");
        assert_eq!(clones.len(), 2, "{:?}", clones.keys());
        let parent = clones.keys().next().expect("two").clone();

        // On the next day, the clone is the donor.
        let again = prototype(&cluster, &["update", "--target-node", &parent, "--now", LATER]).output().expect("runs");
        assert!(again.status.success(), "{}", output_of(&again));
        let grandchildren = grow(&cluster, "4");
        assert_eq!(grandchildren.len(), 1, "{:?}", grandchildren.keys());

        let (donors, all) = ([("vms000000".to_owned(), donor)], machines());
        let reports: BTreeMap<String, Vec<String>> = donors.into_iter().chain(clones).chain(grandchildren).collect();
        for (line, what) in REPORTED.into_iter().enumerate() {
            let mut values: Vec<&str> = reports.values().filter_map(|lines| Some(lines.get(line)?.as_str())).collect();
            assert!(values.iter().all(|value| !value.is_empty()), "{what}: {values:?}");
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), reports.len(), "{what}: {reports:?}");
        }
        for (node, lines) in &reports {
            let own = text(&all[node], "vmId");
            assert!(lines[2].eq_ignore_ascii_case(&own), "the firmware of `{node}`: {lines:?}");
            let ancestors: &[&str] = match node.as_str() {
                "vms000000" => &[],
                "vms000001" | "vms000002" => &["vms000000"],
                _ => &["vms000000", &parent],
            };
            for ancestor in ancestors {
                let id = text(&all[*ancestor], "vmId");
                assert!(lines[REPORTED.len()..].iter().any(|line| line.contains(&id)), "{id} in `{node}`: {lines:?}");
            }
        }
    });
}
