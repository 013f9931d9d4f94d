//! An address by DHCP, for the one question that a machine asks before anybody has set up its network.
//!
//! [`ask`] is the whole exchange over whatever carries it ([`Transport`]); [`Lease`] says what came of it, and by which way a service is
//! reached. Everything that arrives is somebody else's: no length in it is trusted, and what does not fit is passed over.

mod exchange;
mod message;
mod packet;

pub use exchange::{DhcpError, Transport, get_lease};
pub use message::{Kind, Reply};
pub use packet::payload;

use std::net::Ipv4Addr;

/// An address for a time, and the ways that come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    /// Who gave it.
    pub server: Ipv4Addr,
    /// How many leading bits the machine's network shares; 32 where nobody says.
    pub prefix: u8,
    /// The ways, the most exact first.
    pub routes: Vec<Route>,
}

/// A way to some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub to: Ipv4Addr,
    /// How many leading bits of it count.
    pub prefix: u8,
    /// By whom; by nobody where they are on the link itself.
    pub via: Option<Ipv4Addr>,
}

/// How an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// It is on the link.
    Direct,
    /// By a neighbour.
    Via(Ipv4Addr),
}

impl Lease {
    /// What an acknowledgement grants; nothing where it names no address that a machine can have.
    pub(crate) fn from_reply(reply: &Reply) -> Option<Self> {
        let address = reply.address;
        let is_usable = !(address.is_unspecified() || address.is_broadcast() || address.is_multicast());
        let prefix = reply.mask.map_or(32, |mask| u8::try_from(u32::from(mask).leading_ones()).unwrap_or(32));
        let mut routes = reply.routes.clone();
        // Who sends routes means them alone (RFC 3442); the router is for those who know no better.
        if routes.is_empty() {
            routes.extend(reply.router.map(|via| Route { to: Ipv4Addr::UNSPECIFIED, prefix: 0, via: Some(via) }));
        }
        routes.push(Route { to: address, prefix, via: None });
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix));
        (is_usable && !address.is_loopback()).then_some(Self { address, server: reply.server, prefix, routes })
    }

    /// How an address is reached; not at all where no way leads there.
    pub fn next_hop(&self, target: Ipv4Addr) -> Option<NextHop> {
        let route = self.routes.iter().find(|route| route.leads_to(target))?;
        Some(route.via.map_or(NextHop::Direct, NextHop::Via))
    }
}

impl Route {
    fn leads_to(&self, target: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
        u32::from(self.to) & mask == u32::from(target) & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMDS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

    fn reply() -> Reply {
        Reply {
            kind: Kind::Ack,
            address: Ipv4Addr::new(10, 0, 0, 4),
            server: Ipv4Addr::new(168, 63, 129, 16),
            mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
            router: Some(Ipv4Addr::new(10, 0, 0, 1)),
            routes: Vec::new(),
        }
    }

    #[test]
    fn without_routes_the_router_leads_everywhere_but_to_neighbours() {
        let lease = Lease::from_reply(&reply()).expect("an address");
        assert_eq!(lease.next_hop(IMDS), Some(NextHop::Via(Ipv4Addr::new(10, 0, 0, 1))));
        assert_eq!(lease.next_hop(Ipv4Addr::new(10, 0, 0, 200)), Some(NextHop::Direct));
        let lease = Lease::from_reply(&Reply { router: None, ..reply() }).expect("an address");
        assert_eq!(lease.next_hop(IMDS), None);
    }

    #[test]
    fn routes_are_meant_alone_and_the_most_exact_one_is_taken() {
        let via = |last| Some(Ipv4Addr::new(10, 0, 0, last));
        let routes = vec![
            Route { to: Ipv4Addr::UNSPECIFIED, prefix: 0, via: via(7) },
            Route { to: IMDS, prefix: 32, via: via(9) },
        ];
        let lease = Lease::from_reply(&Reply { routes: routes.clone(), ..reply() }).expect("an address");
        assert_eq!(lease.next_hop(IMDS), Some(NextHop::Via(Ipv4Addr::new(10, 0, 0, 9))));
        assert_eq!(lease.next_hop(Ipv4Addr::new(8, 8, 8, 8)), Some(NextHop::Via(Ipv4Addr::new(10, 0, 0, 7))));
        let only = Lease::from_reply(&Reply { routes: routes[1..].to_vec(), ..reply() }).expect("an address");
        assert_eq!(only.next_hop(Ipv4Addr::new(8, 8, 8, 8)), None, "the router is not asked beside routes");
    }

    #[test]
    fn what_no_machine_can_have_is_no_lease() {
        for address in [[0, 0, 0, 0], [255, 255, 255, 255], [224, 0, 0, 1], [127, 0, 0, 1]] {
            assert_eq!(Lease::from_reply(&Reply { address: address.into(), ..reply() }), None, "{address:?}");
        }
    }
}
