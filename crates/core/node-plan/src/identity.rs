//! The identity list: what a disk says about the one machine that it belonged to, and what becomes of it in a clone.
//!
//! One table serves the reset at first boot, the sealing of an image and its verification. Agents add their own ids by
//! [drop-ins](crate::DropIn).

use serde::{Deserialize, Serialize};

/// What becomes of an item at the first boot of a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Treatment {
    /// Made anew, by us or by who owns it.
    Reset,
    /// Taken away.
    Remove,
    /// Left as it is: that is what a clone is for.
    Keep,
}

/// One item of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// What it is called in inspections and reports.
    pub name: &'static str,
    /// Files and folders; `*` stands for any run of characters but `/`.
    pub paths: &'static [&'static str],
    /// What becomes of it.
    pub treatment: Treatment,
    pub why: &'static str,
}

const fn item(name: &'static str, treatment: Treatment, paths: &'static [&'static str], why: &'static str) -> Item {
    Item { name, paths, treatment, why }
}

use Treatment::{Keep, Remove, Reset};

/// The list.
pub const IDENTITY: &[Item] = &[
    item(
        "machine-id",
        Reset,
        &["/etc/machine-id", "/var/lib/dbus/machine-id"],
        "networkd derives the DHCP client id from it, journald and agents name the machine by it",
    ),
    item(
        "host-name",
        Reset,
        &["/etc/hostname"],
        "kubelet registers under it: a clone would take over its donor's Node",
    ),
    item(
        "ssh-host-keys",
        Reset,
        &["/etc/ssh/ssh_host_*_key", "/etc/ssh/ssh_host_*_key.pub"],
        "whoever has one clone's key could pose as every other",
    ),
    item(
        "dhcp-duid",
        Reset,
        &["/etc/dhcp/dhclient6.duid", "/var/lib/dhcp/dhclient6.duid", "/var/lib/dhcpcd/duid"],
        "two machines with one DUID get one address",
    ),
    item(
        "dhcp-leases",
        Remove,
        &["/var/lib/dhcp/*.leases", "/run/systemd/netif/leases", "/var/lib/NetworkManager/*.lease"],
        "a clone would ask for its donor's address",
    ),
    item(
        "netplan",
        Reset,
        &["/etc/netplan/50-cloud-init.yaml"],
        "cloud-init writes the donor's MAC into it: without a new one a clone has no network",
    ),
    item(
        "cloud-init-state",
        Remove,
        &["/var/lib/cloud/data", "/var/lib/cloud/instance", "/var/lib/cloud/instances", "/var/lib/cloud/sem"],
        "it names the donor's instance, and holds its custom data",
    ),
    item(
        "waagent-state",
        Remove,
        &[
            "/var/lib/waagent/events",
            "/var/lib/waagent/history",
            "/var/lib/waagent/provisioned",
            "/var/lib/waagent/*.xml",
            "/var/lib/waagent/*.prv",
        ],
        "with it the agent takes a clone for provisioned and reports as its donor",
    ),
    item("custom-data", Remove, &["/var/lib/kiln/custom-data"], "it was given to the donor, join credential and all"),
    item("journal", Remove, &["/var/log/journal"], "it is the donor's past, filed under the donor's machine id"),
    item(
        "random-seed",
        Reset,
        &["/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed"],
        "machines that start from one seed draw the same keys",
    ),
    item(
        "credential-secret",
        Reset,
        &["/var/lib/systemd/credential.secret"],
        "credentials that are sealed with it could be opened by every clone",
    ),
    item(
        "iscsi-initiator",
        Reset,
        &["/etc/iscsi/initiatorname.iscsi"],
        "a target takes two initiators of one name for one: volumes are corrupted",
    ),
    item("nvme-host-ids", Reset, &["/etc/nvme/hostid", "/etc/nvme/hostnqn"], "as with iSCSI, for NVMe over fabrics"),
    item(
        "authorized-keys",
        Reset,
        &["/root/.ssh/authorized_keys", "/home/*/.ssh/authorized_keys"],
        "who may log in to a new machine is said by the platform, not by its donor",
    ),
    item(
        "kubelet-pki",
        Reset,
        &["/var/lib/kubelet/pki"],
        "the certificate is of the donor's Node: with it a clone speaks in the donor's name",
    ),
    item(
        "kubelet-pods",
        Remove,
        &["/var/lib/kubelet/pods"],
        "tenants' emptyDirs and tokens; refused where something is mounted below, so that no volume is emptied",
    ),
    item(
        "kubelet-manager-states",
        Remove,
        &[
            "/var/lib/kubelet/cpu_manager_state",
            "/var/lib/kubelet/memory_manager_state",
            "/var/lib/kubelet/dra_manager_state",
        ],
        "they pin pods that are not there, and stop a kubelet of another size or policy",
    ),
    item(
        "kubelet-checkpoints",
        Remove,
        &["/var/lib/kubelet/checkpoints"],
        "they are of the donor's containers, memory and all",
    ),
    item(
        "kubelet-plugins",
        Remove,
        &["/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry"],
        "sockets and checkpoints of plugins that have not registered on this machine",
    ),
    item(
        "cni-state",
        Remove,
        &["/var/lib/cni/networks", "/var/lib/cni/results"],
        "addresses that are lent to the donor's pods would never come free",
    ),
    item(
        "calico-nodename",
        Remove,
        &["/var/lib/calico/nodename"],
        "calico would plumb a clone's pods as those of its donor; it writes the file anew",
    ),
    item("pod-logs", Remove, &["/var/log/pods", "/var/log/containers"], "tenants' logs are not a clone's to show"),
    item("core-dumps", Remove, &["/var/lib/systemd/coredump", "/var/crash"], "memory of the donor's processes"),
    item(
        "shell-history",
        Remove,
        &["/root/.bash_history", "/home/*/.bash_history"],
        "what people typed on the donor, secrets among it",
    ),
    item(
        "container-images",
        Keep,
        &[
            "/var/lib/containerd/io.containerd.content.v1.content",
            "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
            "/var/lib/containerd/io.containerd.metadata.v1.bolt",
        ],
        "images that are on the disk are not pulled: half of what a clone saves",
    ),
    item(
        "join-credential",
        Keep,
        &["/etc/kubernetes/certs", "/var/lib/kubelet/kubeconfig", "/var/lib/kubelet/bootstrap-kubeconfig"],
        "by its kind: what custom data wrote once is written by nobody when that is gone",
    ),
    item(
        "packages",
        Keep,
        &["/var/lib/dpkg", "/var/lib/rpm", "/usr/lib/sysimage/rpm"],
        "patches that the donor has are the other half",
    ),
];

/// The items with one treatment.
pub fn with(treatment: Treatment) -> impl Iterator<Item = &'static Item> {
    IDENTITY.iter().filter(move |item| item.treatment == treatment)
}

/// The item of a name.
pub fn named(name: &str) -> Option<&'static Item> {
    IDENTITY.iter().find(|item| item.name == name)
}

/// Whether one path is the other, or lies in it. `*` of either stands for any name.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    a.split('/').zip(b.split('/')).all(|(a, b)| a == b || wild(a, b) || wild(b, a))
}

/// Whether a path component with at most one `*` matches another one.
fn wild(pattern: &str, name: &str) -> bool {
    let Some((front, back)) = pattern.split_once('*') else { return false };
    name.len() >= front.len() + back.len() && name.starts_with(front) && name.ends_with(back)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_and_no_path_stands_twice() {
        let names: BTreeSet<&str> = IDENTITY.iter().map(|item| item.name).collect();
        assert_eq!(names.len(), IDENTITY.len());
        let all: Vec<&str> = IDENTITY.iter().flat_map(|item| item.paths.iter().copied()).collect();
        let distinct: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn every_item_has_a_reason_and_absolute_paths() {
        for item in IDENTITY {
            assert!(item.why.len() > 20, "{} has no reason", item.name);
            assert!(!item.paths.is_empty(), "{} has no path", item.name);
            for path in item.paths {
                assert!(path.starts_with('/') && !path.ends_with('/') && !path.contains("/../"), "{path}");
            }
        }
    }

    #[test]
    fn nothing_that_is_kept_lies_in_what_goes_or_the_other_way_round() {
        let kept: Vec<&str> = with(Keep).flat_map(|item| item.paths.iter().copied()).collect();
        for item in IDENTITY.iter().filter(|item| item.treatment != Keep) {
            for path in item.paths {
                let met = kept.iter().find(|kept| overlap(kept, path));
                assert_eq!(met, None, "{}: {path}", item.name);
            }
        }
    }

    #[test]
    fn what_the_cluster_and_the_network_know_a_machine_by_is_made_anew() {
        for name in ["machine-id", "host-name", "ssh-host-keys", "dhcp-duid", "kubelet-pki", "netplan", "random-seed"] {
            assert_eq!(named(name).map(|item| item.treatment), Some(Reset), "{name}");
        }
    }

    #[test]
    fn overlaps_are_found_through_stars_and_folders() {
        assert!(overlap("/var/lib/kubelet/pki", "/var/lib/kubelet/pki/current.pem"));
        assert!(overlap("/home/*/.ssh", "/home/azureuser/.ssh/authorized_keys"));
        assert!(overlap("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_*_key"));
        assert!(!overlap("/etc/ssh/ssh_host_rsa_key.pub", "/etc/ssh/ssh_host_*_key"));
        assert!(!overlap("/var/lib/kubelet/pki", "/var/lib/kubelet/pods"));
    }
}
