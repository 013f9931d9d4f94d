//! Routing rules that block forwarded packets to an address, while packets of the machine itself are routed as before.
//!
//! Why routing rules and not netfilter: the kernel evaluates them for every packet that it forwards, whichever of iptables-legacy,
//! iptables-nft, nftables or eBPF the network plugin uses; plugins and kube-proxy flush and reorder tables of netfilter, but not rules of the
//! kernel's own protocol number; and they need no program and no kernel module. Their limits: ports can be matched since Linux 4.17, and only in
//! packets that are not fragments. A pod with `CAP_NET_RAW` can send any packet in fragments. So after the blocked ports, TCP packets with a
//! known port are let through and the rest, which are the fragments, are blocked too.
//!
//! Ports are blocked one by one, because everything else has to pass: a load balancer probes pods from the address of the wire server, and
//! the answers of the pods go to its ephemeral ports.
//!
//! IPv6: the metadata service and the wire server have no IPv6 address. Azure's link-local router (`fe80::1234:5678:9abc`) is not reachable
//! from another link, because the kernel does not forward packets to link-local addresses. What remains is the NAT64 form of the IPv4
//! address ([`nat64`]), for networks with such a translator.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use crate::os::address::{Rtnetlink, attribute, attributes};
use crate::os::error::Error;

/// Numbers of `linux/rtnetlink.h`, `linux/fib_rules.h` and `linux/in.h`.
mod number {
    pub(super) const NEW_RULE: u16 = 32;
    pub(super) const DELETE_RULE: u16 = 33;
    pub(super) const GET_RULE: u16 = 34;

    pub(super) const DUMP: u16 = 0x300;
    pub(super) const EXCLUSIVE: u16 = 0x200;
    pub(super) const CREATE: u16 = 0x400;

    pub(super) const INET: u8 = 2;
    pub(super) const INET6: u8 = 10;

    pub(super) const TO: u16 = 1;
    pub(super) const FROM_LINK: u16 = 3;
    pub(super) const GO_TO: u16 = 4;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const PROTOCOL: u16 = 21;
    pub(super) const IP_PROTOCOL: u16 = 22;
    pub(super) const PORTS: u16 = 24;

    pub(super) const ACT_GO_TO: u8 = 2;
    pub(super) const ACT_NOTHING: u8 = 3;
    pub(super) const ACT_PROHIBIT: u8 = 8;

    pub(super) const TCP: u8 = 6;
}

/// The priorities of the rules. They are after the kernel's rule 0, so that a local service with this address stays reachable, and before the
/// rules of network plugins, which would route packets of pods elsewhere: Cilium's start at 9, others in the hundreds. Jump targets have
/// their own priorities, because the kernel jumps to the first rule with that number. Blocks of addresses and of ports share no priority,
/// because the kernel deletes the first rule that has all given properties: one without a port would match one with a port.
mod priority {
    pub(super) const PORTS_LOCAL: u32 = 1;
    pub(super) const PORTS_PROHIBIT: u32 = 2;
    pub(super) const PORTS_OTHERS: u32 = 3;
    pub(super) const PORTS_FRAGMENTS: u32 = 4;
    pub(super) const PORTS_END: u32 = 8;

    pub(super) const ADDRESS_LOCAL: u32 = 5;
    pub(super) const ADDRESS_PROHIBIT: u32 = 6;
    pub(super) const ADDRESS_END: u32 = 7;
}

/// The protocol number of the rules: `RTPROT_KERNEL`. systemd-networkd and network plugins remove rules that they do not know when they
/// start, except those of the kernel (`ManageForeignRoutingPolicyRules=`).
const PROTOCOL: u8 = 2;

/// The ports of TCP packets that are not fragments. The kernel accepts no range that ends at 65535, so that port counts as unknown.
const KNOWN_PORTS: (u16, u16) = (1, u16::MAX - 1);

/// The input interface of packets that the machine itself sends.
const LOOPBACK: &[u8] = b"lo\0";

/// The address by which an IPv6 network with a NAT64 translator reaches an IPv4 address (RFC 6052, well-known prefix).
pub fn nat64(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    Ipv6Addr::from([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d])
}

/// What is blocked for forwarded packets, as rules in the order of creation: packets of the machine itself are never blocked meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    to: IpAddr,
    rules: Vec<Rule>,
}

impl Block {
    /// Blocks an address.
    pub fn address(to: IpAddr) -> Self {
        let rule = |priority, action| Rule { to, priority, local: false, tcp: false, ports: None, action };
        let end = priority::ADDRESS_END;
        let rules = vec![
            rule(end, Action::Nothing),
            Rule { local: true, ..rule(priority::ADDRESS_LOCAL, Action::GoTo(end)) },
            rule(priority::ADDRESS_PROHIBIT, Action::Prohibit),
        ];
        Self { to, rules }
    }

    /// Blocks TCP ports of an address, and TCP packets in fragments.
    pub fn tcp_ports(to: IpAddr, ports: &[u16]) -> Self {
        let rule = |priority, action| Rule { to, priority, local: false, tcp: true, ports: None, action };
        let end = priority::PORTS_END;
        let mut rules = vec![
            Rule { tcp: false, ..rule(end, Action::Nothing) },
            Rule { local: true, tcp: false, ..rule(priority::PORTS_LOCAL, Action::GoTo(end)) },
            Rule { ports: Some(KNOWN_PORTS), ..rule(priority::PORTS_OTHERS, Action::GoTo(end)) },
            // No port is known of a fragment.
            rule(priority::PORTS_FRAGMENTS, Action::Prohibit),
        ];
        let prohibit =
            |port: &u16| Rule { ports: Some((*port, *port)), ..rule(priority::PORTS_PROHIBIT, Action::Prohibit) };
        rules.extend(ports.iter().map(prohibit));
        Self { to, rules }
    }

    fn family(&self) -> u8 {
        if self.to.is_ipv4() { number::INET } else { number::INET6 }
    }
}

/// A rule for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    to: IpAddr,
    priority: u32,
    /// Only packets of the machine itself.
    local: bool,
    /// Only TCP.
    tcp: bool,
    /// Only these destination ports: first and last.
    ports: Option<(u16, u16)>,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Continue at this priority.
    GoTo(u32),
    Prohibit,
    /// The jump target.
    Nothing,
}

impl Rule {
    fn body(self) -> Vec<u8> {
        let action = match self.action {
            Action::GoTo(_) => number::ACT_GO_TO,
            Action::Prohibit => number::ACT_PROHIBIT,
            Action::Nothing => number::ACT_NOTHING,
        };
        let (family, length) = if self.to.is_ipv4() { (number::INET, 32) } else { (number::INET6, 128) };
        let mut body = vec![family, length, 0, 0, 0, 0, 0, action, 0, 0, 0, 0];
        match self.to {
            IpAddr::V4(to) => attribute(&mut body, number::TO, &to.octets()),
            IpAddr::V6(to) => attribute(&mut body, number::TO, &to.octets()),
        }
        attribute(&mut body, number::PRIORITY, &self.priority.to_ne_bytes());
        attribute(&mut body, number::PROTOCOL, &[PROTOCOL]);
        if self.local {
            attribute(&mut body, number::FROM_LINK, LOOPBACK);
        }
        if self.tcp {
            attribute(&mut body, number::IP_PROTOCOL, &[number::TCP]);
        }
        if let Some((first, last)) = self.ports {
            attribute(&mut body, number::PORTS, &[first.to_ne_bytes(), last.to_ne_bytes()].concat());
        }
        if let Action::GoTo(target) = self.action {
            attribute(&mut body, number::GO_TO, &target.to_ne_bytes());
        }
        body
    }

    /// Parses a rule; none for rules of another form.
    fn parse(body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_at_checked(12)?;
        let (mut to, mut priority, mut protocol, mut target) = (None, None, None, None);
        let (mut local, mut tcp, mut ports) = (false, false, None);
        for (kind, value) in attributes(rest) {
            match kind {
                number::TO => to = address(value),
                number::PRIORITY => priority = value.try_into().ok().map(u32::from_ne_bytes),
                number::PROTOCOL => protocol = value.first().copied(),
                number::FROM_LINK if value == LOOPBACK => local = true,
                number::IP_PROTOCOL if value == [number::TCP] => tcp = true,
                number::PORTS => ports = Some(range(value)?),
                number::GO_TO => target = value.try_into().ok().map(u32::from_ne_bytes),
                number::FROM_LINK | number::IP_PROTOCOL => return None,
                _ => {}
            }
        }
        let action = match head[7] {
            number::ACT_GO_TO => Action::GoTo(target?),
            number::ACT_PROHIBIT => Action::Prohibit,
            number::ACT_NOTHING => Action::Nothing,
            _ => return None,
        };
        let to: IpAddr = to?;
        let form = if to.is_ipv4() { [number::INET, 32, 0, 0] } else { [number::INET6, 128, 0, 0] };
        let rule = Self { to, priority: priority?, local, tcp, ports, action };
        (head[..4] == form && protocol == Some(PROTOCOL)).then_some(rule)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn range(bytes: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = bytes.try_into().ok()?;
    Some((u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])))
}

impl Rtnetlink {
    /// Whether all rules of a block exist. A kernel without IPv6 forwards no IPv6 packets, so they are blocked.
    pub fn is_blocked(&self, block: &Block) -> Result<bool, Error> {
        let mut found = Vec::new();
        let all = &[block.family(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        match self.request("list", "rules", number::GET_RULE, number::DUMP, all, |body| found.extend(Rule::parse(body)))
        {
            Err(error) if is_absent_family(block, &error) => return Ok(true),
            listed => listed?,
        }
        Ok(block.rules.iter().all(|rule| found.contains(rule)))
    }

    /// Blocks forwarded packets; the sender gets an ICMP error at once. Packets of the machine itself are not affected. Existing rules stay.
    pub fn block(&self, block: &Block) -> Result<(), Error> {
        for rule in &block.rules {
            let flags = number::CREATE | number::EXCLUSIVE;
            let to = block.to.to_string();
            match self.change("block forwarded packets to", &to, number::NEW_RULE, flags, &rule.body()) {
                Err(error) if error.errno() == Some(Errno::EXIST) || is_absent_family(block, &error) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Removes the rules of a block. Missing rules are not an error.
    pub fn unblock(&self, block: &Block) -> Result<(), Error> {
        for rule in block.rules.iter().rev() {
            let to = block.to.to_string();
            match self.change("unblock forwarded packets to", &to, number::DELETE_RULE, 0, &rule.body()) {
                Err(error) if error.errno() == Some(Errno::NOENT) || is_absent_family(block, &error) => {}
                done => done?,
            }
        }
        Ok(())
    }
}

/// Whether the kernel runs without IPv6 (`ipv6.disable=1`).
fn is_absent_family(block: &Block, error: &Error) -> bool {
    block.to.is_ipv6() && matches!(error.errno(), Some(Errno::AFNOSUPPORT | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

    fn blocks() -> [Block; 4] {
        let addresses: [IpAddr; 2] = [TO.into(), nat64(TO).into()];
        let [v4, v6] = addresses;
        [Block::address(v4), Block::address(v6), Block::tcp_ports(v4, &[80, 32526]), Block::tcp_ports(v6, &[80])]
    }

    #[test]
    fn rules_round_trip() {
        for rule in blocks().into_iter().flat_map(|block| block.rules) {
            let whole = rule.body();
            assert_eq!(Rule::parse(&whole), Some(rule));
            // The last attribute may have three bytes of padding.
            for end in 0..whole.len() - 3 {
                assert_ne!(Rule::parse(&whole[..end]), Some(rule), "truncated");
            }
        }
    }

    #[test]
    fn other_rules_are_not_recognized() {
        let Block { rules, .. } = Block::address(TO.into());
        let [nothing, pass, prohibit] = rules[..] else { panic!("{rules:?}") };
        let with = |rule: Rule, at: usize, byte: u8| {
            let mut body = rule.body();
            body[at] = byte;
            Rule::parse(&body)
        };
        assert_eq!(with(prohibit, 1, 24), None, "a whole network");
        assert_eq!(with(prohibit, 2, 32), None, "with a source");
        assert_eq!(with(prohibit, 7, 6), None, "another action");
        assert_eq!(with(pass, pass.body().len() - 12, b'e'), None, "from another link");
        // Header, address and priority precede the protocol.
        assert_eq!(with(nothing, 12 + 8 + 8 + 4, 4), None, "another protocol");
        let udp = Rule { tcp: true, ..prohibit };
        assert_eq!(with(udp, udp.body().len() - 4, 17), None, "another transport");
    }

    #[test]
    fn local_packets_pass_before_the_prohibition() {
        for block in blocks() {
            let pass = block.rules.iter().find(|rule| rule.local).expect("a rule for local packets");
            let Action::GoTo(end) = pass.action else { panic!("{pass:?}") };
            for rule in block.rules.iter().filter(|rule| rule.action == Action::Prohibit) {
                assert!(pass.priority < rule.priority && rule.priority < end, "{rule:?}");
            }
        }
    }

    #[test]
    fn fragments_are_blocked_after_all_ports() {
        let block = Block::tcp_ports(TO.into(), &[80]);
        let of = |ports| block.rules.iter().find(|rule| rule.tcp && rule.ports == ports).expect("a rule");
        let (port, others, fragments) = (of(Some((80, 80))), of(Some(KNOWN_PORTS)), of(None));
        assert!(port.priority < others.priority && others.priority < fragments.priority);
        assert_eq!((port.action, fragments.action), (Action::Prohibit, Action::Prohibit));
    }

    #[test]
    fn nat64_address_ends_with_the_ipv4_address() {
        assert_eq!(nat64(Ipv4Addr::new(168, 63, 129, 16)).to_string(), "64:ff9b::a83f:8110");
    }
}
