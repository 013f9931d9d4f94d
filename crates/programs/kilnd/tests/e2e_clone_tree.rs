//! Two clones of one donor, compared file by file. The donor ran cloud-init and has the state of an Azure node with waagent, agents and pods.
//!
//! Files that are equal on the donor and both clones must be on a list with a reason, files that identify a machine must differ, and no byte of
//! the donor's identity may be anywhere on a clone.

mod booted;
mod tree;

use std::path::Path;
use std::process::Command;

use booted::document::{max_pods, ovf_env};
use booted::stage::Stage;
use booted::{ONE, OTHER, THIRD};
use test_deps::TestDep;
use testkit::nspawn::{Blueprint, Machine};
use tree::{Attributes, Entry, Tree};

const DONOR_NAME: &str = "aks-pool1-vmss00000a";
const DONOR_MAC: &str = "00:0d:3a:77:66:55";
const DONOR_ADDRESS: &str = "10.224.0.177";
/// In every planted file, so that none is forgotten.
const MARK: &str = "d0n0r-5ecr3t";

/// A line in the donor's journal.
const LINE: &str = "a line of the donor";

/// Files that both clones have with the same content as the donor, and why that is right. `*` matches anything.
const SHARED: [(&str, &str); 26] = [
    ("/etc/kiln/generations/*", "documents of the pool, and what was on the disk before kiln; secrets are removed"),
    ("/etc/kiln/current", "link to the generation: all have the same document"),
    ("/var/lib/kiln/state.json", "names the generation: all have the same document"),
    ("/var/lib/kiln/custom-data", "the document of the pool, from the media of each machine"),
    ("/var/lib/cloud/data/*", "written again by cloud-init: its version and the kind of its source"),
    ("/var/lib/cloud/seed/nocloud/user-data", "user data of the pool"),
    ("/var/lib/dbus/machine-id", "link to /etc/machine-id"),
    ("/etc/resolv.conf", "the image's own"),
    ("/usr/*", "programs and units of the image"),
    ("/var/lib/stand-in*", "the fake kubelet of this test"),
    ("/var/lib/containerd/*", "cached images"),
    ("/etc/systemd/system/*", "units of the image, and their enablement"),
    ("/etc/cloud/*", "configuration of cloud-init in the image"),
    ("/var/lib/dpkg/*", "installed packages"),
    ("/etc/netplan/*", "network configuration by interface name"),
    ("/etc/systemd/network/*", "network configuration by interface name"),
    ("/etc/hosts", "without the donor's name"),
    ("/etc/cni/net.d/10-azure.conflist", "written by the pool's script, without values of one node"),
    ("/var/log*", "empty logs and their folders"),
    ("/var/lib/waagent*", "programs of extensions"),
    ("/var/lib/systemd/*", "records of timers and of package scripts"),
    ("/var/cache/*", "caches of the image"),
    ("/etc/fstab", "file systems of the image"),
    ("/etc/.*", "locks and update records"),
    ("/etc/*.d*", "configuration of the image"),
    ("/home/*", "home folders of the image"),
];

/// Files that identify a machine: they must exist on every machine, and no two may be equal.
const DISTINCT: [&str; 8] = [
    "/etc/machine-id",
    "/etc/hostname",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/nvme/hostid",
    "/var/lib/systemd/random-seed",
    "/var/lib/kiln/vm-id",
];

/// Only `NoCloud`, and the network as on Azure: cloud-init writes the MAC address into its file.
const CLOUD_INIT: &str = "datasource_list: [NoCloud]
cloud_init_modules: [write-files, set_hostname, update_etc_hosts, ssh]
cloud_config_modules: []
cloud_final_modules: [scripts-user]
manage_etc_hosts: true
ssh_genkeytypes: [ed25519]
";

fn blueprint(name: &str) -> Blueprint {
    Stage::with_fakes(name)
        .above(TestDep::CloudRoot)
        .argument("--capability=CAP_NET_ADMIN")
        .file("/etc/cloud/cloud.cfg.d/90-test.cfg", CLOUD_INIT)
}

/// Starts a machine with a network interface and a seed for cloud-init.
fn start(machine: &mut Machine, id: &str, host: &str, mac: &str) {
    for words in [
        &["link", "add", "eth0", "address", mac, "type", "veth", "peer", "name", "peer0"][..],
        &["link", "set", "eth0", "up"],
    ] {
        let status = machine.network().command("ip").args(words).status().expect("ip");
        assert!(status.success(), "ip {words:?}");
    }
    machine.hardware("dmi/product_uuid", id);
    machine.hardware("cd/ovf-env.xml", ovf_env(host, Some(&max_pods(1, 30))));
    let network = format!(
        "version: 2\nethernets:\n  eth0:\n    dhcp4: true\n    match: {{macaddress: \"{mac}\"}}\n    set-name: eth0\n"
    );
    let meta = format!("instance-id: {id}\nlocal-hostname: {host}\n");
    for (name, text) in [("meta-data", meta.as_str()), ("user-data", "#cloud-config\n"), ("network-config", &network)] {
        machine.write(&format!("/var/lib/cloud/seed/nocloud/{name}"), text.as_bytes(), 0o600);
    }
    machine.boot();
    machine.wait_until("generation 1 is committed and cloud-init has finished", |machine| {
        let recorded = machine.read("/var/lib/kiln/vm-id").unwrap_or_default();
        let is_configured = machine.exists("/var/lib/cloud/data/result.json");
        (recorded.trim().eq_ignore_ascii_case(id) && is_configured && Stage::committed(machine) == Some(1))
            .then_some(())
    });
}

/// The state of a node that ran on Azure for a while: path and content, where each content has the mark.
fn planted() -> Vec<(String, String)> {
    let handler = "/var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-2.1.10";
    let mut all = vec![
        (
            "/etc/netplan/50-cloud-init.yaml".to_owned(),
            format!("network:\n  ethernets:\n    eth0:\n      match:\n        macaddress: {DONOR_MAC}\n"),
        ),
        ("/etc/cni/net.d/10-calico.conflist".to_owned(), format!("{{\"nodename\": \"{DONOR_NAME}\"}}")),
        ("/etc/iscsi/initiatorname.iscsi".to_owned(), format!("InitiatorName=iqn.1993-08.org.debian:01:{MARK}\n")),
        ("/var/lib/dhcp/dhclient.eth0.leases".to_owned(), format!("fixed-address {DONOR_ADDRESS};\n")),
        ("/var/log/azure/cluster-provision.log".to_owned(), format!("{DONOR_NAME} {DONOR_ADDRESS}\n")),
    ];
    let marked = [
        "/etc/nvme/hostid",
        "/etc/mailname",
        "/etc/udev/rules.d/70-persistent-net.rules",
        "/root/.bash_history",
        "/root/.ssh/authorized_keys",
        "/etc/cni/net.d/05-cilium.conflist",
        "/etc/cni/net.d/calico-kubeconfig",
        "/var/crash/core",
        "/var/lib/calico/nodename",
        "/var/lib/cni/networks/kubenet/10.244.0.7",
        "/var/lib/cni/results/x",
        "/var/lib/kubelet/actuated_pods_state",
        "/var/lib/kubelet/allocated_pods_state",
        "/var/lib/kubelet/checkpoints/c",
        "/var/lib/kubelet/cpu_manager_state",
        "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
        "/var/lib/kubelet/memory_manager_state",
        "/var/lib/kubelet/pki/kubelet-client-current.pem",
        "/var/lib/kubelet/plugins/kubernetes.io/csi/disk.csi.azure.com/x/vol_data.json",
        "/var/lib/kubelet/plugins_registry/disk.csi.azure.com-reg.json",
        "/var/lib/kubelet/pods/1/volumes/data",
        "/var/lib/waagent/ABCDEF0123.crt",
        "/var/lib/waagent/ABCDEF0123.prv",
        "/var/lib/waagent/Certificates.p7m",
        "/var/lib/waagent/Certificates.pem",
        "/var/lib/waagent/CustomData",
        "/var/lib/waagent/GoalState.1.xml",
        "/var/lib/waagent/Incarnation",
        "/var/lib/waagent/Prod.1.agentsManifest",
        "/var/lib/waagent/TransportPrivate.pem",
        "/var/lib/waagent/events/1.tld",
        "/var/lib/waagent/history/x/GoalState.xml",
        "/var/lib/waagent/ovf-env.xml",
        "/var/lib/waagent/provisioned",
        "/var/lib/waagent/published_hostname",
        "/var/lib/waagent/waagent_status.json",
        "/var/log/auth.log",
        "/var/log/btmp",
        "/var/log/containers/pod.log",
        "/var/log/kern.log.1",
        "/var/log/lastlog",
        "/var/log/pods/p/0.log",
        "/var/log/syslog",
        "/var/log/syslog.2.gz",
        "/var/log/waagent.log",
        "/var/log/wtmp",
    ];
    all.extend(marked.map(|path| (path.to_owned(), format!("{MARK} {DONOR_NAME} {DONOR_MAC}\n"))));
    for file in [
        "mrseq",
        "config/0.settings",
        "config/HandlerState",
        "config/HandlerStatus",
        "status/0.status",
        "HandlerEnvironment.json",
    ] {
        all.push((format!("{handler}/{file}"), format!("{MARK}\n")));
    }
    all
}

fn plant(donor: &Machine) {
    for (path, content) in planted() {
        donor.write(&path, content.as_bytes(), 0o640);
    }
    donor.shell(
        "chown root:adm /var/log/auth.log && chmod 640 /var/log/auth.log
         chgrp utmp /var/log/wtmp && chmod 664 /var/log/wtmp
         mkdir -p /var/log/agent && chown daemon:adm /var/log/agent && chmod 2750 /var/log/agent
         echo '{\"type\": \"azure-vnet\"}' >/etc/cni/net.d/10-azure.conflist
         echo program >/var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-2.1.10/bin
         rm -f /etc/ssh/ssh_host_rsa_key* && ssh-keygen -q -t rsa -b 1024 -N '' -f /etc/ssh/ssh_host_rsa_key
         head -c 512 /dev/urandom >/var/lib/systemd/random-seed
         logger -t donor 'a line of the donor'; journalctl --sync; sync",
    );
}

/// Values that identify the donor.
fn identity(donor: &Machine) -> Vec<(&'static str, String)> {
    let read = |path: &str| donor.read(path).unwrap_or_else(|| panic!("no {path}"));
    // Its first line is the head, its second one is equal in all keys.
    let key = |path: &str| read(path).lines().nth(2).unwrap_or_default().to_owned();
    vec![
        ("mark", MARK.to_owned()),
        ("host name", DONOR_NAME.to_owned()),
        ("MAC address", DONOR_MAC.to_owned()),
        ("address", DONOR_ADDRESS.to_owned()),
        ("machine id", read("/etc/machine-id").trim().to_owned()),
        ("VM id", ONE.to_owned()),
        ("SSH key", key("/etc/ssh/ssh_host_ed25519_key")),
        ("old SSH key", key("/etc/ssh/ssh_host_rsa_key")),
    ]
}

#[test]
fn two_clones_share_nothing_that_identifies_a_machine() {
    let mut donor = blueprint("tree-donor").build();
    start(&mut donor, ONE, DONOR_NAME, DONOR_MAC);
    plant(&donor);
    let identity = identity(&donor);
    assert!(identity.iter().all(|(_, value)| value.len() >= 8), "{identity:?}");
    let hosts = donor.read("/etc/hosts").unwrap_or_default();
    assert!(hosts.contains(DONOR_NAME), "cloud-init wrote the donor's name: {hosts}");
    let network = donor.shell("cat /etc/systemd/network/10-cloud-init-*").stdout;
    assert!(network.contains(DONOR_MAC), "cloud-init wrote the donor's MAC address: {network}");
    donor.power_off();
    let before = Tree::read(&donor.disk());

    let mut clones = Vec::new();
    for (name, id, host, mac) in
        [("tree-a", OTHER, "node-a", "00:0d:3a:00:00:0a"), ("tree-b", THIRD, "node-b", "00:0d:3a:00:00:0b")]
    {
        let mut clone = blueprint(name).disk_of(&donor).build();
        start(&mut clone, id, host, mac);
        clone.power_off();
        clones.push(clone);
    }
    let [a, b] = [Tree::read(&clones[0].disk()), Tree::read(&clones[1].disk())];

    assert!(a.content("/var/lib/dbus/machine-id").is_none(), "a copy instead of a link");
    for path in DISTINCT {
        let all = [before.content(path), a.content(path), b.content(path)];
        assert!(all.iter().all(Option::is_some), "{path} is missing on one of them: {all:?}");
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{path} is shared");
    }
    let shared = a.0.iter().filter(|(path, entry)| {
        b.0.get(*path) == Some(entry)
            && before.0.get(*path) == Some(entry)
            && matches!(entry, Entry::File { .. } | Entry::Link { .. })
    });
    let unlisted: Vec<&String> = shared
        .map(|(path, _)| path)
        .filter(|path| !SHARED.iter().any(|(pattern, _)| tree::fits(pattern, path)))
        .collect();
    assert!(unlisted.is_empty(), "shared with the donor without a reason: {unlisted:#?}");

    let machine_id = identity[4].1.as_str();
    for clone in &clones {
        let root = clone.path("/");
        let values: Vec<&str> = identity.iter().map(|(_, value)| value.as_str()).collect();
        let mut found = files_containing(&root, &values);
        // It records the VM ids of the machines that had this disk, and nothing else.
        found.retain(|path| !path.ends_with("/var/lib/kiln/ancestry.log"));
        // journald starts before the reset: the first lines of the clone's own journal have the name and the machine id of that moment.
        let (journal, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| path.contains("/var/log/journal/"));
        let found = rest;
        let deeper: Vec<&str> =
            values.iter().copied().filter(|value| ![DONOR_NAME, machine_id].contains(value)).chain([LINE]).collect();
        for path in journal {
            assert!(files_containing(Path::new(&path), &deeper).is_empty(), "{path}");
        }
        let explain = |path: &str| {
            let values = identity.iter().filter(|(_, value)| !files_containing(Path::new(path), &[value]).is_empty());
            format!("{path}: {:?}", values.map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert!(
            found.is_empty(),
            "the donor's identity: {:#?}",
            found.iter().map(|path| explain(path)).collect::<Vec<_>>()
        );
        let others: Vec<&str> = values.iter().copied().filter(|value| *value != ONE).collect();
        assert!(files_containing(&root.join("var/lib/kiln/ancestry.log"), &others).is_empty());
        let names = names_containing(&root, &others);
        assert!(names.is_empty(), "names with the donor's identity: {names:#?}");
    }
    check_logs(&before, &a);
}

/// Folders of logs, and logs that programs may be unable to create, keep owner and mode.
fn check_logs(before: &Tree, clone: &Tree) {
    for path in ["/var/log/agent", "/var/log/azure"] {
        assert_eq!(before.0.get(path), clone.0.get(path), "{path}");
    }
    for path in ["/var/log/wtmp", "/var/log/auth.log"] {
        let [old, new] = [before, clone].map(|tree| tree.attributes(path));
        assert_eq!(old, new, "{path}");
        assert!(old.is_some(), "{path}");
    }
    for path in ["/var/log/kern.log.1", "/var/log/syslog.2.gz", "/var/log/pods/p/0.log"] {
        assert!(!matches!(clone.0.get(path), Some(Entry::File { .. })), "{path}");
    }
}

impl Tree {
    /// The hash of a file.
    fn content(&self, path: &str) -> Option<&str> {
        match self.0.get(path)? {
            Entry::File { sha256, .. } => Some(sha256),
            _ => None,
        }
    }

    /// The attributes of a file.
    fn attributes(&self, path: &str) -> Option<&Attributes> {
        match self.0.get(path)? {
            Entry::File { attributes, .. } => Some(attributes),
            _ => None,
        }
    }
}

/// The files below a folder that contain one of the texts, in upper or lower case.
fn files_containing(folder: &Path, texts: &[&str]) -> Vec<String> {
    let mut grep = Command::new("grep");
    grep.args(["--recursive", "--files-with-matches", "--text", "--ignore-case", "--fixed-strings", "--devices=skip"]);
    grep.args(texts.iter().flat_map(|text| ["--regexp", text]));
    let output = grep.arg(folder).env("LC_ALL", "C").output().expect("grep");
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The paths below a folder whose names contain one of the texts.
fn names_containing(folder: &Path, texts: &[&str]) -> Vec<String> {
    let mut find = Command::new("find");
    find.arg(folder).args(["-false"]);
    find.args(texts.iter().flat_map(|text| ["-o".to_owned(), "-name".to_owned(), format!("*{text}*")]));
    let output = find.output().expect("find");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
