//! Ports of a control plane, chosen once: a restarted server keeps its port.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use crate::Error;

/// Below the range of ephemeral ports (32768 to 60999): otherwise a client connection could take the port of a server that is down for a
/// moment.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// The ports of one control plane, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
}

impl Ports {
    /// Three free ports that no other control plane uses.
    pub(crate) fn choose(taken: &BTreeSet<u16>) -> Result<Self, Error> {
        let mut taken = taken.clone();
        let mut next = || {
            let port = free(&taken)?;
            taken.insert(port);
            Ok::<_, Error>(port)
        };
        Ok(Self { etcd: next()?, etcd_peer: next()?, api_server: next()? })
    }

    pub(crate) fn all(self) -> [u16; 3] {
        [self.etcd, self.etcd_peer, self.api_server]
    }
}

fn free(taken: &BTreeSet<u16>) -> Result<u16, Error> {
    let length = RANGE.end - RANGE.start;
    let draw = RandomState::new().hash_one(taken.len()) % u64::from(length);
    let first = u16::try_from(draw).unwrap_or_default();
    let used = used();
    (0..length)
        .map(|step| RANGE.start + (first + step) % length)
        .find(|port| !taken.contains(port) && !used.contains(port))
        .ok_or(Error::NoPort { from: RANGE.start, to: RANGE.end - 1 })
}

/// The local ports of all TCP sockets. Binding a port to test it would take it from a server that starts at that moment.
fn used() -> BTreeSet<u16> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(local_port).collect()
}

/// The local port in a line of the kernel's table: `sl: ADDRESS:PORT ...`, in hexadecimal digits.
fn local_port(line: &str) -> Option<u16> {
    let (_, port) = line.split_whitespace().nth(1)?.split_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn local_port_is_the_second_column() {
        let line = "   0: 0100007F:6802 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0";
        assert_eq!(local_port(line), Some(0x6802));
        assert_eq!(local_port("  1: 00000000000000000000000001000000:01BB 0:0 0A"), Some(443));
        assert_eq!(local_port(""), None);
    }

    #[test]
    fn used_ports_are_not_chosen() {
        let (listener, used) = RANGE
            .clone()
            .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|listener| (listener, port)))
            .unwrap();
        // All but the used one and four more: three of those four must be chosen.
        let mut taken: BTreeSet<u16> = RANGE.collect();
        let in_use = super::used();
        assert!(in_use.contains(&used), "a listening port is in the kernel's table");
        let free: Vec<u16> = (used + 1..RANGE.end).filter(|port| !in_use.contains(port)).take(4).collect();
        taken.remove(&used);
        taken.retain(|port| !free.contains(port));

        let ports = Ports::choose(&taken).unwrap().all();
        assert!(ports.iter().all(|port| free.contains(port)), "{ports:?} of {free:?}");
        assert_eq!(BTreeSet::from(ports).len(), 3);
        drop(listener);
        let full: BTreeSet<u16> = RANGE.collect();
        assert!(matches!(Ports::choose(&full), Err(Error::NoPort { .. })));
    }
}
