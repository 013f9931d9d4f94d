//! The early network: kilnd gets an address by DHCP to fetch its NodeConfig from the metadata service. The network is real, with
//! systemd-networkd's DHCP server at the other end of the link.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::Finished;
use testkit::nspawn::{Blueprint, Machine, Request, Response, Server};

/// The address of the metadata service, only inside the machine's network namespace.
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

/// The DHCP server on a link.
#[derive(Clone, Copy, PartialEq)]
enum Dhcp {
    NoServer,
    /// Offers an address and a default route.
    Full,
    /// Offers an address without a route.
    NoRoute,
}
use Dhcp::{Full, NoRoute, NoServer};

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

/// A machine in the role of the Azure host: the metadata service, DHCP servers, and a network namespace `node` behind its links.
struct Host {
    machine: Machine,
    metadata: Option<Server>,
}

impl Host {
    /// Starts the host with these links to the node.
    fn new(links: &[(&str, Dhcp)]) -> Self {
        let mut blueprint = Blueprint::new("early")
            .shared(Path::new(env!("CARGO_BIN_EXE_kilnd")), "/usr/bin/kilnd")
            .argument("--capability=CAP_NET_ADMIN");
        let mut script = String::from("ip netns add node\nmkdir -p /node/etc /run/udev/data\n");
        for (number, (name, dhcp)) in links.iter().enumerate() {
            let address = format!("10.9.{number}.1");
            let serves = match dhcp {
                NoServer => "",
                Full => "DHCPServer=yes\n[DHCPServer]\nEmitDNS=no\n",
                NoRoute => "DHCPServer=yes\n[DHCPServer]\nEmitDNS=no\nEmitRouter=no\n",
            };
            let network = format!(
                "[Match]\nName=h{name}\n[Network]\nAddress={address}/24\nConfigureWithoutCarrier=yes\n{serves}"
            );
            blueprint = blueprint.file(&format!("/etc/systemd/network/10-{name}.network"), network);
            let sysfs = format!("/links/{name}");
            // A copy of sysfs as for a virtio link, because a veth link has no driver in sysfs.
            let _ = write!(
                script,
                "ip link add h{name} type veth peer name {name} netns node\n\
                 mkdir -p {sysfs}/device\nln -s ../../../bus/virtio/drivers/virtio_net {sysfs}/device/driver\n\
                 for file in type ifindex address; do ip netns exec node cat /sys/class/net/{name}/$file >{sysfs}/$file; done\n\
                 echo I:1 >/run/udev/data/n$(cat {sysfs}/ifindex)\n"
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

    /// Starts the metadata service, which closes the first `broken` connections.
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
            // The server must outlive this thread.
            std::mem::forget(Server::start(listener, answer));
        });
    }

    fn boot(&self, options: &str) -> Finished {
        self.machine.run(&["sh", "-c", &format!("ip netns exec node {}", boot_command(options))])
    }

    /// Starts `kilnd boot` in the background. `/log` has its output, and `/code` the exit code once it has ended.
    fn start_boot(&self, options: &str) {
        let line = boot_command(options);
        self.machine.shell(&format!(
            "rm -rf /log /code /node; mkdir -p /node/etc\n\
             (ip netns exec node {line} 2>/log & echo $! >/pid; code=0; wait $! || code=$?; echo $code >/code) >/dev/null 2>&1 &"
        ));
    }

    /// Waits until the output contains a text, and returns the output.
    fn wait_for_output(&self, text: &str) -> String {
        self.machine.wait_until(text, |machine| machine.read("/log").filter(|log| log.contains(text)))
    }

    /// Waits for the exit code, and returns it with the output.
    fn wait_for_exit(&self) -> (String, String) {
        let code =
            self.machine.wait_until("the exit code", |machine| machine.read("/code").filter(|code| !code.is_empty()));
        (code.trim().to_owned(), self.machine.read("/log").unwrap_or_default())
    }

    /// Starts `kilnd boot` while the service returns 503, and waits until the early network is up. Returns the address.
    fn boot_until_address(&self) -> String {
        self.metadata.as_ref().expect("it runs").set(|_| Response::status(503));
        self.start_boot("--time-scale 5");
        let log = self.wait_for_output(", route to");
        let (_, rest) = log.split_once("temporary address ").expect("the address");
        rest.split(',').next().expect("an address").to_owned()
    }

    /// Lets the service answer and waits until the boot has succeeded.
    fn finish_boot(&self) {
        self.metadata.as_ref().expect("it runs").set(answer);
        let (code, log) = self.wait_for_exit();
        assert_eq!(code, "0", "{log}");
    }

    fn status(&self) -> Value {
        let text = self.machine.read("/node/run/kiln/status.json").expect("a status");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The IPv4 addresses and routes of the node.
    fn addresses_and_routes(&self) -> String {
        self.machine
            .shell("ip netns exec node sh -c 'ip -4 -o address; ip -4 route show table all type unicast'")
            .stdout
    }
}

fn boot_command(options: &str) -> String {
    format!(
        "/usr/bin/kilnd boot --root /node --links /links --imds http://169.254.169.254 --dmi /nowhere --cd /nowhere {options}"
    )
}

#[test]
fn early_network_fetches_the_document_and_leaves_no_trace_on_the_link() {
    let host = Host::new(&[("eth0", Full)]);
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
        done.stderr.contains("eth0: temporary address 10.9.0.")
            && done.stderr.contains("route to 169.254.169.254 via 10.9.0.1"),
        "{}",
        done.stderr
    );
    assert_eq!(host.addresses_and_routes(), "", "no address or route is left");
}

#[test]
fn link_without_dhcp_server_is_skipped() {
    let host = Host::new(&[("eth0", NoServer), ("eth1", Full)]);
    let done = host.boot("--time-scale 20");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("reach the metadata service over eth0: failed"), "{}", done.stderr);
    assert!(done.stderr.contains("no DHCP server answered"), "{}", done.stderr);
    assert!(done.stderr.contains("eth1: temporary address 10.9.1."), "{}", done.stderr);
    assert_eq!(host.addresses_and_routes(), "");
}

#[test]
fn without_a_usable_lease_kilnd_waits_for_the_network_and_keeps_foreign_addresses() {
    let host = Host::new(&[("eth0", NoRoute), ("eth1", NoServer)]);
    // The image's own network configuration, applied later.
    let set_up = "ip netns exec node sh -c 'ip address add 10.9.0.7/24 dev eth0; ip route add default via 10.9.0.1'";
    host.start_boot("");
    let log = host.wait_for_output("over eth1: failed");
    assert!(log.contains("but no route to 169.254.169.254") && log.contains("no DHCP server answered"), "{log}");
    assert_eq!(host.addresses_and_routes(), "", "an address without a route is not configured");
    host.machine.shell(set_up);
    let (code, log) = host.wait_for_exit();
    assert_eq!(code, "0", "{log}");
    let left = host.addresses_and_routes();
    assert!(left.contains("10.9.0.7/24") && left.contains("default via 10.9.0.1") && !left.contains("/32"), "{left}");

    // The same while DHCP requests are pending: only the link without a server is left now.
    // The link is down before, so that it is up only once kilnd has begun to request an address.
    host.machine.shell("ip -n node address flush dev eth0; rm -r /links/eth0; ip -n node link set eth1 down");
    host.start_boot("");
    host.machine.wait_until("eth1 is up", |machine| {
        machine.shell("ip -n node link show eth1").stdout.contains(",UP").then_some(())
    });
    host.machine.shell(&set_up.replace("10.9.0.", "10.9.1.").replace("eth0", "eth1"));
    let (code, log) = host.wait_for_exit();
    assert_eq!(code, "0", "{log}");
    assert!(log.contains("over eth1") && !log.contains("no DHCP server answered"), "{log}");
}

#[test]
fn configured_machine_and_links_none_are_left_alone() {
    let host = Host::new(&[("eth0", Full), ("eth1", Full)]);
    // The second link is configured, although without a route to the service: kilnd must not touch the first one either.
    host.machine.shell("ip netns exec node sh -c 'ip link set eth1 up; ip address add 10.9.1.8/24 dev eth1'");
    let before = host.addresses_and_routes();
    host.start_boot("");
    host.machine.shell("sleep 0.5; ip -n node route add default via 10.9.1.1");
    let (code, log) = host.wait_for_exit();
    assert_eq!(code, "0", "{log}");
    assert!(!log.contains("over eth"), "{log}");
    assert!(
        host.addresses_and_routes().starts_with(before.lines().next().expect("an address")),
        "{}",
        host.addresses_and_routes()
    );

    host.machine.shell("ip netns exec node ip address flush dev eth1; rm -r /node; mkdir -p /node/etc");
    // A tenth of a second instead of five minutes.
    let done = host.boot("--links none --time-scale 3000");
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(!done.stderr.contains("over eth") && done.stderr.contains("no document found"), "{}", done.stderr);
}

#[test]
fn broken_connection_keeps_the_address_and_unreachable_service_is_retried() {
    let mut host = Host::new(&[("eth0", Full)]);
    // Nothing listens: every connection is refused.
    drop(host.metadata.take());
    host.start_boot("--time-scale 20");
    let log = host.wait_for_output("169.254.169.254 is not reachable from");
    assert_eq!(log.matches("temporary address").count(), 1, "{log}");
    host.serve(0);
    let (code, log) = host.wait_for_exit();
    assert_eq!((code.as_str(), log.matches("temporary address").count() > 1), ("0", true), "{log}");
    assert_eq!(host.addresses_and_routes(), "");

    drop(host.metadata.take());
    host.serve(1);
    host.start_boot("--time-scale 20");
    let (code, log) = host.wait_for_exit();
    assert_eq!((code.as_str(), log.matches("temporary address").count()), ("0", 1), "one address is enough: {log}");
    assert_eq!(host.addresses_and_routes(), "");
}

#[test]
fn early_address_expires_can_be_taken_over_and_leaves_foreign_addresses() {
    let host = Host::new(&[("eth0", Full)]);
    let address = host.boot_until_address();
    host.machine.shell("kill -9 $(cat /pid)");
    host.wait_for_exit();
    let left = host.addresses_and_routes();
    assert!(left.contains(&format!("{address}/32")) && left.contains("169.254.169.254 via 10.9.0.1"), "{left}");
    let (_, valid) = left.split_once("valid_lft ").expect("a time");
    let seconds: u32 = valid.split("sec").next().and_then(|seconds| seconds.parse().ok()).expect("not forever");
    assert!((60..=120).contains(&seconds), "{left}");

    // The next boot uses the address that is left.
    host.start_boot("");
    host.finish_boot();
    // Without its route the leftover address is replaced.
    host.machine.shell("ip -n node route del 169.254.169.254");
    // networkd adds the same address with a prefix if the server offers a subnet mask.
    let address = host.boot_until_address();
    assert!(host.wait_for_output(", route to").contains("removed the leftover address"));
    host.machine.shell(&format!("ip -n node address add {address}/24 dev eth0"));
    host.finish_boot();
    let left = host.addresses_and_routes();
    assert!(left.contains(&format!("{address}/24")) && !left.contains("/32") && !left.contains("169.254."), "{left}");

    // Without a subnet mask it extends the lifetime of the same address.
    host.machine.shell("ip -n node address flush dev eth0");
    let address = host.boot_until_address();
    host.machine.shell(&format!("ip -n node address change {address}/32 dev eth0 valid_lft 3600 preferred_lft 3600"));
    host.finish_boot();
    let left = host.addresses_and_routes();
    assert!(left.contains(&format!("{address}/32")) && !left.contains("169.254."), "{left}");

    // An address that is gone is requested again.
    host.machine.shell("ip -n node address flush dev eth0");
    let address = host.boot_until_address();
    host.machine.shell(&format!("ip -n node address del {address}/32 dev eth0"));
    host.machine.wait_until("another address", |machine| {
        machine.read("/log").filter(|log| log.matches("temporary address").count() == 2)
    });
    host.finish_boot();
    assert_eq!(host.addresses_and_routes(), "");
}

#[test]
fn address_lost_between_document_and_host_name_is_requested_again() {
    let host = Host::new(&[("eth0", Full)]);
    let metadata = host.metadata.as_ref().expect("it runs");
    metadata.set(|request| match path(request) {
        USER_DATA => Response::text(STANDARD.encode(document(&json!({})))),
        _ => Response::status(503),
    });
    // Without a time scale: kilnd must not give up before the address is gone.
    host.start_boot("");
    host.machine.wait_until("the host name is requested", |_| {
        metadata.seen().iter().any(|request| path(request) == INSTANCE).then_some(())
    });
    host.machine.shell("ip -n node -4 address flush dev eth0");
    host.machine.wait_until("another address", |machine| {
        machine.read("/log").filter(|log| log.matches("temporary address").count() == 2)
    });
    host.finish_boot();
    assert_eq!(host.machine.read("/node/etc/hostname").as_deref(), Some("early\n"));
    assert_eq!(host.addresses_and_routes(), "");
}

#[test]
fn lease_of_the_early_network_is_released() {
    let host = Host::new(&[("eth0", Full)]);
    let leases =
        |machine: &Machine| machine.shell("networkctl --no-pager status heth0 | grep -F '(to ' || true").stdout;
    let address = host.boot_until_address();
    assert!(leases(&host.machine).contains(&address), "{}", host.machine.shell("networkctl status heth0").stdout);
    host.finish_boot();
    host.machine.wait_until("the server has no lease", |machine| leases(machine).is_empty().then_some(()));
}
