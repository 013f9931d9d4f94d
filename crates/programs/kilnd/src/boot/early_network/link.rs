//! The temporary address and route on one network interface.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use crate::os::links::Link;
use crate::os::{Broadcast, HostRoute, Rtnetlink};
use crate::sources::dhcp::{self, DhcpError, Lease, NextHop, Transport};
use crate::sources::{Scaled, Wait};

/// Poll interval while waiting for a carrier.
const CARRIER_POLL: Duration = Duration::from_millis(20);
/// How long to wait for a carrier. Virtual interfaces of the host have one at once.
const CARRIER: Duration = Duration::from_secs(2);
/// How long to try DHCP on one interface. The host answers within milliseconds. The image's own network manager tries longer, in parallel.
const DHCP_TIMEOUT: Duration = Duration::from_secs(4);
/// How often to check meanwhile whether the network manager has configured the interface. A longer interval would delay the boot.
const TAKEN_POLL: Duration = Duration::from_millis(100);
/// The lifetime of the address if kilnd is killed and cannot remove it: longer than a boot takes to find its document.
const VALID: Duration = Duration::from_mins(2);
const DHCP_CLIENT: u16 = 68;
const DHCP_SERVER: u16 = 67;

/// Why the service cannot be reached over an interface.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Os(#[from] crate::os::Error),
    #[error(transparent)]
    Dhcp(#[from] DhcpError),
    #[error("`{0}` has no carrier")]
    NoCarrier(String),
    #[error("the DHCP server {server} offers the address {address} but no route to {target}")]
    NoRoute { server: Ipv4Addr, address: Ipv4Addr, target: Ipv4Addr },
}

/// A temporary address and route. Both are removed on drop, and the lease is released.
pub(super) struct TemporaryRoute {
    netlink: Rtnetlink,
    pub(super) link: Link,
    pub(super) route: HostRoute,
    /// Consecutive failures to connect to the service.
    pub(super) failures: u32,
    /// The message that releases the lease.
    release: Vec<u8>,
}

impl TemporaryRoute {
    /// Whether the address still exists. It expires, and others may remove it.
    pub(super) fn is_present(&self) -> bool {
        self.netlink.addresses().is_ok_and(|all| {
            all.iter().any(|one| one.index == self.link.index && one.address == self.route.from && one.prefix == 32)
        })
    }
}

impl Drop for TemporaryRoute {
    fn drop(&mut self) {
        // If removing fails, the address expires, and the route with it.
        let _ = self.netlink.remove_route(self.link.index, &self.route);
        let Ok(all) = self.netlink.addresses() else { return };
        // If the server assigns a /32, the network manager configures the same address. It is theirs once its lifetime is longer.
        if all.iter().any(|one| one.address == self.route.from && is_ours(one, self.link.index)) {
            // Sent while the address exists, because it is the sender. If it is lost, the lease expires.
            if let Ok(broadcast) = Broadcast::open(&self.link.name, DHCP_CLIENT, DHCP_SERVER) {
                let _ = broadcast.send(&self.release);
            }
            let _ = self.netlink.remove_address(self.link.index, self.route.from);
        }
    }
}

fn is_ours(address: &crate::os::Address, index: u32) -> bool {
    address.index == index && address.is_temporary(VALID)
}

/// Whether the network manager has configured an address on one of these interfaces. kilnd leaves the network alone then.
pub(super) fn is_taken(links: &[Link]) -> Result<bool, crate::os::Error> {
    let all = Rtnetlink::open()?.addresses()?;
    Ok(all.iter().any(|one| links.iter().any(|link| link.index == one.index && !is_ours(one, link.index))))
}

/// Removes addresses that a killed kilnd left on these interfaces, and with them their routes. Returns the addresses.
pub(super) fn remove_leftovers(links: &[Link]) -> Result<Vec<Ipv4Addr>, crate::os::Error> {
    let netlink = Rtnetlink::open()?;
    let mut all = netlink.addresses()?;
    all.retain(|one| links.iter().any(|link| is_ours(one, link.index)));
    for one in &all {
        netlink.remove_address(one.index, one.address)?;
    }
    Ok(all.into_iter().map(|one| one.address).collect())
}

/// An attempt to reach the service.
pub(super) struct Attempt<'a> {
    /// `/sys/class/net`.
    pub(super) folder: &'a Path,
    /// All interfaces that are ready.
    pub(super) links: &'a [Link],
    pub(super) target: Ipv4Addr,
    /// Distinguishes this machine's DHCP exchange from others.
    pub(super) transaction: u32,
    pub(super) wait: Scaled,
}

impl Attempt<'_> {
    /// Configures an address and a route on an interface. Returns nothing if the network manager was faster.
    pub(super) fn reach(&self, link: &Link) -> Result<Option<TemporaryRoute>, LinkError> {
        let netlink = Rtnetlink::open()?;
        netlink.set_up(link.index)?;
        self.wait_for_carrier(link)?;
        let lease = match self.get_lease(link) {
            // The transport fails as soon as the network manager has configured an address.
            Ok(_) | Err(LinkError::Dhcp(DhcpError::Link(_))) if is_taken(self.links)? => return Ok(None),
            lease => lease?,
        };
        let no_route = LinkError::NoRoute { server: lease.server, address: lease.address, target: self.target };
        let via = match lease.next_hop(self.target).ok_or(no_route)? {
            NextHop::Direct => None,
            NextHop::Via(via) => Some(via),
        };
        let route = HostRoute { to: self.target, via, from: lease.address };
        netlink.add_address(link.index, lease.address, VALID)?;
        // From here on dropping it removes the address.
        let release = lease.release(link.hardware, self.transaction ^ link.index);
        let temporary = TemporaryRoute { netlink, link: link.clone(), route, failures: 0, release };
        temporary.netlink.add_route(link.index, &route)?;
        Ok(Some(temporary))
    }

    fn wait_for_carrier(&self, link: &Link) -> Result<(), LinkError> {
        let carrier = self.folder.join(&link.name).join("carrier");
        let started = self.wait.now();
        while std::fs::read(&carrier).is_ok_and(|state| state.first() == Some(&b'0')) {
            if self.wait.now().saturating_sub(started) > CARRIER {
                return Err(LinkError::NoCarrier(link.name.clone()));
            }
            self.wait.sleep(CARRIER_POLL);
        }
        Ok(())
    }

    fn get_lease(&self, link: &Link) -> Result<Lease, LinkError> {
        let broadcast = Broadcast::open(&link.name, DHCP_CLIENT, DHCP_SERVER)?;
        let mut transport = Port { broadcast, wait: self.wait, links: self.links };
        Ok(dhcp::get_lease(&mut transport, link.hardware, self.transaction ^ link.index, DHCP_TIMEOUT, &self.wait)?)
    }
}

/// A DHCP transport that fails as soon as the network manager has configured an address.
struct Port<'a> {
    broadcast: Broadcast,
    wait: Scaled,
    links: &'a [Link],
}

impl Transport for Port<'_> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.broadcast.send(message)
    }

    fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>> {
        if is_taken(self.links).map_err(io::Error::other)? {
            return Err(io::Error::other("the network manager has configured the interface"));
        }
        let packet = self.broadcast.receive(TAKEN_POLL.min(at_most / self.wait.scale))?;
        Ok(packet.and_then(|packet| dhcp::payload(&packet).map(<[u8]>::to_vec)))
    }
}
