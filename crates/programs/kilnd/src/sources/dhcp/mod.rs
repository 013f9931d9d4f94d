//! A minimal DHCP client for the early network.
//!
//! [`get_lease`] is the whole exchange over a [`Transport`]; the resulting [`Lease`] has the address and the routes. Received packets are
//! untrusted: every length is checked, and packets that do not match are ignored.

mod exchange;
mod message;
mod packet;

pub use exchange::{DhcpError, Transport, get_lease};
pub use message::{Kind, Reply};
pub use packet::payload;

use std::net::Ipv4Addr;

/// An address with its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub server: Ipv4Addr,
    /// 32 if the server sends no netmask.
    pub prefix: u8,
    /// Most specific first.
    pub routes: Vec<Route>,
}

/// A classless route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub to: Ipv4Addr,
    pub prefix: u8,
    /// The gateway; none for addresses on the link.
    pub via: Option<Ipv4Addr>,
}

/// The next hop to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The address is on the link.
    Direct,
    Via(Ipv4Addr),
}

impl Lease {
    /// The lease of a reply; none if its address is not usable.
    pub(crate) fn from_reply(reply: &Reply) -> Option<Self> {
        let address = reply.address;
        let is_usable = !(address.is_unspecified() || address.is_broadcast() || address.is_multicast());
        let prefix = reply.mask.map_or(32, |mask| u8::try_from(u32::from(mask).leading_ones()).unwrap_or(32));
        let mut routes = reply.routes.clone();
        // If the server sends classless routes, the router option is ignored (RFC 3442).
        if routes.is_empty() {
            routes.extend(reply.router.map(|via| Route { to: Ipv4Addr::UNSPECIFIED, prefix: 0, via: Some(via) }));
        }
        routes.push(Route { to: address, prefix, via: None });
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix));
        (is_usable && !address.is_loopback()).then_some(Self { address, server: reply.server, prefix, routes })
    }

    /// The message that releases the lease.
    pub fn release(&self, hardware: [u8; 6], transaction: u32) -> Vec<u8> {
        message::release(hardware, transaction, self.address, self.server)
    }

    /// The next hop to an address; none without a matching route.
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
    fn router_is_the_default_route_without_classless_routes() {
        let lease = Lease::from_reply(&reply()).expect("an address");
        assert_eq!(lease.next_hop(IMDS), Some(NextHop::Via(Ipv4Addr::new(10, 0, 0, 1))));
        assert_eq!(lease.next_hop(Ipv4Addr::new(10, 0, 0, 200)), Some(NextHop::Direct));
        let lease = Lease::from_reply(&Reply { router: None, ..reply() }).expect("an address");
        assert_eq!(lease.next_hop(IMDS), None);
    }

    #[test]
    fn most_specific_classless_route_wins_and_router_is_ignored() {
        let via = |last| Some(Ipv4Addr::new(10, 0, 0, last));
        let routes = vec![
            Route { to: Ipv4Addr::UNSPECIFIED, prefix: 0, via: via(7) },
            Route { to: IMDS, prefix: 32, via: via(9) },
        ];
        let lease = Lease::from_reply(&Reply { routes: routes.clone(), ..reply() }).expect("an address");
        assert_eq!(lease.next_hop(IMDS), Some(NextHop::Via(Ipv4Addr::new(10, 0, 0, 9))));
        assert_eq!(lease.next_hop(Ipv4Addr::new(8, 8, 8, 8)), Some(NextHop::Via(Ipv4Addr::new(10, 0, 0, 7))));
        let only = Lease::from_reply(&Reply { routes: routes[1..].to_vec(), ..reply() }).expect("an address");
        assert_eq!(only.next_hop(Ipv4Addr::new(8, 8, 8, 8)), None, "the router is ignored");
    }

    #[test]
    fn unusable_addresses_are_rejected() {
        for address in [[0, 0, 0, 0], [255, 255, 255, 255], [224, 0, 0, 1], [127, 0, 0, 1]] {
            assert_eq!(Lease::from_reply(&Reply { address: address.into(), ..reply() }), None, "{address:?}");
        }
    }
}
