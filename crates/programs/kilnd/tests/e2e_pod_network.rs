//! The pod network of `network.plugin: bridge`: two real kubelets and containerds with the reference CNI plugins, on machines that share a
//! link, in a cluster whose controller manager gives each Node its pod range. Real packets between real pods are counted.

mod booted;
#[path = "../../kiln/tests/e2e_local/image.rs"]
mod image;
mod pod_network;

use booted::ONE;
use booted::cluster::Cluster;
use control_plane::Options;
use pod_network::{BASELINE, Node, Pod, boot, connect, node, set_sysctl, sysctl};

/// For the module with the container images.
mod root {
    pub(crate) fn read(path: &std::path::Path) -> Vec<u8> {
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// The addresses of the machines, as a virtual network would give them.
const ADDRESSES: [&str; 2] = ["10.9.0.4", "10.9.0.5"];

const TWO: &str = "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90";

/// Every datagram arrives once, and so does every answer.
const CLEAN: &str = "answered 50 of 50, duplicates there 0, back 0";

#[test]
fn pods_reach_each_other_on_one_node_and_across_nodes_without_duplicates() {
    let mut nodes = ["node-1", "node-2"].map(node);
    connect(&nodes[0], &nodes[1], ADDRESSES);
    let cluster = Cluster::start_with(&nodes[0], &Options::default().with_pod_ranges("10.244.0.0/16"));
    nodes[0].network().relay(
        (ADDRESSES[0].parse::<std::net::IpAddr>().expect("an address"), cluster.address().port()).into(),
        cluster.address(),
    );
    boot(&mut nodes[0], &cluster, "node-1", ADDRESSES[0], ONE);
    boot(&mut nodes[1], &cluster, "node-2", ADDRESSES[1], TWO);
    let first = Node::join(&nodes[0], &cluster, "node-1", ADDRESSES[0]);
    let second = Node::join(&nodes[1], &cluster, "node-2", ADDRESSES[1]);
    assert_ne!(first.range, second.range, "each Node has its own range");
    // No pod has run yet: the bridge plugin sets `ip_forward` as well.
    for (node, name) in [&first, &second].into_iter().flat_map(|node| BASELINE.map(|name| (node, name))) {
        assert_eq!(sysctl(node.machine, name), "1", "{name} of {}", node.name);
    }
    first.route_to(&second);
    second.route_to(&first);

    let [one, two, far] =
        [(&first, "one"), (&first, "two"), (&second, "far")].map(|(node, name)| Pod::start(node, &cluster, name));
    for pod in [&one, &two, &far] {
        assert!(pod.node.has_address(&pod.address), "{} is not in {}", pod.address, pod.node.range);
        pod.serve();
    }
    for (from, to) in [(&one, &two), (&two, &one), (&one, &far), (&far, &two)] {
        assert_eq!(from.ask(&to.address), CLEAN, "{} to {}", from.name, to.name);
    }

    // Pods on the host network are exempt from the blocks, and listed.
    assert_eq!(first.start_pod(&cluster, "on-host", true), ADDRESSES[0]);
    let status = first.machine.shell("kilnd status").stdout;
    let blocks: Vec<&str> = status.lines().filter(|line| line.contains("blocked")).collect();
    assert_eq!(
        blocks,
        ["blocked for pods: metadata service, wire server", "not blocked: default/on-host (host network)"]
    );

    // As kube-proxy does it: the address of a Service becomes that of a pod on the same node, or of the asking pod itself.
    first.add_service("10.96.7.7", &two);
    first.add_service("10.96.7.8", &one);
    assert_eq!(one.ask("10.96.7.7"), CLEAN, "a Service whose pod is on the same node");
    assert_eq!(one.ask("10.96.7.8"), CLEAN, "a Service whose pod is the asking one");

    // The counter sees duplicates: in promiscuous mode the node forwards packets to Services a second time.
    first.machine.shell("ip link set cbr0 promisc on");
    assert_eq!(one.ask("10.96.7.7"), "answered 50 of 50, duplicates there 1, back 50");
    first.machine.shell("ip link set cbr0 promisc off");

    // Without the kernel baseline the answer of the Service bypasses the node and is lost.
    set_sysctl(first.machine, "net.bridge.bridge-nf-call-iptables", "0");
    assert_eq!(one.ask("10.96.7.7"), "answered 0 of 50, duplicates there 0, back 0");
}
