//! A machine asks for an address by itself, to ask the metadata service for its document: in a real network, with systemd's own DHCP
//! server on the other end of the link.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::Finished;
use testkit::nspawn::{Blueprint, Machine, Response, Server};

/// The address of the metadata service; in the machine's own network alone.
const METADATA: &str = "169.254.169.254:80";

fn document() -> String {
    json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"generation": 1},
        "spec": {
            "cluster": {
                "endpoint": "https://prod.example:443",
                "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
            "kubelet": {"version": "1.34.4"},
            "platform": {"hostName": "early"},
        },
    })
    .to_string()
}

/// A machine that plays the host: its services, a server of addresses, and behind links of it a network with a node in it.
struct Host {
    machine: Machine,
    metadata: Server,
}

impl Host {
    /// `links`: their names, and whether somebody gives addresses there.
    fn new(links: &[(&str, bool)]) -> Self {
        let mut blueprint = Blueprint::new("early")
            .shared(Path::new(env!("CARGO_BIN_EXE_kilnd")), "/usr/bin/kilnd")
            .argument("--capability=CAP_NET_ADMIN");
        let mut script = String::from("ip netns add node\nmkdir -p /node/etc /run/udev/data\n");
        for (number, (name, serves)) in links.iter().enumerate() {
            let address = format!("10.9.{number}.1");
            let serves = if *serves { "DHCPServer=yes\n[DHCPServer]\nEmitDNS=no\n" } else { "" };
            let network = format!(
                "[Match]\nName=h{name}\n[Network]\nAddress={address}/24\nConfigureWithoutCarrier=yes\n{serves}"
            );
            blueprint = blueprint.file(&format!("/etc/systemd/network/10-{name}.network"), network);
            let place = format!("/links/{name}");
            // As the kernel describes a link that a host gave; a link between two networks has no driver to show.
            let _ = write!(
                script,
                "ip link add h{name} type veth peer name {name} netns node\n\
                 mkdir -p {place}/device\nln -s ../../../bus/virtio/drivers/virtio_net {place}/device/driver\n\
                 for file in type ifindex address; do ip netns exec node cat /sys/class/net/{name}/$file >{place}/$file; done\n\
                 echo I:1 >/run/udev/data/n$(cat {place}/ifindex)\n"
            );
        }
        script += "systemctl start systemd-networkd.service\n";
        let machine = blueprint.boot();
        machine.settled();
        let listener = machine.network().listen(METADATA.parse().expect("an address"));
        let metadata = Server::start(listener, |request| match request.target.split('?').next() {
            Some("/metadata/instance/compute/userData") => Response::text(STANDARD.encode(document())),
            Some("/metadata/instance") => Response::json(r#"{"compute":{"osProfile":{"computerName":"early"}}}"#),
            _ => Response::status(404),
        });
        machine.shell(&script);
        for (name, _) in links {
            let line = format!("ip -4 -o address show h{name}");
            machine.wait_until("the host has its address", |machine| {
                machine.shell(&line).stdout.contains("10.9.").then_some(())
            });
        }
        Self { machine, metadata }
    }

    fn boot(&self, more: &str) -> Finished {
        self.machine.run(&["sh", "-c", &format!("ip netns exec node {}", line(more))])
    }

    fn status(&self) -> Value {
        let text = self.machine.read("/node/run/kiln/status.json").expect("a status");
        serde_json::from_str(&text).expect("JSON")
    }

    /// What the node has on its links: addresses and routes of the fourth version.
    fn left(&self) -> String {
        self.machine
            .shell("ip netns exec node sh -c 'ip -4 -o address; ip -4 route show table all type unicast'")
            .stdout
    }
}

fn line(more: &str) -> String {
    format!(
        "/usr/bin/kilnd boot --root /node --links /links --imds http://169.254.169.254 --dmi /nowhere --cd /nowhere {more}"
    )
}

#[test]
fn a_machine_without_a_network_gets_its_document_and_leaves_the_link_as_it_was() {
    let host = Host::new(&[("eth0", true)]);
    let done = host.boot("");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(host.machine.exists("/node/run/kiln/ready") && host.metadata.seen().len() >= 2);
    let steps = host.status()["steps"].as_array().expect("steps").clone();
    let step = steps.iter().find(|step| step["name"] == "reach the metadata service over eth0").expect("in the status");
    assert_eq!(step["ok"], true);
    assert!(
        done.stderr.contains("eth0: 10.9.0.") && done.stderr.contains("169.254.169.254 by 10.9.0.1"),
        "{}",
        done.stderr
    );
    assert_eq!(host.left(), "", "nothing of ours stays");
}

#[test]
fn a_silent_link_is_passed_over_for_one_that_answers() {
    let host = Host::new(&[("eth0", false), ("eth1", true)]);
    let done = host.boot("--time-scale 20");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("reach the metadata service over eth0: failed"), "{}", done.stderr);
    assert!(done.stderr.contains("no DHCP server answered"), "{}", done.stderr);
    assert!(done.stderr.contains("eth1: 10.9.1."), "{}", done.stderr);
    assert_eq!(host.left(), "");
}

#[test]
fn where_nobody_answers_the_network_is_waited_for_and_what_others_put_on_stays() {
    let host = Host::new(&[("eth0", false)]);
    // Whoever sets up the network for good, later.
    let other = "(while ! test -e /tried; do sleep 0.05; done; ip netns exec node sh -c 'ip address add 10.9.0.7/24 dev eth0; \
                 ip route add default via 10.9.0.1') &";
    let done = host.machine.run(&[
        "sh",
        "-c",
        &format!("{other} ip netns exec node {} 2>&1 | while read -r line; do echo \"$line\"; case $line in *failed*) touch /tried;; esac; done; wait", line("")),
    ]);
    assert!(host.machine.exists("/node/run/kiln/ready"), "{}", done.stdout);
    assert!(done.stdout.contains("no DHCP server answered"), "{}", done.stdout);
    assert!(host.left().contains("10.9.0.7/24") && host.left().contains("default via 10.9.0.1"), "{}", host.left());
}

#[test]
fn a_link_that_has_an_address_and_a_machine_that_is_told_so_are_left_alone() {
    let host = Host::new(&[("eth0", true)]);
    host.machine.shell("ip netns exec node sh -c 'ip link set eth0 up; ip address add 10.9.0.8/24 dev eth0'");
    let before = host.left();
    let other = "(sleep 0.3; ip -n node route add default via 10.9.0.1) &";
    let done =
        host.machine.run(&["sh", "-c", &format!("{other} ip netns exec node {}; code=$?; wait; exit $code", line(""))]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(!done.stderr.contains("for now"), "{}", done.stderr);
    assert!(host.left().starts_with(before.lines().next().expect("an address")), "{}", host.left());

    host.machine.shell("ip netns exec node ip address flush dev eth0; rm -r /node; mkdir -p /node/etc");
    // A tenth of a second instead of five minutes.
    let done = host.boot("--links none --time-scale 3000");
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(!done.stderr.contains("over eth0") && done.stderr.contains("no document was found"), "{}", done.stderr);
}
