//! Three private network namespaces in a row: `pod` - `node` - `cloud`. The node forwards packets; the cloud has the addresses of the
//! metadata service and the wire server. All of them end with this process.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use kiln_machines::network::NetworkNamespace;
use socket2::{Domain, Protocol, Socket, Type};

/// A blocked connection fails at once, because the node answers with an ICMP error. Also the time for a lost packet to be sent again.
const TIMEOUT: Duration = Duration::from_secs(4);

/// How long to wait for a packet that should not arrive.
const QUIET: Duration = Duration::from_millis(400);

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A network namespace that is one host.
pub(crate) struct Host {
    namespace: NetworkNamespace,
    _file: File,
}

impl Host {
    fn new() -> Self {
        let (namespace, file) = NetworkNamespace::create().unwrap_or_else(|error| panic!("{error}"));
        Self { namespace, _file: file }
    }

    /// Calls a function in this network.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.namespace.within(|| Ok(act())).expect("a network namespace")
    }

    fn ip(&self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.inside(|| run(line));
        }
    }

    /// Accepts connections.
    pub(crate) fn serve(&self, address: SocketAddr) {
        let listener = self.inside(|| TcpListener::bind(address)).unwrap_or_else(|error| panic!("{address}: {error}"));
        thread::spawn(move || for _connection in listener.incoming() {});
    }

    /// The same for a link-local address.
    pub(crate) fn serve_on(&self, address: SocketAddr, link: &str) {
        self.serve(self.scoped(address, link));
    }

    /// Whether a connection is accepted.
    pub(crate) fn connects(&self, address: SocketAddr) -> bool {
        self.inside(|| TcpStream::connect_timeout(&address, TIMEOUT)).is_ok()
    }

    /// The same for a link-local address.
    pub(crate) fn connects_on(&self, address: SocketAddr, link: &str) -> bool {
        self.connects(self.scoped(address, link))
    }

    fn scoped(&self, address: SocketAddr, link: &str) -> SocketAddr {
        let index = self.inside(|| {
            let socket = UdpSocket::bind("[::]:0").expect("a socket");
            rustix::net::netdevice::name_to_index(&socket, link)
        });
        let IpAddr::V6(ip) = address.ip() else { panic!("{address}") };
        SocketAddrV6::new(ip, address.port(), 0, index.unwrap_or_else(|error| panic!("{link}: {error}"))).into()
    }

    /// Returns every datagram.
    pub(crate) fn answer_dns(&self, address: SocketAddr) {
        let socket = self.inside(|| UdpSocket::bind(address)).unwrap_or_else(|error| panic!("{address}: {error}"));
        thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..length], from);
            }
        });
    }

    /// Whether a datagram is answered.
    pub(crate) fn asks_dns(&self, address: SocketAddr) -> bool {
        let socket = self.inside(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        socket.set_read_timeout(Some(TIMEOUT)).expect("set");
        socket.send_to(b"query", address).expect("sent");
        let mut answer = [0; 512];
        socket.recv_from(&mut answer).is_ok_and(|(length, from)| &answer[..length] == b"query" && from == address)
    }

    /// The source address of packets to an address.
    pub(crate) fn source_to(&self, address: SocketAddr) -> IpAddr {
        let socket = self.inside(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        socket.connect(address).expect("a route");
        socket.local_addr().expect("an address").ip()
    }
}

/// The path that names a network for `ip link … netns`.
fn path_of(host: &Host) -> String {
    host.namespace.path().display().to_string()
}

fn run(line: &str) {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("a program");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The three hosts.
pub(crate) struct Routed {
    pub(crate) pod: Host,
    pub(crate) node: Host,
    pub(crate) cloud: Host,
}

impl Routed {
    pub(crate) fn new() -> Self {
        let net = Self { pod: Host::new(), node: Host::new(), cloud: Host::new() };
        for (name, host) in [("pod", &net.pod), ("cloud", &net.cloud)] {
            let path = path_of(host);
            net.node.ip(&format!("ip link add {name} type veth peer name eth0 netns {path}\n ip link set {name} up"));
            host.ip("ip link set lo up\n ip link set eth0 up");
        }
        net.node.ip("ip link set lo up
             ip address add 10.8.0.1/24 dev pod
             ip address add 10.9.0.4/24 dev cloud
             ip address add fd01::1/64 dev pod nodad
             ip address add fd02::4/64 dev cloud nodad
             ip route add 169.254.169.254 via 10.9.0.1
             ip route add 168.63.129.16 via 10.9.0.1
             ip route add 64:ff9b::/96 via fd02::1");
        net.node.inside(|| {
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{setting}"), "1").expect("set");
            }
        });
        net.pod.ip("ip address add 10.8.0.2/24 dev eth0
             ip address add fd01::2/64 dev eth0 nodad
             ip route add default via 10.8.0.1
             ip route add default via fd01::1");
        net.cloud.ip("ip address add 10.9.0.1/24 dev eth0
             ip address add fd02::1/64 dev eth0 nodad
             ip address add fe80::1234:5678:9abc/64 dev eth0 nodad
             ip address add 169.254.169.254/32 dev lo
             ip address add 168.63.129.16/32 dev lo
             ip address add 64:ff9b::a9fe:a9fe/128 dev lo nodad
             ip address add 64:ff9b::a83f:8110/128 dev lo nodad
             ip route add 10.8.0.0/24 via 10.9.0.4 src 168.63.129.16
             ip route add fd01::/64 via fd02::4");
        net
    }

    /// Lets the pod send packets for a link-local address to its node, as an attacker would.
    pub(crate) fn send_link_local_to_the_node(&self, address: &str) {
        let mac = self.node.inside(|| {
            let output = Command::new("ip").args(["-brief", "link", "show", "pod"]).output().expect("ip");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split_whitespace().nth(2).expect("an address").to_owned()
        });
        self.pod.ip(&format!("ip neighbour replace {address} lladdr {mac} dev eth0 nud permanent"));
    }

    /// Sends a TCP SYN from the pod in two fragments, and returns how many SYNs arrive in the cloud. The first fragment has the ports.
    pub(crate) fn fragmented_syns(&self, to: SocketAddr) -> usize {
        let IpAddr::V4(destination) = to.ip() else { panic!("{to}") };
        let raw = |host: &Host, protocol: i32| {
            host.inside(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(protocol)))).expect("a raw socket")
        };
        let (sender, mut receiver) = (raw(&self.pod, 255), raw(&self.cloud, 6));
        receiver.set_read_timeout(Some(QUIET)).expect("set");
        let source = Ipv4Addr::new(10, 8, 0, 2);
        let syn = syn(source, destination, to.port());
        for (offset, more) in [(0, true), (16, false)] {
            let part = if more { &syn[..16] } else { &syn[16..] };
            let packet = ip_packet(source, destination, offset, more, part);
            sender.send_to(&packet, &to.into()).expect("sent");
        }
        let mut arrived = 0;
        let mut bytes = [0; 256];
        while let Ok(length) = receiver.read(&mut bytes) {
            // After the IP header: ports, numbers, flags.
            let tcp = &bytes[20..length];
            let is_syn = tcp[..2] == syn[..2] && tcp[2..4] == syn[2..4] && tcp[13] == 2;
            arrived += usize::from(is_syn);
        }
        arrived
    }
}

/// A TCP header with only the SYN flag, padded to 24 bytes by an option.
fn syn(source: Ipv4Addr, destination: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut segment = 54_321_u16.to_be_bytes().to_vec();
    segment.extend(port.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 6 << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend([2, 4, 5, 0xb4]);
    let mut pseudo = [source.octets(), destination.octets()].concat();
    pseudo.extend([0, 6, 0, 24]);
    let sum = checksum(&[pseudo, segment.clone()].concat());
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// An IP fragment; the kernel fills in length and checksum.
fn ip_packet(source: Ipv4Addr, destination: Ipv4Addr, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let fragment = (offset / 8) | if more { 0x2000 } else { 0 };
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, 6, 0, 0]);
    packet.extend([source.octets(), destination.octets()].concat());
    packet.extend(data);
    packet
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}
