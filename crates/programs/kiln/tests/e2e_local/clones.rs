//! `kiln prototype` on real machines: the run is killed after the snapshot of a real disk, is resumed, and clones join a real cluster.

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
use super::inside::{KILN, in_sandbox, node_root};
use super::machines::{kiln, machines, output_of, text};
use super::root;
use super::shell::shell;

/// The identity that local nodes have in addition to `IDENTITY`.
const NODE_IDENTITY: [(&str, &str); 2] = [
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

/// A day without an image version.
const LATER: &str = "2099-01-01T12:00:00Z";

/// A process that is killed when the test ends.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    _nodes: Background,
}

impl Stage {
    /// Starts a pool of two nodes and waits until they have joined.
    fn start(state: &Path) -> Self {
        let root = state.join("root");
        root::create_root(&root, &node_root());
        Self::start_pool(state, &root, "--user-data", |cluster| cluster.document().to_string())
    }

    /// Starts a pool of two nodes with user data or custom data, and waits until they have joined.
    pub(crate) fn start_pool(state: &Path, root: &Path, option: &str, data: impl FnOnce(&Cluster) -> String) -> Self {
        let cluster = Cluster::start(&state.join("kube"));
        let document = state.join("data");
        fs::write(&document, data(&cluster)).expect("written");
        let mut command = Command::new(KILN);
        command.args(["local", "nodes", "--kubeconfig"]).arg(cluster.plane.kubeconfig());
        let nodes = Background(command.spawn().expect("kiln runs"));
        let path = |path: &Path| path.to_str().expect("plain").to_owned();
        kiln(&["local", "image", "import", "debian", &path(root)]);
        let data = path(&document);
        kiln(&["local", "pool", "create", "nodes", "--image", "debian", "--count", "2", option, &data]);
        let started = Self { cluster, _nodes: nodes };
        started.wait_ready(&["nodes000000", "nodes000001"]);
        started
    }

    #[track_caller]
    pub(crate) fn wait_ready(&self, nodes: &[&str]) {
        for node in nodes {
            Cluster::wait(&format!("`{node}` is ready"), 60, || {
                let known = self.cluster.get(&["node", node])?["spec"]["providerID"].is_string();
                (known && self.cluster.is_ready(node)).then_some(())
            });
        }
    }

    pub(crate) fn prototype(&self, words: &[&str]) -> Command {
        let mut command = Command::new(KILN);
        command.arg("prototype").args(words).arg("--kubeconfig").arg(self.cluster.plane.kubeconfig());
        command.args(["--pod-image", KILN_IMAGE, "--output", "json", "--log-level", "info"]);
        command
    }

    /// Scales the pool out and returns the new nodes, once they are Ready.
    #[track_caller]
    pub(crate) fn grow(&self, count: u32) -> Vec<String> {
        let before = machines();
        kiln(&["local", "pool", "scale", "nodes", &count.to_string()]);
        let new: Vec<String> = machines().into_keys().filter(|node| !before.contains_key(node)).collect();
        self.wait_ready(&new.iter().map(String::as_str).collect::<Vec<_>>());
        new
    }
}

/// Whether a snapshot exists.
fn has_snapshot(state: &Path) -> bool {
    let documents = fs::read_dir(state.join("snapshots")).into_iter().flatten().flatten();
    documents.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(".json"))
}

#[track_caller]
pub(crate) fn assert_completed(mut command: Command) {
    let output = command.output().expect("kiln runs");
    assert!(output.status.success(), "{}", output_of(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["runs"][0]["outcome"], "completed", "{}", output_of(&output));
}

#[test]
fn killed_run_is_resumed_and_clones_of_clones_join_after_the_donors_token_was_revoked() {
    let name = "clones::killed_run_is_resumed_and_clones_of_clones_join_after_the_donors_token_was_revoked";
    in_sandbox(name, |state| {
        let stage = Stage::start(state);
        shell("nodes000000", PLANTED);

        let mut run = stage.prototype(&["update", "--target-node", "nodes000000", "--no-original"]);
        let answer = state.join("first.json");
        let output = File::create(&answer).expect("a file");
        let mut run = Background(run.stdout(output).spawn().expect("kiln runs"));
        while !has_snapshot(state) {
            let ended = run.0.try_wait().expect("a child");
            assert!(ended.is_none(), "no snapshot was created: {}", fs::read_to_string(&answer).unwrap_or_default());
            thread::sleep(Duration::from_millis(5));
        }
        run.0.kill().expect("killed");
        run.0.wait().expect("a child");
        // The donor may be off or on again. No other machine is ever off.
        assert_eq!(machines()["nodes000001"]["on"], true);

        // The credential that the donor joined with is no longer valid.
        stage.cluster.revoke("first0");
        stage.cluster.rotate("second", "fedcba9876543210");
        assert_completed(stage.prototype(&["resume"]));
        stage.wait_ready(&["nodes000000"]);

        let clones = stage.grow(4);
        assert_eq!(clones.len(), 2, "{clones:?}");
        shell(&clones[0], "test \"$(cat /usr/local/share/patched)\" = patched-by-hand; test ! -e /root/.bash_history");

        // On the next day, the clone is the donor.
        assert_completed(stage.prototype(&["update", "--target-node", &clones[0], "--now", LATER]));
        let grandchildren = stage.grow(5);
        assert_eq!(grandchildren.len(), 1, "{grandchildren:?}");

        let all = machines();
        assert_eq!(all.len(), 5, "a canary is left: {all:?}");
        assert_different_identities(&stage, &all.keys().map(String::as_str).collect::<Vec<_>>());
        let ancestry = shell(&grandchildren[0], "cat /var/lib/kiln/ancestry.log");
        for ancestor in ["nodes000000", &clones[0]] {
            let id = text(&all[ancestor], "vmId");
            assert!(ancestry.contains(&id), "{id} of `{ancestor}` is not in {ancestry}");
        }
        let layers = |node: &str| all[node]["layers"].as_u64();
        assert_eq!((layers("nodes000001"), layers(&clones[1]), layers(&grandchildren[0])), (Some(0), Some(1), Some(2)));
    });
}

/// No two machines share any part of their identity, in the machine or in the API server.
#[track_caller]
fn assert_different_identities(stage: &Stage, nodes: &[&str]) {
    let mut identities: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes {
        for (what, line) in IDENTITY.into_iter().chain(NODE_IDENTITY) {
            // Only the donor has these, and its clones get their own.
            let planted = ["iSCSI initiator", "NVMe host id", "random seed", "ssh host key"].contains(&what);
            let is_absent = planted && *node == "nodes000001";
            if !is_absent {
                identities.entry(what).or_default().push(shell(node, line));
            }
        }
        let found = stage.cluster.get(&["node", node]).unwrap_or_else(|| panic!("no node `{node}`"));
        identities.entry("machine id of the node").or_default().push(text(&found["status"]["nodeInfo"], "machineID"));
        identities.entry("provider id").or_default().push(text(&found["spec"], "providerID"));
        assert!(stage.cluster.is_ready(node), "`{node}`");
    }
    for (what, mut values) in identities {
        let count = values.len();
        assert!(count >= 4 && values.iter().all(|value| !value.is_empty()), "{what}: {values:?}");
        values.sort();
        values.dedup();
        assert_eq!(values.len(), count, "{what}: {values:?}");
    }
}
