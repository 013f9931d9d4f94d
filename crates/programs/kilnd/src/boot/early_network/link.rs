//! One link: an address and a way to the service, put on it and taken off again.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use crate::os::links::Link;
use crate::os::{Broadcast, Table, Way};
use crate::sources::Wait;
use crate::sources::dhcp::{self, DhcpError, Ether, Hop, Lease};

use crate::sources::Scaled;

/// How often is looked whether the link carries anything.
const LOOK: Duration = Duration::from_millis(20);
/// How long a link may take until it does. The host's own do at once.
const CARRIER: Duration = Duration::from_secs(2);
/// How long servers of one link are asked. The host answers in milliseconds; whoever sets up the network for good asks longer, at the
/// same time.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often is looked meanwhile whether somebody else has set up the network. Longer would be seen in the boot.
const GLANCE: Duration = Duration::from_millis(100);
/// How long the address stays if nobody is left to take it off: as long as a boot takes that finds its document.
const VALID: Duration = Duration::from_mins(2);
/// The ports of DHCP.
const CLIENT: u16 = 68;
const SERVER: u16 = 67;

/// Why a link does not lead to the service.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReached {
    /// The kernel says no.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
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
        address: Ipv4Addr,
        target: Ipv4Addr,
    },
}

/// What was put on a link. Taken off when it is dropped.
pub(super) struct Held {
    table: Table,
    pub(super) link: Link,
    pub(super) way: Way,
    /// How often in a row the service was not reached with it.
    pub(super) failures: u32,
}

impl Held {
    /// Whether the address is still there. It ends by itself, and others may take it off.
    pub(super) fn is_there(&self) -> bool {
        self.table.addresses().is_ok_and(|all| {
            all.iter().any(|one| one.index == self.link.index && one.address == self.way.from && one.prefix == 32)
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What cannot be taken off ends by itself.
        let _ = self.table.remove_way(self.link.index, &self.way);
        let Ok(all) = self.table.addresses() else { return };
        // Where the server gives no network, others have the very same address: it is theirs once they gave it a longer time.
        if all.iter().any(|one| one.address == self.way.from && is_ours(one, self.link.index)) {
            let _ = self.table.remove_address(self.link.index, self.way.from);
        }
    }
}

fn is_ours(address: &crate::os::Address, index: u32) -> bool {
    address.index == index && address.is_passing(VALID)
}

/// Whether somebody else has an address on one of these links: then the network is theirs to set up.
pub(super) fn is_taken(links: &[Link]) -> Result<bool, crate::os::Error> {
    let all = Table::open()?.addresses()?;
    Ok(all.iter().any(|one| links.iter().any(|link| link.index == one.index && !is_ours(one, link.index))))
}

/// Takes off what one that was killed left on these links, and with each address its way. Says which.
pub(super) fn take_off_leftovers(links: &[Link]) -> Result<Vec<Ipv4Addr>, crate::os::Error> {
    let table = Table::open()?;
    let mut all = table.addresses()?;
    all.retain(|one| links.iter().any(|link| is_ours(one, link.index)));
    for one in &all {
        table.remove_address(one.index, one.address)?;
    }
    Ok(all.into_iter().map(|one| one.address).collect())
}

/// How a link is tried.
pub(super) struct Attempt<'a> {
    /// Where the kernel describes links.
    pub(super) folder: &'a Path,
    /// All that are ready.
    pub(super) links: &'a [Link],
    pub(super) target: Ipv4Addr,
    /// Tells this machine's questions from those of others.
    pub(super) number: u32,
    pub(super) wait: Scaled,
}

impl Attempt<'_> {
    /// Puts an address and a way on a link; nothing where somebody else sets up the network first.
    pub(super) fn reach(&self, link: &Link) -> Result<Option<Held>, NotReached> {
        let table = Table::open()?;
        table.set_up(link.index)?;
        self.carries(link)?;
        let lease = match self.ask(link) {
            // A port ends with an error when it is.
            Ok(_) | Err(NotReached::Dhcp(DhcpError::Link(_))) if is_taken(self.links)? => return Ok(None),
            lease => lease?,
        };
        let no_way = NotReached::NoWay { server: lease.server, address: lease.address, target: self.target };
        let by = match lease.way_to(self.target).ok_or(no_way)? {
            Hop::Direct => None,
            Hop::By(by) => Some(by),
        };
        let way = Way { to: self.target, by, from: lease.address };
        table.add_address(link.index, lease.address, VALID)?;
        // From here on whatever fails takes it off again.
        let held = Held { table, link: link.clone(), way, failures: 0 };
        held.table.add_way(link.index, &way)?;
        Ok(Some(held))
    }

    fn carries(&self, link: &Link) -> Result<(), NotReached> {
        let carrier = self.folder.join(&link.name).join("carrier");
        let started = self.wait.now();
        while std::fs::read(&carrier).is_ok_and(|state| state.first() == Some(&b'0')) {
            if self.wait.now().saturating_sub(started) > CARRIER {
                return Err(NotReached::Carrier(link.name.clone()));
            }
            self.wait.sleep(LOOK);
        }
        Ok(())
    }

    fn ask(&self, link: &Link) -> Result<Lease, NotReached> {
        let broadcast = Broadcast::open(&link.name, CLIENT, SERVER)?;
        let mut ether = Port { broadcast, wait: self.wait, links: self.links };
        Ok(dhcp::ask(&mut ether, link.hardware, self.number ^ link.index, PATIENCE, &self.wait)?)
    }
}

/// A port as the exchange wants it, until the network is somebody else's.
struct Port<'a> {
    broadcast: Broadcast,
    wait: Scaled,
    links: &'a [Link],
}

impl Ether for Port<'_> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.broadcast.send(message)
    }

    fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>> {
        if is_taken(self.links).map_err(io::Error::other)? {
            return Err(io::Error::other("somebody else sets up the network"));
        }
        let packet = self.broadcast.receive(GLANCE.min(at_most / self.wait.scale))?;
        Ok(packet.and_then(|packet| dhcp::payload(&packet).map(<[u8]>::to_vec)))
    }
}
