//! The identity list: everything on a disk that identifies the machine it belonged to, and how a clone treats it.
//!
//! The reset at first boot, `kilnd seal` and `kilnd seal --check` use the same table. Agents add their ids with [drop-ins](crate::DropIn).

use serde::{Deserialize, Serialize};

/// How the first boot of a clone treats an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Treatment {
    /// Replaced with a new one, by kilnd or by the program that owns it.
    Reset,
    Remove,
    /// Kept: it is the purpose of a clone.
    Keep,
}

/// One item of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The name in inspections and reports.
    pub name: &'static str,
    /// Files and folders; `*` matches any characters except `/`.
    pub paths: &'static [&'static str],
    pub treatment: Treatment,
    pub why: &'static str,
}

const fn item(name: &'static str, treatment: Treatment, paths: &'static [&'static str], why: &'static str) -> Item {
    Item { name, paths, treatment, why }
}

use Treatment::{Keep, Remove, Reset};

/// The identity list.
pub const IDENTITY: &[Item] = &[
    item(
        "machine-id",
        Reset,
        &["/etc/machine-id", "/var/lib/dbus/machine-id"],
        "networkd derives the DHCP client id from it; journald and agents identify the machine by it",
    ),
    item(
        "host-name",
        Reset,
        &["/etc/hostname"],
        "the kubelet registers with it: a clone would take over its donor's Node",
    ),
    item(
        "ssh-host-keys",
        Reset,
        &["/etc/ssh/ssh_host_*_key", "/etc/ssh/ssh_host_*_key.pub"],
        "with the key of one clone an attacker could impersonate all of them",
    ),
    item(
        "dhcp-duid",
        Reset,
        &["/etc/dhcp/dhclient6.duid", "/var/lib/dhcp/dhclient6.duid", "/var/lib/dhcpcd/duid"],
        "two machines with the same DUID get the same address",
    ),
    item(
        "dhcp-leases",
        Remove,
        &["/var/lib/dhcp/*.leases", "/run/systemd/netif/leases", "/var/lib/NetworkManager/*.lease"],
        "a clone would request its donor's address",
    ),
    item(
        "netplan",
        Reset,
        &["/etc/netplan/50-cloud-init.yaml"],
        "cloud-init writes the donor's MAC address into it: a clone would have no network",
    ),
    item(
        "cloud-init-state",
        Remove,
        &["/var/lib/cloud/data", "/var/lib/cloud/instance", "/var/lib/cloud/instances", "/var/lib/cloud/sem"],
        "contains the donor's instance id and custom data",
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
            // The last settings that an extension processed: it would skip those of a clone, which have the same number.
            "/var/lib/waagent/*/mrseq",
            "/var/lib/waagent/*/config/*.settings",
            "/var/lib/waagent/*/config/HandlerState",
            "/var/lib/waagent/*/config/HandlerStatus",
            "/var/lib/waagent/*/status",
            "/var/lib/waagent/custom-script",
        ],
        "the agent would consider a clone provisioned, report as its donor and not run its extensions",
    ),
    item(
        "custom-data",
        Remove,
        &["/var/lib/kiln/custom-data"],
        "the donor's custom data, including its join credential",
    ),
    item("journal", Remove, &["/var/log/journal"], "the donor's logs, stored under its machine id"),
    item(
        "random-seed",
        Reset,
        &["/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed"],
        "machines with the same seed could generate the same keys",
    ),
    item(
        "credential-secret",
        Reset,
        &["/var/lib/systemd/credential.secret"],
        "every clone could decrypt credentials that were encrypted with it",
    ),
    item(
        "iscsi-initiator",
        Reset,
        &["/etc/iscsi/initiatorname.iscsi"],
        "a target treats two initiators with the same name as one, which corrupts volumes",
    ),
    item(
        "nvme-host-ids",
        Reset,
        &["/etc/nvme/hostid", "/etc/nvme/hostnqn"],
        "like iSCSI initiator names, for NVMe over Fabrics",
    ),
    item(
        "authorized-keys",
        Reset,
        &["/root/.ssh/authorized_keys", "/home/*/.ssh/authorized_keys"],
        "the platform decides who may log in to a new machine",
    ),
    item(
        "kubelet-pki",
        Reset,
        &["/var/lib/kubelet/pki"],
        "with the donor's certificate a clone would act as the donor's Node",
    ),
    item(
        "kubelet-pods",
        Remove,
        &["/var/lib/kubelet/pods"],
        "emptyDirs and tokens of pods; refused if something is mounted below, so that no volume is emptied",
    ),
    item(
        "kubelet-manager-states",
        Remove,
        &[
            "/var/lib/kubelet/cpu_manager_state",
            "/var/lib/kubelet/memory_manager_state",
            "/var/lib/kubelet/dra_manager_state",
        ],
        "assignments of the donor's pods; a kubelet with another size or policy would not start",
    ),
    item(
        "kubelet-checkpoints",
        Remove,
        &["/var/lib/kubelet/checkpoints"],
        "checkpoints of the donor's containers, including their memory",
    ),
    item(
        "kubelet-plugins",
        Remove,
        &["/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins_registry"],
        "sockets and checkpoints of plugins that are not registered on the clone",
    ),
    item(
        "cni-state",
        Remove,
        &["/var/lib/cni/networks", "/var/lib/cni/results"],
        "addresses of the donor's pods would never be released",
    ),
    item(
        "calico-nodename",
        Remove,
        &["/var/lib/calico/nodename"],
        "calico would treat a clone's pods as its donor's; it recreates the file",
    ),
    item("pod-logs", Remove, &["/var/log/pods", "/var/log/containers"], "logs of the donor's pods"),
    item("core-dumps", Remove, &["/var/lib/systemd/coredump", "/var/crash"], "memory of the donor's processes"),
    item(
        "shell-history",
        Remove,
        &["/root/.bash_history", "/home/*/.bash_history"],
        "commands typed on the donor, which may contain secrets",
    ),
    item(
        "container-images",
        Keep,
        &[
            "/var/lib/containerd/io.containerd.content.v1.content",
            "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
            "/var/lib/containerd/io.containerd.metadata.v1.bolt",
        ],
        "images on the disk need not be pulled: half of the time that a clone saves",
    ),
    item(
        "join-credential",
        Keep,
        &["/etc/kubernetes/certs", "/var/lib/kubelet/kubeconfig", "/var/lib/kubelet/bootstrap-kubeconfig"],
        "treated by its kind: what custom data wrote once is not written again",
    ),
    item(
        "packages",
        Keep,
        &["/var/lib/dpkg", "/var/lib/rpm", "/usr/lib/sysimage/rpm"],
        "the donor's patches: the other half",
    ),
];

/// The items with this treatment.
pub fn with(treatment: Treatment) -> impl Iterator<Item = &'static Item> {
    IDENTITY.iter().filter(move |item| item.treatment == treatment)
}

/// The item with this name.
pub fn named(name: &str) -> Option<&'static Item> {
    IDENTITY.iter().find(|item| item.name == name)
}

/// Whether the paths are equal or one contains the other. `*` in either matches any name.
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
    fn names_and_paths_are_unique() {
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
    fn kept_paths_do_not_overlap_other_paths() {
        let kept: Vec<&str> = with(Keep).flat_map(|item| item.paths.iter().copied()).collect();
        for item in IDENTITY.iter().filter(|item| item.treatment != Keep) {
            for path in item.paths {
                let overlapping = kept.iter().find(|kept| overlap(kept, path));
                assert_eq!(overlapping, None, "{}: {path}", item.name);
            }
        }
    }

    #[test]
    fn identifying_items_are_reset() {
        for name in ["machine-id", "host-name", "ssh-host-keys", "dhcp-duid", "kubelet-pki", "netplan", "random-seed"] {
            assert_eq!(named(name).map(|item| item.treatment), Some(Reset), "{name}");
        }
    }

    #[test]
    fn overlap_considers_wildcards_and_folders() {
        assert!(overlap("/var/lib/kubelet/pki", "/var/lib/kubelet/pki/current.pem"));
        assert!(overlap("/home/*/.ssh", "/home/azureuser/.ssh/authorized_keys"));
        assert!(overlap("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_*_key"));
        assert!(!overlap("/etc/ssh/ssh_host_rsa_key.pub", "/etc/ssh/ssh_host_*_key"));
        assert!(!overlap("/var/lib/kubelet/pki", "/var/lib/kubelet/pods"));
    }
}
