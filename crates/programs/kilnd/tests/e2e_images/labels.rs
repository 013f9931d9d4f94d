//! SELinux labels on an image that looks like Azure Linux, compared by the policy's own tool.

use super::kinds::Kind;
use super::node::Node;

/// What kilnd writes at a first boot.
const WRITTEN: &str = "/etc/kiln /etc/hostname /var/lib/kiln";

/// Files that do not have the label of the policy.
#[track_caller]
fn wrong(node: &Node, paths: &str) -> String {
    let contexts = "/etc/selinux/default/contexts/files/file_contexts";
    node.machine.shell(&format!("setfiles -n -v {contexts} {paths} | grep 'Would relabel' || true")).stdout
}

#[test]
fn image_has_the_labels_of_its_policy() {
    let node = Node::new(Kind::AzureLinux, "labelled").boot();
    assert_eq!(wrong(&node, "/etc/pam.d /usr/sbin"), "");
    node.machine.shell("touch /usr/sbin/unlabelled");
    assert!(wrong(&node, "/usr/sbin").contains("/usr/sbin/unlabelled"), "the tool finds a missing label");
}

#[test]
fn files_that_kilnd_writes_have_the_labels_of_the_policy() {
    let node = Node::new(Kind::AzureLinux, "labels");
    node.attach_media(&node.document(1));
    let node = node.boot();
    node.assert_joined(1);
    assert_eq!(wrong(&node, WRITTEN), "", "after a first boot");
    node.cloud.set_user_data(&node.document(2).with("/spec/kubelet/configuration/maxPods", serde_json::json!(37)));
    node.wait_committed(2);
    assert_eq!(wrong(&node, WRITTEN), "", "after a change");
}
