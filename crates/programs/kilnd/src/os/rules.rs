//! Routing rules that block forwarded packets to one address, while packets of the machine itself are routed as before.

use std::net::Ipv4Addr;

use rustix::io::Errno;

use crate::os::address::{Rtnetlink, attribute, attributes};
use crate::os::error::Error;

/// Numbers of `linux/rtnetlink.h` and `linux/fib_rules.h`.
mod number {
    pub(super) const NEW_RULE: u16 = 32;
    pub(super) const DELETE_RULE: u16 = 33;
    pub(super) const GET_RULE: u16 = 34;

    pub(super) const DUMP: u16 = 0x300;
    pub(super) const EXCLUSIVE: u16 = 0x200;
    pub(super) const CREATE: u16 = 0x400;

    pub(super) const INET: u8 = 2;

    pub(super) const TO: u16 = 1;
    pub(super) const FROM_LINK: u16 = 3;
    pub(super) const GO_TO: u16 = 4;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const PROTOCOL: u16 = 21;

    pub(super) const ACT_GO_TO: u8 = 2;
    pub(super) const ACT_NOTHING: u8 = 3;
    pub(super) const ACT_PROHIBIT: u8 = 8;
}

/// The priority of the first of three rules. It is after the kernel's rule 0, so that a local service with this address stays reachable, and
/// before the rules of network plugins, which would route packets of pods elsewhere: Cilium's start at 9, others in the hundreds.
const PRIORITY: u32 = 5;

/// The protocol number of the rules: `RTPROT_KERNEL`. systemd-networkd and network plugins remove rules that they do not know when they
/// start, except those of the kernel (`ManageForeignRoutingPolicyRules=`).
const PROTOCOL: u8 = 2;

/// The input interface of packets that the machine itself sends.
const LOOPBACK: &[u8] = b"lo\0";

/// A rule for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    to: Ipv4Addr,
    priority: u32,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Local packets continue at this priority.
    PassLocal(u32),
    Prohibit,
    /// The jump target.
    Nothing,
}

impl Rule {
    /// The rules that block an address, in the order of creation: local packets are never blocked meanwhile.
    fn blocking(to: Ipv4Addr) -> [Self; 3] {
        let rule = |priority, action| Self { to, priority, action };
        let target = PRIORITY + 2;
        [rule(target, Action::Nothing), rule(PRIORITY, Action::PassLocal(target)), rule(PRIORITY + 1, Action::Prohibit)]
    }

    fn body(self) -> Vec<u8> {
        let action = match self.action {
            Action::PassLocal(_) => number::ACT_GO_TO,
            Action::Prohibit => number::ACT_PROHIBIT,
            Action::Nothing => number::ACT_NOTHING,
        };
        let mut body = vec![number::INET, 32, 0, 0, 0, 0, 0, action, 0, 0, 0, 0];
        attribute(&mut body, number::TO, &self.to.octets());
        attribute(&mut body, number::PRIORITY, &self.priority.to_ne_bytes());
        attribute(&mut body, number::PROTOCOL, &[PROTOCOL]);
        if let Action::PassLocal(behind) = self.action {
            attribute(&mut body, number::FROM_LINK, LOOPBACK);
            attribute(&mut body, number::GO_TO, &behind.to_ne_bytes());
        }
        body
    }

    /// Parses a rule; none for rules of another form.
    fn parse(body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_at_checked(12)?;
        let (mut to, mut priority, mut protocol, mut link, mut behind) = (None, None, None, None, None);
        for (kind, value) in attributes(rest) {
            match kind {
                number::TO => to = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from),
                number::PRIORITY => priority = value.try_into().ok().map(u32::from_ne_bytes),
                number::PROTOCOL => protocol = value.first().copied(),
                number::FROM_LINK => link = Some(value),
                number::GO_TO => behind = value.try_into().ok().map(u32::from_ne_bytes),
                _ => {}
            }
        }
        let action = match (head[7], link) {
            (number::ACT_GO_TO, Some(LOOPBACK)) => Action::PassLocal(behind?),
            (number::ACT_PROHIBIT, None) => Action::Prohibit,
            (number::ACT_NOTHING, None) => Action::Nothing,
            _ => return None,
        };
        (head[..4] == [number::INET, 32, 0, 0] && protocol == Some(PROTOCOL)).then_some(Self {
            to: to?,
            priority: priority?,
            action,
        })
    }
}

impl Rtnetlink {
    /// Whether all rules of [`Self::block`] exist.
    pub fn is_blocked(&self, to: Ipv4Addr) -> Result<bool, Error> {
        let mut found = Vec::new();
        let all = &[number::INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        self.request("list", "rules", number::GET_RULE, number::DUMP, all, |body| found.extend(Rule::parse(body)))?;
        Ok(Rule::blocking(to).iter().all(|rule| found.contains(rule)))
    }

    /// Blocks forwarded packets to an address; the sender gets an ICMP error at once. Local packets are not affected. Existing rules stay.
    pub fn block(&self, to: Ipv4Addr) -> Result<(), Error> {
        for rule in Rule::blocking(to) {
            let flags = number::CREATE | number::EXCLUSIVE;
            match self.change("block forwarded packets to", &to.to_string(), number::NEW_RULE, flags, &rule.body()) {
                Err(error) if error.errno() == Some(Errno::EXIST) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Removes the rules of [`Self::block`]. Missing rules are not an error.
    pub fn unblock(&self, to: Ipv4Addr) -> Result<(), Error> {
        for rule in Rule::blocking(to).into_iter().rev() {
            match self.change("unblock forwarded packets to", &to.to_string(), number::DELETE_RULE, 0, &rule.body()) {
                Err(error) if error.errno() == Some(Errno::NOENT) => {}
                done => done?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

    #[test]
    fn rules_round_trip() {
        for rule in Rule::blocking(TO) {
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
        let [nothing, pass, prohibit] = Rule::blocking(TO);
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
    }

    #[test]
    fn local_packets_pass_before_the_prohibition() {
        let [nothing, pass, prohibit] = Rule::blocking(TO);
        assert!(pass.priority < prohibit.priority && prohibit.priority < nothing.priority);
        assert_eq!(pass.action, Action::PassLocal(nothing.priority));
    }
}
