//! Rules of routing that keep packets of others from one address, while the machine's own go where they would have gone anyway.

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
    pub(super) const PLACE: u16 = 6;
    pub(super) const BY: u16 = 21;

    pub(super) const ACT_GO_TO: u8 = 2;
    pub(super) const ACT_NOTHING: u8 = 3;
    pub(super) const ACT_PROHIBIT: u8 = 8;
}

/// Where the rules stand, the first of three places. Behind the kernel's own at 0, which says what is the machine's own address: who
/// answers under the address on the machine itself is reached. Before those of network plugins, which send packets of pods elsewhere:
/// Cilium's begin at 9, others' at hundreds.
const PLACE: u32 = 5;

/// Who made a rule: the kernel, as its own rules say. systemd-networkd removes at its start all that nobody told it of, but for those
/// of the kernel (`ManageForeignRoutingPolicyRules=`); network plugins do the same.
const BY: u8 = 2;

/// How the kernel names what comes from nowhere else: packets of the machine itself.
const OWN: &[u8] = b"lo\0";

/// One rule about one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    to: Ipv4Addr,
    place: u32,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The machine's own packets go on behind this place.
    PassOwn(u32),
    /// Nobody's packets get further.
    Prohibit,
    /// A place to go on behind.
    Nothing,
}

impl Rule {
    /// The rules that close an address, in the order in which they come to stand: at no moment are the machine's own packets held.
    fn closing(to: Ipv4Addr) -> [Self; 3] {
        let rule = |place, action| Self { to, place, action };
        let behind = PLACE + 2;
        [rule(behind, Action::Nothing), rule(PLACE, Action::PassOwn(behind)), rule(PLACE + 1, Action::Prohibit)]
    }

    fn body(self) -> Vec<u8> {
        let action = match self.action {
            Action::PassOwn(_) => number::ACT_GO_TO,
            Action::Prohibit => number::ACT_PROHIBIT,
            Action::Nothing => number::ACT_NOTHING,
        };
        let mut body = vec![number::INET, 32, 0, 0, 0, 0, 0, action, 0, 0, 0, 0];
        attribute(&mut body, number::TO, &self.to.octets());
        attribute(&mut body, number::PLACE, &self.place.to_ne_bytes());
        attribute(&mut body, number::BY, &[BY]);
        if let Action::PassOwn(behind) = self.action {
            attribute(&mut body, number::FROM_LINK, OWN);
            attribute(&mut body, number::GO_TO, &behind.to_ne_bytes());
        }
        body
    }

    /// Reads what the kernel says of one; nothing of those that are not of this kind.
    fn parse(body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_at_checked(12)?;
        let (mut to, mut place, mut by, mut link, mut behind) = (None, None, None, None, None);
        for (kind, value) in attributes(rest) {
            match kind {
                number::TO => to = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from),
                number::PLACE => place = value.try_into().ok().map(u32::from_ne_bytes),
                number::BY => by = value.first().copied(),
                number::FROM_LINK => link = Some(value),
                number::GO_TO => behind = value.try_into().ok().map(u32::from_ne_bytes),
                _ => {}
            }
        }
        let action = match (head[7], link) {
            (number::ACT_GO_TO, Some(OWN)) => Action::PassOwn(behind?),
            (number::ACT_PROHIBIT, None) => Action::Prohibit,
            (number::ACT_NOTHING, None) => Action::Nothing,
            _ => return None,
        };
        (head[..4] == [number::INET, 32, 0, 0] && by == Some(BY)).then_some(Self { to: to?, place: place?, action })
    }
}

impl Rtnetlink {
    /// Whether [`Self::block`] was done, and is whole.
    pub fn is_blocked(&self, to: Ipv4Addr) -> Result<bool, Error> {
        let mut found = Vec::new();
        let all = &[number::INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        self.ask("list", "rules", number::GET_RULE, number::DUMP, all, |body| found.extend(Rule::parse(body)))?;
        Ok(Rule::closing(to).iter().all(|rule| found.contains(rule)))
    }

    /// Keeps packets that the machine forwards from an address: whoever sends one hears at once that it is prohibited. The machine's own
    /// packets are treated as before. What is there already stays.
    pub fn block(&self, to: Ipv4Addr) -> Result<(), Error> {
        for rule in Rule::closing(to) {
            let flags = number::CREATE | number::EXCLUSIVE;
            match self.change("keep forwarded packets from", &to.to_string(), number::NEW_RULE, flags, &rule.body()) {
                Err(error) if error.errno() == Some(Errno::EXIST) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Takes away what [`Self::block`] made, and nobody else's rules. What is gone already is no error.
    pub fn unblock(&self, to: Ipv4Addr) -> Result<(), Error> {
        for rule in Rule::closing(to).into_iter().rev() {
            match self.change("let forwarded packets reach", &to.to_string(), number::DELETE_RULE, 0, &rule.body()) {
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
    fn a_rule_is_read_as_it_is_written() {
        for rule in Rule::closing(TO) {
            let whole = rule.body();
            assert_eq!(Rule::parse(&whole), Some(rule));
            // Of the last attribute at most three bytes only fill up.
            for end in 0..whole.len() - 3 {
                assert_ne!(Rule::parse(&whole[..end]), Some(rule), "without its end");
            }
        }
    }

    #[test]
    fn rules_of_others_are_not_taken_for_ours() {
        let [nothing, pass, prohibit] = Rule::closing(TO);
        let with = |rule: Rule, at: usize, byte: u8| {
            let mut body = rule.body();
            body[at] = byte;
            Rule::parse(&body)
        };
        assert_eq!(with(prohibit, 1, 24), None, "a whole network");
        assert_eq!(with(prohibit, 2, 32), None, "from somebody");
        assert_eq!(with(prohibit, 7, 6), None, "another action");
        assert_eq!(with(pass, pass.body().len() - 12, b'e'), None, "from another link");
        // Head, address and place come before who made it.
        assert_eq!(with(nothing, 12 + 8 + 8 + 4, 4), None, "made by an administrator");
    }

    #[test]
    fn the_machine_s_own_packets_pass_before_anything_is_prohibited() {
        let [nothing, pass, prohibit] = Rule::closing(TO);
        assert!(pass.place < prohibit.place && prohibit.place < nothing.place);
        assert_eq!(pass.action, Action::PassOwn(nothing.place));
    }
}
