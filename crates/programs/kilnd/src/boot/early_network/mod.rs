//! A network for the one question of a first boot. Whoever sets up the network for good starts late and starts much; a machine that has
//! its document at the metadata service would wait for all of it.
//!
//! So a machine without a route to that service asks for an address by itself, on the first link of its host that has its name, and puts
//! it on for two minutes, with one way to one service. When the boot is over, exactly that is taken off again; the link stays up, since
//! whoever comes next wants it so. Where this does not work, the network is waited for as it always was.

mod link;

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::os::links::{self, Link};
use crate::os::netlink::Changes;
use crate::sources::Wait;

use crate::node::Node;
use link::{Attempt, Held, is_taken, take_off_leftovers};

/// Where udev writes down the devices that it is done with.
const KNOWN: &str = "/run/udev/data";
/// How often is looked whether udev is done with a link: it tells only those who have a bus.
const LOOK: Duration = Duration::from_millis(20);
/// How often after [`SOON`]: a link that is not there by then is not what the boot waits for.
const LOOK_LATER: Duration = Duration::from_millis(200);
/// How long links take that come at all: drivers are loaded and udev is done with them in a second.
const SOON: Duration = Duration::from_secs(2);
/// How long a link that did not help is left alone. A server that starts, or a service that restarts, takes longer than one attempt.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a connection may take with which is looked whether the service is there. The host's own takes a millisecond.
const CONNECT: Duration = Duration::from_secs(1);
/// How often in a row there may be none until what was put on is taken off: one may be lost, and the service may restart.
const FAILURES: u32 = 3;

/// Time for those who ask the metadata service, and a network for it where there is none.
pub struct Early<'a> {
    node: &'a Node,
    /// The service; nobody is to be reached without it.
    target: Option<SocketAddrV4>,
    number: u32,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// When a network was first missed.
    since: Option<Duration>,
    changes: Option<Changes>,
    /// Links, and when each was tried last.
    tried: Vec<(u32, Duration)>,
    held: Option<Held>,
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
        match crate::os::drivers::load(Path::new("/")) {
            Ok(loaded) if loaded.is_empty() => self.node.journal.say("no driver of a link is to be loaded"),
            Ok(loaded) => self.node.journal.say(&format!("loaded {}", loaded.join(", "))),
            // udev loads them, later.
            Err(error) => self.node.journal.say(&format!("no driver was loaded: {error}")),
        }
    }

    /// Whether what was put on stays: as long as it leads to the service, and else for a few attempts.
    ///
    /// Who calls does not say why. A service that answers in another way than was hoped for is reached all the same.
    fn keeps(&self, state: &mut State, target: SocketAddrV4) -> bool {
        let Some(held) = &mut state.held else { return false };
        if !held.is_there() {
            // Its time is over: this link again, at once.
            let index = held.link.index;
            state.tried.retain(|(tried, _)| *tried != index);
            state.held = None;
            return false;
        }
        if TcpStream::connect_timeout(&target.into(), CONNECT).is_ok() {
            held.failures = 0;
            return true;
        }
        held.failures += 1;
        if held.failures < FAILURES && !is_taken(std::slice::from_ref(&held.link)).unwrap_or_default() {
            return true;
        }
        self.node.journal.say(&format!("{}: {} does not lead to {}", held.link.name, held.way.from, target.ip()));
        state.held = None;
        false
    }

    /// Tries links that are ready and were not tried for a while. Whether anything is different now.
    fn try_links(&self, state: &mut State, folder: &Path, links: &[Link], target: Ipv4Addr) -> bool {
        let now = self.now();
        state.tried.retain(|(_, at)| now.saturating_sub(*at) < AGAIN);
        let attempt = Attempt { folder, links, target, number: self.number, wait: self.node.wait };
        for link in links {
            if state.tried.iter().any(|(tried, _)| *tried == link.index) {
                continue;
            }
            let reached = self
                .node
                .journal
                .step(&format!("reach the metadata service over {}", link.name), || attempt.reach(link));
            state.tried.push((link.index, self.now()));
            // Why not is said by the step. Another link may be better, and the network comes up without us too.
            let Ok(held) = reached else { continue };
            if let Some(held) = &held {
                let by = held.way.by.map(|by| format!(" by {by}")).unwrap_or_default();
                self.node.journal.say(&format!("{}: {} for now, and {target}{by}", link.name, held.way.from));
            }
            state.held = held;
            return true;
        }
        false
    }

    /// Whether the links are somebody else's to set up. What one that was killed left on them is nobody's.
    fn is_taken(&self, links: &[Link]) -> bool {
        match take_off_leftovers(links).and_then(|left| Ok((left, is_taken(links)?))) {
            Ok((left, taken)) => {
                for address in left {
                    self.node.journal.say(&format!("{address} was left over"));
                }
                taken
            }
            // Who cannot even look changes nothing.
            Err(_) => true,
        }
    }

    /// Waits for a change of the network. Says whether there was one.
    fn change(&self, state: &mut State, at_most: Duration) -> bool {
        if state.changes.is_none() {
            state.changes = Changes::listen().ok();
        }
        let listened = state.changes.as_ref().map(|changes| changes.wait(at_most / self.node.wait.scale));
        if let Some(Ok(changed)) = listened {
            return changed;
        }
        // Where nothing can be listened to, the time is all that is left.
        self.sleep(at_most);
        false
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
        let started = self.now();
        let left = || at_most.saturating_sub(self.now().saturating_sub(started));
        if state.since.is_none() {
            self.drive();
        }
        let since = *state.since.get_or_insert(started);
        if self.keeps(state, target) {
            self.change(state, left());
            return;
        }
        loop {
            let links = links::ready(folder, Path::new(KNOWN));
            let is_taken = self.is_taken(&links);
            if !is_taken && self.try_links(state, folder, &links, *target.ip()) {
                return;
            }
            let left = left();
            if left.is_zero() {
                return;
            }
            let look = if self.now().saturating_sub(since) < SOON { LOOK } else { LOOK_LATER };
            let pause = if is_taken { left } else { left.min(look * self.node.wait.scale) };
            if self.change(state, pause) {
                return;
            }
        }
    }
}

/// The address and the port in a URL; nothing where there is a name, or where it is this machine's own.
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
    fn only_an_address_of_another_machine_is_reached_over_a_link() {
        let found = |url| address_of(url).expect("an address").to_string();
        assert_eq!(found("http://169.254.169.254"), "169.254.169.254:80");
        assert_eq!(found("http://10.0.0.1:8080/prefix"), "10.0.0.1:8080");
        for other in ["http://127.0.0.1:1", "http://metadata.example", "https://10.0.0.1", "http://10.0.0.1:x", ""] {
            assert_eq!(address_of(other), None, "{other}");
        }
    }
}
