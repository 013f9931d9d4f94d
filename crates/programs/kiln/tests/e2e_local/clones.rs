//! `kiln prototype` on real machines: a real disk is captured, the operator is killed in the middle, and clones join a real cluster.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::IDENTITY;

use super::cluster::Cluster;
use super::image::KILN_IMAGE;
use super::inside::{KILN, in_world, node_root};
use super::machines::{kiln, machines, said, text};
use super::root;
use super::shell::shell;

/// What nodes of this machine have besides.
const OF_A_NODE: [(&str, &str); 2] = [
    ("firmware's id", "cat /run/kiln-local/dmi/product_uuid"),
    ("kubelet's certificate", "sha256sum </var/lib/kubelet/pki/kubelet-client-current.pem"),
];

const PLANTED: &str = "
    mkdir -p /etc/iscsi /etc/nvme
    echo InitiatorName=iqn.1993-08.org.debian:01:donor >/etc/iscsi/initiatorname.iscsi
    echo 0f1e2d3c-0000-1111-2222-333344445555 >/etc/nvme/hostid
    head -c 512 /dev/urandom >/var/lib/systemd/random-seed
    systemd-creds setup
    test -e /etc/ssh/ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
    echo donor-typed >/root/.bash_history
    echo patched-by-hand >/usr/local/share/patched
";

/// A day on which no version was made yet.
const LATER: &str = "2099-01-01T12:00:00Z";

/// A process that ends with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Stage {
    cluster: Cluster,
    _nodes: Background,
}

impl Stage {
    /// A pool of two nodes that have joined.
    fn start(state: &Path) -> Self {
        let root = state.join("root");
        root::make(&root, &node_root());
        let cluster = Cluster::start(&state.join("kube"));
        let document = state.join("node.json");
        fs::write(&document, cluster.document().to_string()).expect("written");
        let mut command = Command::new(KILN);
        command.args(["local", "nodes", "--kubeconfig"]).arg(cluster.plane.kubeconfig());
        let nodes = Background(command.spawn().expect("kiln runs"));
        let path = |path: &Path| path.to_str().expect("plain").to_owned();
        kiln(&["local", "image", "import", "debian", &path(&root)]);
        let data = path(&document);
        kiln(&["local", "pool", "create", "nodes", "--image", "debian", "--count", "2", "--user-data", &data]);
        let started = Self { cluster, _nodes: nodes };
        started.wait_ready(&["nodes000000", "nodes000001"]);
        started
    }

    #[track_caller]
    fn wait_ready(&self, nodes: &[&str]) {
        for node in nodes {
            Cluster::wait(&format!("`{node}` is ready"), 60, || {
                let known = self.cluster.get(&["node", node])?["spec"]["providerID"].is_string();
                (known && self.cluster.is_ready(node)).then_some(())
            });
        }
    }

    fn prototype(&self, words: &[&str]) -> Command {
        let mut command = Command::new(KILN);
        command.arg("prototype").args(words).arg("--kubeconfig").arg(self.cluster.plane.kubeconfig());
        command.args(["--pod-image", KILN_IMAGE, "--output", "json", "--log-level", "info"]);
        command
    }

    /// The pool made larger: the new nodes, which must become ready.
    #[track_caller]
    fn grow(&self, count: u32) -> Vec<String> {
        let before = machines();
        kiln(&["local", "pool", "scale", "nodes", &count.to_string()]);
        let new: Vec<String> = machines().into_keys().filter(|node| !before.contains_key(node)).collect();
        self.wait_ready(&new.iter().map(String::as_str).collect::<Vec<_>>());
        new
    }
}

/// Whether a disk has been captured.
fn captured(state: &Path) -> bool {
    let documents = fs::read_dir(state.join("snapshots")).into_iter().flatten().flatten();
    documents.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".json"))
}

#[track_caller]
fn assert_completed(mut command: Command) {
    let output = command.output().expect("kiln runs");
    assert!(output.status.success(), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    assert_eq!(answer["runs"][0]["outcome"], "completed", "{}", said(&output));
}

#[test]
fn a_killed_run_is_resumed_and_clones_of_clones_join_by_themselves_with_the_donors_token_revoked() {
    let name = "clones::a_killed_run_is_resumed_and_clones_of_clones_join_by_themselves_with_the_donors_token_revoked";
    in_world(name, |state| {
        let world = Stage::start(state);
        shell("nodes000000", PLANTED);

        let mut run = world.prototype(&["update", "--target-node", "nodes000000", "--no-original"]);
        let answer = state.join("first.json");
        let said = File::create(&answer).expect("a file");
        let mut run = Background(run.stdout(said).spawn().expect("kiln runs"));
        while !captured(state) {
            let ended = run.0.try_wait().expect("a child");
            assert!(ended.is_none(), "nothing was captured: {}", fs::read_to_string(&answer).unwrap_or_default());
            thread::sleep(Duration::from_millis(5));
        }
        run.0.kill().expect("killed");
        run.0.wait().expect("a child");
        // The donor is off, or was switched on again between two looks; nobody else ever is off.
        assert_eq!(machines()["nodes000001"]["on"], true);

        // From here on nobody joins with what the donor joined with.
        world.cluster.revoke("first0");
        world.cluster.rotate("second", "fedcba9876543210");
        assert_completed(world.prototype(&["resume"]));
        world.wait_ready(&["nodes000000"]);

        let clones = world.grow(4);
        assert_eq!(clones.len(), 2, "{clones:?}");
        shell(&clones[0], "test \"$(cat /usr/local/share/patched)\" = patched-by-hand; test ! -e /root/.bash_history");

        // On another day the clone is the donor.
        assert_completed(world.prototype(&["update", "--target-node", &clones[0], "--now", LATER]));
        let grandchildren = world.grow(5);
        assert_eq!(grandchildren.len(), 1, "{grandchildren:?}");

        let all = machines();
        assert_eq!(all.len(), 5, "the canaries are gone: {all:?}");
        assert_differ(&world, &all.keys().map(String::as_str).collect::<Vec<_>>());
        let ancestry = shell(&grandchildren[0], "cat /var/lib/kiln/ancestry.log");
        for ancestor in ["nodes000000", &clones[0]] {
            let id = text(&all[ancestor], "vmId");
            assert!(ancestry.contains(&id), "{id} of `{ancestor}` is not in {ancestry}");
        }
        let layers = |node: &str| all[node]["layers"].as_u64();
        assert_eq!((layers("nodes000001"), layers(&clones[1]), layers(&grandchildren[0])), (Some(0), Some(1), Some(2)));
    });
}

/// Every machine is told from every other by all that is said of it, by itself and by the API server.
#[track_caller]
fn assert_differ(stage: &Stage, nodes: &[&str]) {
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes {
        for (what, line) in IDENTITY.into_iter().chain(OF_A_NODE) {
            // Only the donor and those that come from it were given these.
            let given = ["iSCSI initiator", "NVMe host id", "random seed", "ssh host key"].contains(&what);
            let none = given && *node == "nodes000001";
            if !none {
                seen.entry(what).or_default().push(shell(node, line));
            }
        }
        let found = stage.cluster.get(&["node", node]).unwrap_or_else(|| panic!("no node `{node}`"));
        seen.entry("machine id of the node").or_default().push(text(&found["status"]["nodeInfo"], "machineID"));
        seen.entry("provider id").or_default().push(text(&found["spec"], "providerID"));
        assert!(stage.cluster.is_ready(node), "`{node}`");
    }
    for (what, mut values) in seen {
        let count = values.len();
        assert!(count >= 4 && values.iter().all(|value| !value.is_empty()), "{what}: {values:?}");
        values.sort();
        values.dedup();
        assert_eq!(values.len(), count, "{what}: {values:?}");
    }
}
