//! SELinux labels on an image that looks like Azure Linux, compared by the policy's own tool.

use testkit::nspawn::Machine;

use super::kinds::Kind;
use super::node::Node;

/// The policy of the image.
const CONTEXTS: &str = "/etc/selinux/default/contexts/files/file_contexts";

/// The folders and files that kilnd writes to on these machines.
const WRITTEN: &str = "/etc/kiln /etc/hostname /etc/hosts /etc/systemd /etc/sysctl.d /etc/modules-load.d /var/lib/kiln";

/// Files that other programs write. The kernel would label them; here it has no policy.
const OF_OTHERS: [&str; 2] = ["/etc/hostname", "/etc/systemd/network/10-cloud-init-eth0.network"];

/// Asserts that everything that kilnd wrote has its label. The tests add files without a label to the image.
#[track_caller]
pub(crate) fn assert_right(node: &Node, when: &str) {
    if node.kind == Kind::AzureLinux {
        let found = wrong(&node.machine, WRITTEN);
        let unchanged = node.image.unchanged(&node.machine);
        let paths = found.lines().map(|line| line.split_whitespace().nth(2).unwrap_or_default());
        let wrong: Vec<_> = paths.filter(|path| !OF_OTHERS.contains(path) && !unchanged.contains(*path)).collect();
        assert_eq!(wrong, Vec::<&str>::new(), "{when}");
    }
}

/// Files that do not have the label of the policy.
#[track_caller]
fn wrong(machine: &Machine, paths: &str) -> String {
    let existing = format!("ls --directory {paths} 2>/dev/null || true");
    machine.shell(&format!("setfiles -n -v {CONTEXTS} $({existing}) | grep 'Would relabel' || true")).stdout
}

#[test]
fn image_has_the_labels_of_its_policy() {
    let node = Node::new(Kind::AzureLinux, "labelled").boot();
    assert_eq!(wrong(&node.machine, "/etc/pam.d /usr/sbin"), "");
    node.machine.shell("touch /usr/sbin/unlabelled");
    assert!(wrong(&node.machine, "/usr/sbin").contains("/usr/sbin/unlabelled"), "the tool finds a missing label");
}
