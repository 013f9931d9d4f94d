//! A machine asks for an address by itself, to ask the metadata service for its document: in a real network, with systemd's own DHCP
//! server on the other end of the link.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::Finished;
use testkit::nspawn::{Blueprint, Machine, Request, Response, Server};

/// The address of the metadata service; in the machine's own network alone.
const METADATA: &str = "169.254.169.254:80";
const USER_DATA: &str = "/metadata/instance/compute/userData";
const INSTANCE: &str = "/metadata/instance";

fn document(platform: &Value) -> String {
    json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"generation": 1},
        "spec": {
            "cluster": {
                "endpoint": "https://prod.example:443",
                "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
            "kubelet": {"version": "1.34.4"},
            "platform": platform,
        },
    })
    .to_string()
}

/// What somebody gives on a link.
#[derive(Clone, Copy, PartialEq)]
enum Gives {
    Nothing,
    /// An address and a way to everywhere.
    All,
    /// An address alone.
    NoWay,
}
use Gives::{All, NoWay, Nothing};

fn answer(request: &Request) -> Response {
    match path(request) {
        USER_DATA => Response::text(STANDARD.encode(document(&json!({"hostName": "early"})))),
        INSTANCE => Response::json(r#"{"compute":{"osProfile":{"computerName":"early"}}}"#),
        _ => Response::status(404),
    }
}

fn path(request: &Request) -> &str {
    request.target.split('?').next().unwrap_or_default()
}

/// A machine that plays the host: its services, a server of addresses, and behind links of it a network with a node in it.
struct Host {
    machine: Machine,
    metadata: Option<Server>,
}

impl Host {
    /// `links`: their names, and what somebody gives there.
    fn new(links: &[(&str, Gives)]) -> Self {
        let mut blueprint = Blueprint::new("early")
            .shared(Path::new(env!("CARGO_BIN_EXE_kilnd")), "/usr/bin/kilnd")
            .argument("--capability=CAP_NET_ADMIN");
        let mut script = String::from("ip netns add node\nmkdir -p /node/etc /run/udev/data\n");
        for (number, (name, gives)) in links.iter().enumerate() {
            let address = format!("10.9.{number}.1");
            let serves = match gives {
                Nothing => "",
                All => "DHCPServer=yes\n[DHCPServer]\nEmitDNS=no\n",
                NoWay => "DHCPServer=yes\n[DHCPServer]\nEmitDNS=no\nEmitRouter=no\n",
            };
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
        let metadata = Server::start(listener, answer);
        machine.shell(&script);
        for (name, _) in links {
            let line = format!("ip -4 -o address show h{name}");
            machine.wait_until("the host has its address", |machine| {
                machine.shell(&line).stdout.contains("10.9.").then_some(())
            });
        }
        Self { machine, metadata: Some(metadata) }
    }

    /// The service, which ends so many connections before it answers.
    fn serve(&mut self, broken: usize) {
        let listener = self.machine.network().listen(METADATA.parse().expect("an address"));
        if broken == 0 {
            self.metadata = Some(Server::start(listener, answer));
            return;
        }
        std::thread::spawn(move || {
            for _ in 0..broken {
                drop(listener.accept());
            }
            // Until the machine is gone.
            std::mem::forget(Server::start(listener, answer));
        });
    }

    fn boot(&self, more: &str) -> Finished {
        self.machine.run(&["sh", "-c", &format!("ip netns exec node {}", line(more))])
    }

    /// Boots aside; what it says is in `/said`, and `/code` is there when it is over.
    fn begin(&self, more: &str) {
        let line = line(more);
        self.machine.shell(&format!(
            "rm -rf /said /code /node; mkdir -p /node/etc\n\
             (ip netns exec node {line} 2>/said & echo $! >/pid; code=0; wait $! || code=$?; echo $code >/code) >/dev/null 2>&1 &"
        ));
    }

    /// Waits until it says so.
    fn says(&self, what: &str) -> String {
        self.machine.wait_until(what, |machine| machine.read("/said").filter(|said| said.contains(what)))
    }

    /// Waits for its end.
    fn ends(&self) -> (String, String) {
        let code = self.machine.wait_until("the end", |machine| machine.read("/code").filter(|code| !code.is_empty()));
        (code.trim().to_owned(), self.machine.read("/said").unwrap_or_default())
    }

    /// Boots aside until it has an address of its own, and waits for a service that does not answer yet. Says the address.
    fn hold(&self) -> String {
        self.metadata.as_ref().expect("it runs").set(|_| Response::status(503));
        self.begin("--time-scale 5");
        let said = self.says("for now");
        let (before, _) = said.split_once(" for now").expect("said");
        before.rsplit(' ').next().expect("an address").to_owned()
    }

    /// Lets the one that waits find its document.
    fn release(&self) {
        self.metadata.as_ref().expect("it runs").set(answer);
        let (code, said) = self.ends();
        assert_eq!(code, "0", "{said}");
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
    let host = Host::new(&[("eth0", All)]);
    let done = host.boot("");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        host.machine.exists("/node/run/kiln/ready")
            && host.metadata.as_ref().is_some_and(|metadata| metadata.seen().len() >= 2)
    );
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
    let host = Host::new(&[("eth0", Nothing), ("eth1", All)]);
    let done = host.boot("--time-scale 20");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("reach the metadata service over eth0: failed"), "{}", done.stderr);
    assert!(done.stderr.contains("no DHCP server answered"), "{}", done.stderr);
    assert!(done.stderr.contains("eth1: 10.9.1."), "{}", done.stderr);
    assert_eq!(host.left(), "");
}

#[test]
fn where_nobody_helps_the_network_is_waited_for_and_what_others_put_on_stays() {
    let host = Host::new(&[("eth0", NoWay), ("eth1", Nothing)]);
    // Whoever sets up the network for good, later.
    let set_up = "ip netns exec node sh -c 'ip address add 10.9.0.7/24 dev eth0; ip route add default via 10.9.0.1'";
    host.begin("");
    let said = host.says("over eth1: failed");
    assert!(said.contains("and no way to 169.254.169.254") && said.contains("no DHCP server answered"), "{said}");
    assert_eq!(host.left(), "", "an address without a way is not put on");
    host.machine.shell(set_up);
    let (code, said) = host.ends();
    assert_eq!(code, "0", "{said}");
    let left = host.left();
    assert!(left.contains("10.9.0.7/24") && left.contains("default via 10.9.0.1") && !left.contains("/32"), "{left}");

    // While servers are asked: the link that nobody serves is asked first now.
    host.machine.shell("ip -n node address flush dev eth0; rm -r /links/eth0");
    host.begin("");
    host.machine.wait_until("eth1 is up", |machine| {
        machine.shell("ip -n node link show eth1").stdout.contains(",UP").then_some(())
    });
    host.machine.shell(&set_up.replace("10.9.0.", "10.9.1.").replace("eth0", "eth1"));
    let (code, said) = host.ends();
    assert_eq!(code, "0", "{said}");
    assert!(said.contains("over eth1") && !said.contains("no DHCP server answered"), "{said}");
}

#[test]
fn a_machine_that_somebody_sets_up_and_one_that_is_told_so_are_left_alone() {
    let host = Host::new(&[("eth0", All), ("eth1", All)]);
    // The second link is set up, and does not lead to the service yet: the first one is not ours either.
    host.machine.shell("ip netns exec node sh -c 'ip link set eth1 up; ip address add 10.9.1.8/24 dev eth1'");
    let before = host.left();
    host.begin("");
    host.machine.shell("sleep 0.5; ip -n node route add default via 10.9.1.1");
    let (code, said) = host.ends();
    assert_eq!(code, "0", "{said}");
    assert!(!said.contains("over eth"), "{said}");
    assert!(host.left().starts_with(before.lines().next().expect("an address")), "{}", host.left());

    host.machine.shell("ip netns exec node ip address flush dev eth1; rm -r /node; mkdir -p /node/etc");
    // A tenth of a second instead of five minutes.
    let done = host.boot("--links none --time-scale 3000");
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(!done.stderr.contains("over eth") && done.stderr.contains("no document was found"), "{}", done.stderr);
}

#[test]
fn a_connection_that_breaks_costs_nothing_and_a_link_that_does_not_lead_there_is_tried_again() {
    let mut host = Host::new(&[("eth0", All)]);
    // Nobody listens: every connection is refused.
    drop(host.metadata.take());
    host.begin("--time-scale 20");
    let said = host.says("does not lead to 169.254.169.254");
    assert_eq!(said.matches("for now").count(), 1, "{said}");
    host.serve(0);
    let (code, said) = host.ends();
    assert_eq!((code.as_str(), said.matches("for now").count() > 1), ("0", true), "{said}");
    assert_eq!(host.left(), "");

    drop(host.metadata.take());
    host.serve(1);
    host.begin("--time-scale 20");
    let (code, said) = host.ends();
    assert_eq!((code.as_str(), said.matches("for now").count()), ("0", 1), "one address is enough: {said}");
    assert_eq!(host.left(), "");
}

#[test]
fn what_is_put_on_ends_by_itself_is_taken_over_and_leaves_what_is_another_s() {
    let host = Host::new(&[("eth0", All)]);
    let address = host.hold();
    host.machine.shell("kill -9 $(cat /pid)");
    host.ends();
    let left = host.left();
    assert!(left.contains(&format!("{address}/32")) && left.contains("169.254.169.254 via 10.9.0.1"), "{left}");
    let (_, valid) = left.split_once("valid_lft ").expect("a time");
    let seconds: u32 = valid.split("sec").next().and_then(|seconds| seconds.parse().ok()).expect("not forever");
    assert!((60..=120).contains(&seconds), "{left}");

    // As long as it is there it leads to the service.
    host.begin("");
    host.release();
    // Without its way it is in the way.
    host.machine.shell("ip -n node route del 169.254.169.254");
    // As networkd does it where the server gives a network.
    let address = host.hold();
    assert!(host.says("for now").contains("was left over"));
    host.machine.shell(&format!("ip -n node address add {address}/24 dev eth0"));
    host.release();
    let left = host.left();
    assert!(left.contains(&format!("{address}/24")) && !left.contains("/32") && !left.contains("169.254."), "{left}");

    // And where it gives none: the same address, which stays longer.
    host.machine.shell("ip -n node address flush dev eth0");
    let address = host.hold();
    host.machine.shell(&format!("ip -n node address change {address}/32 dev eth0 valid_lft 3600 preferred_lft 3600"));
    host.release();
    let left = host.left();
    assert!(left.contains(&format!("{address}/32")) && !left.contains("169.254."), "{left}");

    // One that is over is asked for again.
    host.machine.shell("ip -n node address flush dev eth0");
    let address = host.hold();
    host.machine.shell(&format!("ip -n node address del {address}/32 dev eth0"));
    host.machine.wait_until("another address", |machine| {
        machine.read("/said").filter(|said| said.matches("for now").count() == 2)
    });
    host.release();
    assert_eq!(host.left(), "");
}

#[test]
fn an_address_that_ends_between_the_document_and_the_name_is_asked_for_again() {
    let host = Host::new(&[("eth0", All)]);
    let metadata = host.metadata.as_ref().expect("it runs");
    metadata.set(|request| match path(request) {
        USER_DATA => Response::text(STANDARD.encode(document(&json!({})))),
        _ => Response::status(503),
    });
    // In its own time: it must not have given up before the address is gone.
    host.begin("");
    host.machine.wait_until("it asks for its name", |_| {
        metadata.seen().iter().any(|request| path(request) == INSTANCE).then_some(())
    });
    host.machine.shell("ip -n node -4 address flush dev eth0");
    host.machine.wait_until("another address", |machine| {
        machine.read("/said").filter(|said| said.matches("for now").count() == 2)
    });
    host.release();
    assert_eq!(host.machine.read("/node/etc/hostname").as_deref(), Some("early\n"));
    assert_eq!(host.left(), "");
}
