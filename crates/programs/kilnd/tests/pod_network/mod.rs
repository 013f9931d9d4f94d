//! Machines with a pod network, and the pods on them.

use std::net::Ipv4Addr;
use std::process::Stdio;

use serde_json::{Value, json};
use test_deps::TestDep;
use testkit::nspawn::Machine;
use testkit::{Network, require};

use super::booted::cluster::{Cluster, NETWORK_FILE, real};
use super::booted::stage::Stage;
use super::image::archive;

/// The port on which every pod answers.
const PORT: u16 = 7777;

/// `serve PORT` returns each datagram with the number of times that it arrived. `ask ADDRESS PORT COUNT` sends numbered datagrams and counts
/// the answers.
const ECHO: &str = r#"#!/usr/bin/perl
use strict; use IO::Socket::INET; use IO::Select;
my ($mode, @rest) = @ARGV;
if ($mode eq 'serve') {
    my $socket = IO::Socket::INET->new(LocalPort => $rest[0], Proto => 'udp') or die "$!";
    my %seen;
    while (1) {
        my $from = $socket->recv(my $data, 64);
        next unless defined $from;
        $seen{$data}++;
        $socket->send("$data $seen{$data}", 0, $from);
    }
}
my ($to, $port, $count) = @rest;
my $socket = IO::Socket::INET->new(PeerAddr => $to, PeerPort => $port, Proto => 'udp') or die "$!";
my $select = IO::Select->new($socket);
my $id = "$$-" . int(rand(1e9));
my (%answers, $most);
my $take = sub {
    while ($select->can_read($_[0])) {
        defined $socket->recv(my $data, 64) or last;
        my ($number, $seen) = $data =~ /-(\d+) (\d+)$/ or next;
        $answers{$number}++;
        $most = $seen if $seen > ($most // 0);
    }
};
for my $number (1 .. $count) { $socket->send("$id-$number"); $take->(0.01) }
$take->(1);
my $back = grep { $_ > 1 } values %answers;
printf "answered %d of %d, duplicates there %d, back %d\n", scalar(keys %answers), $count, ($most // 1) - 1, $back;
"#;

/// Makes the settings of the machine's own network writable. systemd-nspawn does so only for networks that it creates.
const WRITABLE: &str = "[Unit]
DefaultDependencies=no
Before=kiln-identity.service kiln-config.service sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'mkdir -p /run/proc; mount -t proc proc /run/proc; mount --bind /run/proc/sys/net /proc/sys/net'
";

/// The settings of kilnd's baseline that the network of a machine has of its own.
pub(crate) const BASELINE: [&str; 3] =
    ["net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];

/// A machine with a real kubelet, containerd and the reference CNI plugins. All settings of [`BASELINE`] are off.
pub(crate) fn node(name: &str) -> Machine {
    let plugins = require(TestDep::CniPlugins);
    let debian = require(TestDep::NodeRoot);
    let debian = debian.ancestors().nth(3).expect("a root");
    // Only the program that waits is needed.
    let images = archive(&debian.join("usr/bin/true"), debian);
    let machine = real(name)
        .shared(plugins.parent().expect("a folder"), "/opt/cni/bin")
        // For runc: it creates a session keyring and device filters.
        .argument("--system-call-filter=@keyring bpf")
        .executable("/usr/sbin/echo-count", ECHO)
        .file("/etc/systemd/system/writable.service", WRITABLE)
        .wanted_by("sysinit.target", "writable.service")
        .file("/usr/share/images.tar", images)
        .file("/etc/hosts", "127.0.0.1 localhost\n10.9.0.4 kubernetes\n")
        .build();
    // containerd renders kilnd's template only where no network is configured.
    std::fs::remove_file(machine.path(NETWORK_FILE)).expect("a file of the machine");
    for name in BASELINE {
        set_sysctl(&machine, name, "0");
    }
    machine
}

/// Connects two machines by a link, on which each has an address.
pub(crate) fn connect(one: &Machine, two: &Machine, addresses: [&str; 2]) {
    // By path: a process that was just started may still be in the network of the host.
    run(one.network(), &format!("ip link add eth0 type veth peer name eth0 netns {}", two.network().path().display()));
    for (machine, address) in [(one, addresses[0]), (two, addresses[1])] {
        run(machine.network(), &format!("ip address add {address}/24 dev eth0"));
        run(machine.network(), "ip link set eth0 up");
    }
}

fn run(network: &Network, line: &str) -> String {
    let mut words = line.split(' ');
    let output = network.command(words.next().expect("a program")).args(words).output().expect("nsenter");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Boots a machine with a document for the plugin `bridge`.
pub(crate) fn boot(machine: &mut Machine, cluster: &Cluster, name: &str, address: &str, vm_id: &str) {
    let document = cluster
        .document(1)
        .with("/spec/platform/hostName", json!(name))
        .with("/spec/kubelet/nodeIp", json!(address))
        .with("/spec/network", json!({"plugin": "bridge", "blockMetadata": true, "blockWireServer": true}))
        .with("/spec/runtime/sandboxImage", json!("docker.io/library/pause:test"));
    machine.hardware("dmi/product_uuid", vm_id);
    machine.hardware("cd/ovf-env.xml", Cluster::ovf_env_for(name, &document));
    machine.boot();
}

/// A node that has joined.
pub(crate) struct Node<'m> {
    pub(crate) machine: &'m Machine,
    pub(crate) name: String,
    address: String,
    /// `spec.podCIDR` of the Node.
    pub(crate) range: String,
}

impl<'m> Node<'m> {
    /// Waits until the Node of a machine is ready, which needs a pod network.
    pub(crate) fn join(machine: &'m Machine, cluster: &Cluster, name: &str, address: &str) -> Self {
        let node = machine.wait_until(&format!("{name} is ready"), |_| cluster.get(&["node", name]).filter(is_ready));
        Stage::wait_committed(machine, 1);
        machine.shell("ctr --namespace k8s.io images import /usr/share/images.tar");
        let range = node["spec"]["podCIDR"].as_str().expect("a range").to_owned();
        Self { machine, name: name.to_owned(), address: address.to_owned(), range }
    }

    /// Creates a pod and waits until it runs. Returns its address.
    pub(crate) fn start_pod(&self, cluster: &Cluster, name: &str, host_network: bool) -> String {
        cluster.apply(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": self.name, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "hostNetwork": host_network,
                "containers": [{"name": "wait", "image": "docker.io/library/pause:test", "imagePullPolicy": "Never"}],
            },
        }));
        self.machine.wait_until(&format!("pod {name} runs"), |_| {
            let pod = cluster.get(&["pod", "--namespace=default", name])?;
            let running = pod["status"]["phase"] == "Running";
            pod["status"]["podIP"].as_str().filter(|_| running).map(str::to_owned)
        })
    }

    /// Adds the route that the virtual network has for another node's pods.
    pub(crate) fn route_to(&self, other: &Self) {
        run(self.machine.network(), &format!("ip route add {} via {}", other.range, other.address));
    }

    /// Whether an address is in the range of the node, which has 256 addresses.
    pub(crate) fn has_address(&self, address: &str) -> bool {
        let (network, length) = self.range.split_once('/').expect("a range");
        let octets = |text: &str| text.parse::<Ipv4Addr>().expect("an address").octets();
        length == "24" && octets(network)[..3] == octets(address)[..3]
    }

    /// Translates the address of a Service to that of a pod, as kube-proxy does.
    pub(crate) fn add_service(&self, address: &str, pod: &Pod<'_>) {
        let rules = format!(
            "add table ip nat
             add chain ip nat pre {{ type nat hook prerouting priority -100; }}
             add chain ip nat post {{ type nat hook postrouting priority 100; }}
             add rule ip nat pre ip daddr {address} udp dport {PORT} dnat to {to}:{PORT}
             add rule ip nat post ip saddr {to} ip daddr {to} masquerade",
            to = pod.address
        );
        let mut nft = self.machine.network().command(require(TestDep::Nft));
        let mut nft = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft");
        std::io::Write::write_all(&mut nft.stdin.take().expect("a pipe"), rules.as_bytes()).expect("written");
        assert!(nft.wait().expect("nft").success(), "{rules}");
    }
}

/// A setting of the machine's network.
pub(crate) fn sysctl(machine: &Machine, name: &str) -> String {
    let path = sysctl_path(name);
    let value = machine.network().inside(|| std::fs::read_to_string(&path));
    value.unwrap_or_else(|error| panic!("{path}: {error}")).trim().to_owned()
}

pub(crate) fn set_sysctl(machine: &Machine, name: &str, value: &str) {
    let path = sysctl_path(name);
    let written = machine.network().inside(|| std::fs::write(&path, value));
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// A running pod with its own network.
pub(crate) struct Pod<'m> {
    pub(crate) node: &'m Node<'m>,
    pub(crate) name: String,
    pub(crate) address: String,
    /// The file that names its network namespace on the node.
    network: String,
}

impl<'m> Pod<'m> {
    /// Creates a pod on a node and waits until it runs.
    pub(crate) fn start(node: &'m Node<'m>, cluster: &Cluster, name: &str) -> Self {
        let address = node.start_pod(cluster, name, false);
        let find = format!(
            "for file in /run/netns/*; do nsenter --net=$file ip -4 -o address show dev eth0 | grep -q ' {address}/' && echo $file; done; true"
        );
        let network = node.machine.shell(&find).stdout.trim().to_owned();
        assert!(!network.is_empty(), "no network namespace has {address}");
        Self { node, name: name.to_owned(), address, network }
    }

    /// Answers datagrams until the machine ends.
    pub(crate) fn serve(&self) {
        let unit = format!("echo-{}", self.name);
        let network = &self.network;
        self.node.machine.shell(&format!(
            "systemd-run --quiet --collect --unit={unit} --property=NetworkNamespacePath={network} /usr/sbin/echo-count serve {PORT}"
        ));
        let option = format!("--net={network}");
        let pattern = format!(":{PORT:04X} ");
        self.node.machine.wait_until(&format!("{unit} listens on port {PORT}"), |machine| {
            let found = machine.run(&["nsenter", &option, "grep", "--quiet", &pattern, "/proc/self/net/udp"]);
            (found.code == Some(0)).then_some(())
        });
    }

    /// Sends 50 datagrams and describes the answers.
    pub(crate) fn ask(&self, address: &str) -> String {
        let line = format!("nsenter --net={} /usr/sbin/echo-count ask {address} {PORT} 50", self.network);
        self.node.machine.shell(&line).stdout.trim().to_owned()
    }
}
