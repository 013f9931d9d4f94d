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
    /// The lines that identify a machine are removed ([`crate::identity_edit`]); the rest of the file stays.
    Edit,
    Remove,
    /// Kept: it is the purpose of a clone.
    Keep,
}

/// One item of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The name in inspections and reports.
    pub name: &'static str,
    /// Files and folders; `*` matches any characters except `/`, and `**` at the end all files below, while their folders stay.
    pub paths: &'static [&'static str],
    pub treatment: Treatment,
    pub why: &'static str,
}

const fn item(name: &'static str, treatment: Treatment, paths: &'static [&'static str], why: &'static str) -> Item {
    Item { name, paths, treatment, why }
}

use Treatment::{Edit, Keep, Remove, Reset};

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
    item("hosts", Edit, &["/etc/hosts"], "the donor's name would resolve to this machine, or to the donor's address"),
    item(
        "mail-name",
        Remove,
        &["/etc/mailname"],
        "the donor's full name; mail programs derive it from the host name without the file",
    ),
    item("host-id", Remove, &["/etc/hostid"], "storage programs tell hosts apart by it; the C library derives one"),
    item(
        "ssh-host-keys",
        Reset,
        &["/etc/ssh/ssh_host_*_key", "/etc/ssh/ssh_host_*_key.pub", "/etc/ssh/ssh_host_*_key-cert.pub"],
        "with the key of one clone an attacker could impersonate all of them",
    ),
    item(
        "dhcp-duid",
        Reset,
        &[
            "/etc/dhcp/dhclient6.duid",
            "/var/lib/dhcp/dhclient6.duid",
            "/var/lib/dhclient/dhclient6.duid",
            "/var/lib/dhcpcd/duid",
            "/var/lib/dhcpcd/secret",
        ],
        "two machines with the same DUID get the same address",
    ),
    item(
        "dhcp-leases",
        Remove,
        &[
            "/var/lib/dhcp/*.lease",
            "/var/lib/dhcp/*.leases",
            "/var/lib/dhclient/*.lease",
            "/var/lib/dhclient/*.leases",
            "/var/lib/dhcpcd/*.lease",
            "/var/lib/dhcpcd/*.lease6",
            "/run/systemd/netif/leases",
            "/var/lib/NetworkManager/*.lease",
        ],
        "a clone would request its donor's address",
    ),
    item(
        "network-manager-state",
        Remove,
        &["/var/lib/NetworkManager/secret_key", "/var/lib/NetworkManager/timestamps"],
        "stable addresses and client ids are derived from the key",
    ),
    item(
        "netplan",
        Edit,
        &["/etc/netplan/*.yaml"],
        "cloud-init writes the donor's MAC address into it: a clone would have no network",
    ),
    item(
        "interface-files",
        Edit,
        &[
            "/etc/systemd/network/10-cloud-init-*.network",
            "/etc/systemd/network/10-cloud-init-*.link",
            "/etc/systemd/network/50-cloud-init-*.link",
            "/etc/NetworkManager/system-connections/cloud-init-*.nmconnection",
            "/etc/sysconfig/network-scripts/ifcfg-*",
        ],
        "like netplan, on Azure Linux and other systems",
    ),
    item(
        "interface-rules",
        Remove,
        &["/etc/udev/rules.d/70-persistent-net.rules", "/etc/udev/rules.d/85-persistent-net-cloud-init.rules"],
        "they name interfaces by the donor's MAC addresses",
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
            "/var/lib/waagent/logcollector",
            "/var/lib/waagent/provisioned",
            "/var/lib/waagent/published_hostname",
            "/var/lib/waagent/CustomData",
            "/var/lib/waagent/Incarnation",
            "/var/lib/waagent/*.xml",
            "/var/lib/waagent/*.json",
            "/var/lib/waagent/*.agentsManifest",
            "/var/lib/waagent/*.manifest",
            "/var/lib/waagent/partition",
            // The certificates by which Azure encrypts the settings of extensions for one machine.
            "/var/lib/waagent/*.crt",
            "/var/lib/waagent/*.prv",
            "/var/lib/waagent/*.pem",
            "/var/lib/waagent/*.p7m",
            "/var/lib/waagent/*.cert",
            // The last settings that an extension processed: it would skip those of a clone, which have the same number.
            "/var/lib/waagent/*/mrseq",
            "/var/lib/waagent/*/config/*.settings",
            "/var/lib/waagent/*/config/HandlerState",
            "/var/lib/waagent/*/config/HandlerStatus",
            "/var/lib/waagent/*/HandlerEnvironment.json",
            "/var/lib/waagent/*/heartbeat.log",
            "/var/lib/waagent/*/status",
            "/var/lib/waagent/*/events",
            "/var/lib/waagent/custom-script",
            "/var/lib/waagent/run-command",
            "/var/lib/waagent/run-command-handler",
        ],
        "the agent would consider a clone provisioned, report as its donor and not run its extensions",
    ),
    item(
        "custom-data",
        Remove,
        &["/var/lib/kiln/custom-data"],
        "the donor's custom data, including its join credential",
    ),
    item(
        "journal",
        Remove,
        &["/var/log/journal", "/var/lib/rsyslog/imjournal.state", "/var/lib/systemd/journal-upload/state"],
        "the donor's logs, stored under its machine id",
    ),
    item(
        "logs",
        Remove,
        &["/var/log/**"],
        "the donor's logs contain its name, addresses and users; a clone's logs start with its own boot",
    ),
    item(
        "random-seed",
        Reset,
        &["/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed"],
        "machines with the same seed could generate the same keys",
    ),
    item(
        "credential-secret",
        Reset,
        &["/var/lib/systemd/credential.secret", "/var/lib/systemd/tpm2-srk-public-key.*"],
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
        &["/var/lib/kubelet/pods", "/var/lib/kubelet/pod-resources"],
        "emptyDirs and tokens of pods; refused if something is mounted below, so that no volume is emptied",
    ),
    item(
        "kubelet-manager-states",
        Remove,
        &[
            "/var/lib/kubelet/cpu_manager_state",
            "/var/lib/kubelet/memory_manager_state",
            "/var/lib/kubelet/dra_manager_state",
            "/var/lib/kubelet/allocated_pods_state",
            "/var/lib/kubelet/actuated_pods_state",
            "/var/lib/kubelet/graceful_node_shutdown_state",
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
        &["/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"],
        "sockets and volume records of plugins and CSI drivers that are not registered on the clone",
    ),
    item(
        "cni-state",
        Remove,
        &[
            "/var/lib/cni/networks",
            "/var/lib/cni/results",
            "/var/lib/cni/cache",
            "/var/lib/cni/flannel",
            "/var/lib/cni/multus",
        ],
        "addresses of the donor's pods would never be released",
    ),
    item(
        "cni-agents",
        Remove,
        &[
            "/etc/cni/net.d/*antrea*",
            "/etc/cni/net.d/*azure-swift*",
            "/etc/cni/net.d/*calico*",
            "/etc/cni/net.d/*canal*",
            "/etc/cni/net.d/*cilium*",
            "/etc/cni/net.d/*flannel*",
            "/etc/cni/net.d/*kindnet*",
            "/etc/cni/net.d/*kube-router*",
            "/etc/cni/net.d/*kuberouter*",
            "/etc/cni/net.d/*multus*",
            "/etc/cni/net.d/*ovn*",
            "/etc/cni/net.d/*weave*",
            "/etc/cni/net.d/whereabouts.d",
        ],
        "agents in pods write them with the node's name, pod range and tokens; until then the node must not be Ready",
    ),
    item(
        "calico-nodename",
        Remove,
        &["/var/lib/calico/nodename"],
        "calico would treat a clone's pods as its donor's; it recreates the file",
    ),
    item("pod-logs", Remove, &["/var/log/pods", "/var/log/containers"], "logs of the donor's pods"),
    item(
        "core-dumps",
        Remove,
        &["/var/lib/systemd/coredump", "/var/lib/systemd/pstore", "/var/crash"],
        "memory of the donor's processes",
    ),
    item(
        "error-report-ids",
        Remove,
        &["/var/lib/whoopsie/whoopsie-id", "/var/lib/apport/uuid"],
        "crash reports of all clones would count as one machine's",
    ),
    item(
        "shell-history",
        Remove,
        &[
            "/root/.bash_history",
            "/root/.python_history",
            "/root/.viminfo",
            "/root/.lesshst",
            "/home/*/.bash_history",
            "/home/*/.python_history",
            "/home/*/.viminfo",
            "/home/*/.lesshst",
        ],
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

/// Whether a log is a rotated one, by its name: `syslog.1`, `syslog.2.gz`, `waagent.log-20261116`, `x.old`. Rotated logs are deleted, and the current ones
/// emptied: a program that may not create files in its folder keeps its log with owner and mode.
pub fn is_rotated_log(name: &str) -> bool {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_date = |text: &str| text.rsplit_once('-').is_some_and(|(_, date)| is_number(date) && date.len() >= 8);
    ["gz", "xz", "zst", "bz2", "old"].contains(&ending) || is_number(ending) || has_date(name) || has_date(stem)
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
        for name in ["machine-id", "host-name", "ssh-host-keys", "dhcp-duid", "kubelet-pki", "random-seed"] {
            assert_eq!(named(name).map(|item| item.treatment), Some(Reset), "{name}");
        }
    }

    #[test]
    fn rotated_logs_are_recognized() {
        for name in
            ["syslog.1", "syslog.2.gz", "waagent.log-20261116", "waagent.log-20261116.gz", "x.old", "a-20261116.log"]
        {
            assert!(is_rotated_log(name), "{name}");
        }
        for name in ["syslog", "waagent.log", "wtmp", "cloud-init-output.log", "kern.log", "node-1.log"] {
            assert!(!is_rotated_log(name), "{name}");
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
