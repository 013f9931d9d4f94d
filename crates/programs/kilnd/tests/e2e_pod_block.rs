//! Blocking pods from services of the cloud, with real packets through three private network namespaces: a pod, its node, and a cloud that
//! has the addresses of the services.

mod routed;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use kiln_node_plan::CloudService;
use kilnd::apply::pod_block::{is_blocked, set_blocked};
use kilnd::os::Root;
use routed::{Routed, address};

/// Services of the cloud: where they listen, and whether pods are blocked from them.
const METADATA: [&str; 2] = ["169.254.169.254:80", "[64:ff9b::a9fe:a9fe]:80"];
const WIRE_SERVER: [&str; 4] =
    ["168.63.129.16:80", "168.63.129.16:32526", "[64:ff9b::a83f:8110]:80", "[64:ff9b::a83f:8110]:32526"];
const OPEN: [&str; 4] = ["168.63.129.16:53", "[64:ff9b::a83f:8110]:53", "168.63.129.16:40000", "10.9.0.1:80"];

fn set(net: &Routed, service: CloudService, block: bool) {
    net.node.inside(|| {
        let root = Root::open("/").expect("a root");
        set_blocked(&root, service, block).expect("rules");
        assert_eq!(is_blocked(&root, service).expect("rules"), block, "{service}");
    });
}

fn addresses(groups: &[&[&str]]) -> BTreeSet<SocketAddr> {
    groups.iter().flat_map(|group| group.iter()).map(|text| address(text)).collect()
}

#[test]
fn pods_reach_dns_but_not_the_services_of_the_cloud() {
    let net = Routed::new();
    let all = addresses(&[&METADATA, &WIRE_SERVER, &OPEN]);
    for address in &all {
        net.cloud.serve(*address);
    }
    net.cloud.answer_dns(address("168.63.129.16:53"));
    let reached = |from: &routed::Host| -> BTreeSet<SocketAddr> {
        all.iter().copied().filter(|address| from.connects(*address)).collect()
    };
    assert_eq!(reached(&net.pod), all, "before");

    set(&net, CloudService::WireServer, true);
    assert_eq!(reached(&net.pod), addresses(&[&METADATA, &OPEN]));
    set(&net, CloudService::MetadataService, true);
    assert_eq!(reached(&net.pod), addresses(&[&OPEN]));
    // The node itself, and so every pod on the host network.
    assert_eq!(reached(&net.node), all);
    assert!(net.pod.asks_dns(address("168.63.129.16:53")), "DNS over UDP");

    set(&net, CloudService::MetadataService, false);
    assert_eq!(reached(&net.pod), addresses(&[&METADATA, &OPEN]));
    set(&net, CloudService::WireServer, false);
    assert_eq!(reached(&net.pod), all, "after");
}

#[test]
fn fragments_do_not_pass() {
    let net = Routed::new();
    for (service, to) in
        [(CloudService::WireServer, "168.63.129.16:80"), (CloudService::MetadataService, "169.254.169.254:80")]
    {
        let to = address(to);
        assert_eq!(net.fragmented_syns(to), 1, "before: {to}");
        set(&net, service, true);
        assert_eq!(net.fragmented_syns(to), 0, "blocked: {to}");
        // Fragments of UDP are not affected, nor is any other address.
        assert_eq!(net.fragmented_syns(address("10.9.0.1:80")), 1, "another address");
        set(&net, service, false);
    }
}

#[test]
fn load_balancer_probes_from_the_wire_server_reach_pods() {
    let net = Routed::new();
    let pod = address("10.8.0.2:8080");
    net.pod.serve(pod);
    for service in CloudService::ALL {
        set(&net, service, true);
    }
    // The cloud's route to the pods has the wire server's address as its source.
    assert_eq!(net.cloud.source_to(pod), IpAddr::from([168, 63, 129, 16]));
    assert!(net.cloud.connects(pod));
}

#[test]
fn link_local_ipv6_addresses_of_the_cloud_are_not_forwarded() {
    let net = Routed::new();
    let router = address("[fe80::1234:5678:9abc]:80");
    net.cloud.serve_on(router, "eth0");
    assert!(net.node.connects_on(router, "cloud"), "the node is on the same link");
    // Even if the pod addresses the packet to its node.
    net.send_link_local_to_the_node("fe80::1234:5678:9abc");
    assert!(!net.pod.connects_on(router, "eth0"));
}
