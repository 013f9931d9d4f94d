//! The early network: an address and a route for the requests of a first boot, before the image's own network is up.
//!
//! The network manager of an image (systemd-networkd, NetworkManager, cloud-init) starts late and pulls in many other units. A machine whose
//! document is in the metadata service would have to wait for all of them before its kubelet can start. So without a route to the
//! metadata service, kilnd gets an address by DHCP itself, on the first interface of the host that udev has finished naming, and
//! configures it as a /32 with a lifetime of two minutes and a single host route to the service. Nothing else on the machine can use
//! that address for anything else, and the network manager is not disturbed: as soon as it configures an address, kilnd stops. At the
//! end of the boot exactly this address and route are removed; the interface stays up. If kilnd is killed, the address expires. If
//! the early network does not work, kilnd waits for the regular network.

mod link;

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::node::Node;
use crate::os::links::{self, Link};
use crate::os::netlink::Changes;
use crate::sources::Wait;
use link::{Attempt, TemporaryRoute, is_taken, remove_leftovers};

/// udev's database of devices that it has processed.
const UDEV_DATA: &str = "/run/udev/data";
/// Poll interval while waiting for udev, which notifies only D-Bus clients.
const POLL: Duration = Duration::from_millis(20);
/// Poll interval after [`SOON`].
const SLOW_POLL: Duration = Duration::from_millis(200);
/// Interfaces that exist appear within this time: loading drivers and udev take about a second.
const SOON: Duration = Duration::from_secs(2);
/// Pause before an interface is tried again: a DHCP server or a service that restarts takes longer than one attempt.
const RETRY: Duration = Duration::from_secs(10);
/// Timeout of the connection that checks whether the service is reachable. It normally takes a millisecond.
const CONNECT: Duration = Duration::from_secs(1);
/// Consecutive failures after which the route is removed: a packet may be lost, and the service may restart.
const FAILURES: u32 = 3;

/// A [`Wait`] that configures the early network when a request to the metadata service has no route.
pub struct EarlyNetwork<'a> {
    node: &'a Node,
    /// The metadata service; none to disable the early network.
    target: Option<SocketAddrV4>,
    transaction: u32,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// When a route was first missing.
    since: Option<Duration>,
    changes: Option<Changes>,
    /// Interfaces, and when each was tried last.
    tried: Vec<(u32, Duration)>,
    route: Option<TemporaryRoute>,
}

impl<'a> EarlyNetwork<'a> {
    /// The early network of a boot. `seed` distinguishes this machine's DHCP exchange from others.
    pub fn new(node: &'a Node, seed: u64) -> Self {
        let target = node.links.as_ref().and_then(|_| address_of(&node.endpoints.imds));
        let transaction = u32::try_from(seed & u64::from(u32::MAX)).unwrap_or_default();
        Self { node, target, transaction, state: RefCell::default() }
    }

    /// Loads missing drivers of network interfaces.
    fn load_drivers(&self) {
        if !self.node.root.is_host() {
            return;
        }
        match crate::os::drivers::load(Path::new("/")) {
            Ok(loaded) if loaded.is_empty() => self.node.log.info("all network drivers are loaded"),
            Ok(loaded) => self.node.log.info(&format!("loaded {}", loaded.join(", "))),
            // udev loads them later.
            Err(error) => self.node.log.info(&format!("cannot load network drivers: {error}")),
        }
    }

    /// Whether the temporary route stays: while the service accepts connections, and for a few failures. The caller does not report why its
    /// request failed, and an error response also means that the service is reachable.
    fn keeps_route(&self, state: &mut State, target: SocketAddrV4) -> bool {
        let Some(route) = &mut state.route else { return false };
        if !route.is_present() {
            // The address has expired: try this interface again at once.
            let index = route.link.index;
            state.tried.retain(|(tried, _)| *tried != index);
            state.route = None;
            return false;
        }
        if TcpStream::connect_timeout(&target.into(), CONNECT).is_ok() {
            route.failures = 0;
            return true;
        }
        route.failures += 1;
        if route.failures < FAILURES && !is_taken(std::slice::from_ref(&route.link)).unwrap_or_default() {
            return true;
        }
        self.node.log.info(&format!("{}: {} is not reachable from {}", route.link.name, target.ip(), route.route.from));
        state.route = None;
        false
    }

    /// Tries interfaces that are ready and were not tried recently. Returns whether the network changed.
    fn try_links(&self, state: &mut State, folder: &Path, links: &[Link], target: Ipv4Addr) -> bool {
        let now = self.now();
        state.tried.retain(|(_, at)| now.saturating_sub(*at) < RETRY);
        let attempt = Attempt { folder, links, target, transaction: self.transaction, wait: self.node.wait };
        for link in links {
            if state.tried.iter().any(|(tried, _)| *tried == link.index) {
                continue;
            }
            let reached =
                self.node.log.step(&format!("reach the metadata service over {}", link.name), || attempt.reach(link));
            state.tried.push((link.index, self.now()));
            // The step logs the error. Another interface may work, and the regular network may come up.
            let Ok(route) = reached else { continue };
            if let Some(route) = &route {
                let via = route.route.via.map(|via| format!(" via {via}")).unwrap_or_default();
                self.node
                    .log
                    .info(&format!("{}: temporary address {}, route to {target}{via}", link.name, route.route.from));
            }
            state.route = route;
            return true;
        }
        false
    }

    /// Whether the network manager has configured one of the interfaces. Leftovers of a killed kilnd are removed first.
    fn is_taken(&self, links: &[Link]) -> bool {
        match remove_leftovers(links).and_then(|left| Ok((left, is_taken(links)?))) {
            Ok((left, taken)) => {
                for address in left {
                    self.node.log.info(&format!("removed the leftover address {address}"));
                }
                taken
            }
            // If the addresses cannot be read, change nothing.
            Err(_) => true,
        }
    }

    /// Waits for a change of the network. Returns whether there was one.
    fn wait_for_change(&self, state: &mut State, at_most: Duration) -> bool {
        if state.changes.is_none() {
            state.changes = Changes::listen().ok();
        }
        let listened = state.changes.as_ref().map(|changes| changes.wait(at_most / self.node.wait.scale));
        if let Some(Ok(changed)) = listened {
            return changed;
        }
        // Without rtnetlink, only wait.
        self.sleep(at_most);
        false
    }
}

impl Wait for EarlyNetwork<'_> {
    fn now(&self) -> Duration {
        self.node.wait.now()
    }

    fn sleep(&self, time: Duration) {
        self.node.wait.sleep(time);
    }

    fn network(&self, at_most: Duration) {
        let state = &mut *self.state.borrow_mut();
        let (Some(target), Some(folder)) = (self.target, &self.node.links) else {
            return self.node.wait.network(at_most);
        };
        let started = self.now();
        let left = || at_most.saturating_sub(self.now().saturating_sub(started));
        if state.since.is_none() {
            self.load_drivers();
        }
        let since = *state.since.get_or_insert(started);
        if self.keeps_route(state, target) {
            self.wait_for_change(state, left());
            return;
        }
        loop {
            let links = links::ready(folder, Path::new(UDEV_DATA));
            let is_taken = self.is_taken(&links);
            if !is_taken && self.try_links(state, folder, &links, *target.ip()) {
                return;
            }
            let left = left();
            if left.is_zero() {
                return;
            }
            let poll = if self.now().saturating_sub(since) < SOON { POLL } else { SLOW_POLL };
            let pause = if is_taken { left } else { left.min(poll * self.node.wait.scale) };
            if self.wait_for_change(state, pause) {
                return;
            }
        }
    }
}

/// The address and port in a URL; none for host names and loopback addresses.
fn address_of(url: &str) -> Option<SocketAddrV4> {
    let host = url.strip_prefix("http://")?.split('/').next()?;
    let (address, port) = host.split_once(':').unwrap_or((host, "80"));
    let address: Ipv4Addr = address.parse().ok()?;
    (!address.is_loopback()).then_some(SocketAddrV4::new(address, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_other_machines_need_a_route() {
        let found = |url| address_of(url).expect("an address").to_string();
        assert_eq!(found("http://169.254.169.254"), "169.254.169.254:80");
        assert_eq!(found("http://10.0.0.1:8080/prefix"), "10.0.0.1:8080");
        for other in ["http://127.0.0.1:1", "http://metadata.example", "https://10.0.0.1", "http://10.0.0.1:x", ""] {
            assert_eq!(address_of(other), None, "{other}");
        }
    }
}
