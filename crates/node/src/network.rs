//! A network for the one question of a first boot. Whoever sets up the network for good starts late and starts much; a machine that has
//! its document at the metadata service would wait for all of it.
//!
//! So a machine without a route to that service asks for an address by itself, on the first link of its host that has its name, and puts
//! it on for two minutes, with one way to one service. When the boot is over, exactly that is taken off again; the link stays up, since
//! whoever comes next wants it so. Where this does not work, the network is waited for as it always was.

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use kiln_guest::Wait;
use kiln_guest::dhcp::{self, DhcpError, Ether, Hop};
use kiln_host::links::{self, Link};
use kiln_host::netlink::Changes;
use kiln_host::{Broadcast, Table, Way};

use crate::node::Node;
use crate::wait::Scaled;

/// Where udev writes down the devices that it is done with.
const KNOWN: &str = "/run/udev/data";
/// How often is looked whether udev is done with a link: it tells only those who have a bus.
const LOOK: Duration = Duration::from_millis(20);
/// How long a link may take until it carries anything. The host's own are there at once.
const CARRIER: Duration = Duration::from_secs(2);
/// How long servers of one link are asked. The host answers in milliseconds; whoever sets up the network for good asks longer, at the
/// same time.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long the address stays if nobody is left to take it off: as long as a boot takes that finds its document.
const VALID: Duration = Duration::from_mins(2);
/// The ports of DHCP.
const CLIENT: u16 = 68;
const SERVER: u16 = 67;

/// Why a link does not lead to the service.
#[derive(Debug, thiserror::Error)]
pub enum NotReached {
    /// The kernel says no.
    #[error(transparent)]
    Host(#[from] kiln_host::Error),
    /// There is no address to be had.
    #[error(transparent)]
    Dhcp(#[from] DhcpError),
    /// The link carries nothing.
    #[error("`{0}` carries nothing")]
    Carrier(String),
    /// An address alone does not help.
    #[error("{server} gives the address {address}, and no way to {target}")]
    NoWay {
        /// Who gave it.
        server: Ipv4Addr,
        /// The address.
        address: Ipv4Addr,
        /// The service.
        target: Ipv4Addr,
    },
}

/// Time for those who ask the metadata service, and a network for it where there is none.
pub struct Early<'a> {
    node: &'a Node,
    /// The service; nobody is to be reached without it.
    target: Option<Ipv4Addr>,
    number: u32,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Drivers were looked for.
    driven: bool,
    changes: Option<Changes>,
    tried: Vec<u32>,
    held: Option<Held>,
    /// Somebody else has a network there.
    over: bool,
}

/// What was put on a link. Taken off when it is dropped.
struct Held {
    table: Table,
    index: u32,
    way: Way,
}

impl Drop for Held {
    fn drop(&mut self) {
        // What cannot be taken off ends by itself.
        let _ = self.table.remove_way(self.index, &self.way);
        let _ = self.table.remove_address(self.index, self.way.from);
    }
}

impl<'a> Early<'a> {
    /// For a boot of this node. `chance` tells its questions from those of others.
    pub fn of(node: &'a Node, chance: u64) -> Self {
        let target = node.links.as_ref().and_then(|_| address_of(&node.endpoints.imds));
        let number = u32::try_from(chance & u64::from(u32::MAX)).unwrap_or_default();
        Self { node, target, number, state: RefCell::default() }
    }

    /// Loads drivers of links that have none. A machine whose files are elsewhere has no devices.
    fn drive(&self) {
        if !self.node.root.is_host() {
            return;
        }
        match kiln_host::drivers::load(Path::new("/")) {
            Ok(loaded) if loaded.is_empty() => self.node.journal.say("no driver of a link is to be loaded"),
            Ok(loaded) => self.node.journal.say(&format!("loaded {}", loaded.join(", "))),
            // udev loads them, later.
            Err(error) => self.node.journal.say(&format!("no driver was loaded: {error}")),
        }
    }

    /// Tries links that are ready and were not tried. Whether anything is different now.
    fn try_links(&self, state: &mut State, folder: &Path, target: Ipv4Addr) -> bool {
        for link in links::ready(folder, Path::new(KNOWN)) {
            if state.tried.contains(&link.index) {
                continue;
            }
            state.tried.push(link.index);
            let reached = self
                .node
                .journal
                .step(&format!("reach the metadata service over {}", link.name), || self.reach(&link, folder, target));
            // Why not is said by the step. Another link may be better, and the network comes up without us too.
            let Ok(held) = reached else { continue };
            let Some(held) = held else {
                state.over = true;
                return true;
            };
            let by = held.way.by.map(|by| format!(" by {by}")).unwrap_or_default();
            self.node.journal.say(&format!("{}: {} for now, and {target}{by}", link.name, held.way.from));
            state.held = Some(held);
            return true;
        }
        false
    }

    /// Puts an address and a way on a link; nothing where somebody else was there first.
    fn reach(&self, link: &Link, folder: &Path, target: Ipv4Addr) -> Result<Option<Held>, NotReached> {
        let table = Table::open()?;
        if table.has_address(link.index)? {
            return Ok(None);
        }
        table.set_up(link.index)?;
        let wait = self.node.wait;
        let carrier = folder.join(&link.name).join("carrier");
        let started = wait.now();
        while std::fs::read(&carrier).is_ok_and(|state| state.first() == Some(&b'0')) {
            if wait.now().saturating_sub(started) > CARRIER {
                return Err(NotReached::Carrier(link.name.clone()));
            }
            wait.sleep(LOOK);
        }
        let mut ether = Port { port: Broadcast::open(&link.name, CLIENT, SERVER)?, wait };
        let lease = dhcp::ask(&mut ether, link.hardware, self.number ^ link.index, PATIENCE, &wait)?;
        let hop =
            lease.way_to(target).ok_or(NotReached::NoWay { server: lease.server, address: lease.address, target })?;
        let by = match hop {
            Hop::Direct => None,
            Hop::By(by) => Some(by),
        };
        let way = Way { to: target, by, from: lease.address };
        table.add_address(link.index, lease.address, VALID)?;
        // From here on whatever fails takes it off again.
        let held = Held { table, index: link.index, way };
        held.table.add_way(link.index, &way)?;
        Ok(Some(held))
    }
}

impl Wait for Early<'_> {
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
        // What was put on and does not help is in the way of what will.
        state.held = None;
        let started = self.now();
        if !std::mem::replace(&mut state.driven, true) {
            self.drive();
        }
        loop {
            if !state.over && self.try_links(state, folder, target) {
                return;
            }
            let left = at_most.saturating_sub(self.now().saturating_sub(started));
            if left.is_zero() {
                return;
            }
            if state.changes.is_none() {
                state.changes = Changes::listen().ok();
            }
            let pause = if state.over { left } else { left.min(LOOK * self.node.wait.scale) };
            match state.changes.as_ref().map(|changes| changes.wait(pause / self.node.wait.scale)) {
                Some(Ok(false)) => {}
                Some(Ok(true)) => return,
                Some(Err(_)) | None => self.sleep(pause),
            }
        }
    }
}

/// A port as the exchange wants it.
struct Port {
    port: Broadcast,
    wait: Scaled,
}

impl Ether for Port {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.port.send(message)
    }

    fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>> {
        let packet = self.port.receive(at_most / self.wait.scale)?;
        Ok(packet.and_then(|packet| dhcp::payload(&packet).map(<[u8]>::to_vec)))
    }
}

/// The address in a URL; nothing where there is a name, or where it is this machine's own.
fn address_of(url: &str) -> Option<Ipv4Addr> {
    let host = url.strip_prefix("http://")?.split(['/', ':']).next()?;
    host.parse().ok().filter(|address: &Ipv4Addr| !address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_another_machine_is_reached_over_a_link() {
        assert_eq!(address_of("http://169.254.169.254"), Some(Ipv4Addr::new(169, 254, 169, 254)));
        assert_eq!(address_of("http://10.0.0.1:8080/prefix"), Some(Ipv4Addr::new(10, 0, 0, 1)));
        for other in ["http://127.0.0.1:1", "http://metadata.example", "https://10.0.0.1", ""] {
            assert_eq!(address_of(other), None, "{other}");
        }
    }
}
