//! `kiln prototype` on nodes that cloud-init joined with a bootstrap token: clones run the pool's custom data again, with the current token.

use std::fs;

use serde_json::Value;

use super::clones::{Stage, assert_completed};
use super::cloud_root::{create_cloud_root, custom_data};
use super::inside::in_sandbox;
use super::machines::{kiln, machines, output_of, text};
use super::shell::shell;

/// A day without an image version.
const LATER: &str = "2099-01-01T12:00:00Z";

const SECRET: &str = "fedcba9876543210";

#[test]
fn clones_of_a_kubeadm_node_join_with_the_rotated_token() {
    in_sandbox("recipe::clones_of_a_kubeadm_node_join_with_the_rotated_token", |state| {
        let root = state.join("root");
        create_cloud_root(&root);
        let stage =
            Stage::start_pool(state, &root, "--custom-data", |cluster| custom_data(cluster, "first0.0123456789abcdef"));
        let donor = "nodes000000";
        // As after `kubeadm join`: the token is gone, and the kubelet has its own certificate.
        shell(
            donor,
            "test ! -e /etc/kubernetes/bootstrap-kubelet.conf; grep -q kubelet-client-current /etc/kubernetes/kubelet.conf",
        );
        shell(donor, "kilnd install --dmi /run/kiln-local/dmi; echo patched-by-hand >/usr/local/share/patched");

        let output = stage.prototype(&["plan", "--target-node", donor]).output().expect("kiln runs");
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", output_of(&output)));
        assert_eq!(plan["join"], "recipe", "{}", output_of(&output));
        assert_eq!(plan["blockers"], serde_json::json!([]), "{}", output_of(&output));
        let refused =
            stage.prototype(&["plan", "--target-node", donor, "--join", "certificate"]).output().expect("kiln runs");
        assert_eq!(refused.status.code(), Some(1), "{}", output_of(&refused));
        assert!(output_of(&refused).contains("join-credential"), "{}", output_of(&refused));

        assert_completed(stage.prototype(&["update", "--target-node", donor]));
        stage.wait_ready(&[donor]);

        // The owner of the pool rotates the token, as for any new node.
        stage.cluster.rotate("second", SECRET);
        let new = state.join("new");
        fs::write(&new, custom_data(&stage.cluster, &format!("second.{SECRET}"))).expect("written");
        kiln(&["local", "pool", "update", "nodes", "--custom-data", new.to_str().expect("plain")]);
        stage.cluster.revoke("first0");

        let clones = stage.grow(4);
        assert_eq!(clones.len(), 2, "{clones:?}");
        for clone in &clones {
            assert_joined(&stage, clone);
        }
        // On the next day, a clone is the donor.
        assert_completed(stage.prototype(&["update", "--target-node", &clones[0], "--now", LATER]));
        let grandchildren = stage.grow(5);
        assert_eq!(grandchildren.len(), 1, "{grandchildren:?}");
        assert_joined(&stage, &grandchildren[0]);

        let all = machines();
        let layers = |node: &str| all[node]["layers"].as_u64();
        assert_eq!((all.len(), layers(&clones[1]), layers(&grandchildren[0])), (5, Some(1), Some(2)), "{all:?}");
        let certificates: Vec<String> =
            all.keys().map(|node| shell(node, "sha256sum </var/lib/kubelet/pki/kubelet-client-current.pem")).collect();
        assert!(certificates.iter().enumerate().all(|(at, one)| !certificates[..at].contains(one)), "{certificates:?}");
    });
}

/// The clone has the donor's patches and joined with the new token, as itself, by its own run of cloud-init.
#[track_caller]
fn assert_joined(stage: &Stage, clone: &str) {
    shell(clone, "test \"$(cat /usr/local/share/patched)\" = patched-by-hand");
    assert_eq!(shell(clone, "cat /run/join/token"), format!("second.{SECRET}"));
    let instances = shell(clone, "ls /var/lib/cloud/instances");
    assert_eq!(instances, text(&machines()[clone], "vmId"), "cloud-init knows another instance");
    shell(clone, "! grep -rqs first0 /etc /var/lib/cloud /var/lib/kubelet /var/lib/kiln");
    shell(clone, "test ! -e /etc/kubernetes/bootstrap-kubelet.conf; test -e /etc/kubernetes/pki/ca.crt");
    let names = stage.cluster.get(&["node", clone]).map(|node| node["metadata"]["name"].clone());
    assert_eq!(names, Some(clone.into()));
}
