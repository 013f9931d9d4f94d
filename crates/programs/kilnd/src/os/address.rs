//! An address and one way for it, put on a link and taken off again. What is put on ends by itself, also when nobody is left to take
//! it off.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::set_socket_timeout;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::os::error::Error;

/// The kernel answers at once; one that does not is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Numbers of `linux/rtnetlink.h`, `linux/if_addr.h`, `linux/netlink.h` and `linux/if.h`.
mod number {
    pub(super) const NEW_LINK: u16 = 16;
    pub(super) const NEW_ADDRESS: u16 = 20;
    pub(super) const DELETE_ADDRESS: u16 = 21;
    pub(super) const GET_ADDRESS: u16 = 22;
    pub(super) const NEW_ROUTE: u16 = 24;
    pub(super) const DELETE_ROUTE: u16 = 25;
    pub(super) const ERROR: u16 = 2;
    pub(super) const DONE: u16 = 3;

    pub(super) const REQUEST: u16 = 0x1;
    pub(super) const ACKNOWLEDGE: u16 = 0x4;
    pub(super) const DUMP: u16 = 0x300;
    pub(super) const EXCLUSIVE: u16 = 0x200;
    pub(super) const CREATE: u16 = 0x400;

    pub(super) const INET: u8 = 2;
    pub(super) const UP: u32 = 0x1;

    pub(super) const ADDRESS_ADDRESS: u16 = 1;
    pub(super) const ADDRESS_LOCAL: u16 = 2;
    pub(super) const ADDRESS_CACHE: u16 = 6;

    pub(super) const ROUTE_TO: u16 = 1;
    pub(super) const ROUTE_LINK: u16 = 4;
    pub(super) const ROUTE_VIA: u16 = 5;
    pub(super) const ROUTE_RANK: u16 = 6;
    pub(super) const ROUTE_FROM: u16 = 7;
    pub(super) const TABLE_MAIN: u8 = 254;
    pub(super) const SCOPE_UNIVERSE: u8 = 0;
    pub(super) const SCOPE_LINK: u8 = 253;
    pub(super) const UNICAST: u8 = 1;
    /// The neighbour is on the link, whatever the addresses say.
    pub(super) const ON_LINK: u32 = 4;
}

/// Who made a route, as the kernel keeps it. Nobody else's number: what is removed by it is ours.
const OURS: u8 = 107;
/// Behind every other route to the same one address, so that neither is in the other's way. Routes to more than that address come after
/// it, whatever their number: while ours is there, it is taken before a default route.
const LAST: u32 = 1 << 16;
/// How the kernel says that an address stays for good.
const FOREVER: u32 = u32::MAX;

/// The kernel's table of links, addresses and routes.
#[derive(Debug)]
pub struct Rtnetlink {
    socket: OwnedFd,
}

/// An address of a link, of the fourth version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub index: u32,
    pub address: Ipv4Addr,
    /// How many leading bits its network shares.
    pub prefix: u8,
    /// How long it is still there, where it is not for good.
    pub valid: Option<Duration>,
}

impl Address {
    /// Whether it is one that [`Rtnetlink::add_address`] puts on for so long: alone in its network, and soon gone. Others give an address a
    /// network, or a longer time.
    pub fn is_passing(&self, at_most: Duration) -> bool {
        self.prefix == 32 && self.valid.is_some_and(|valid| valid <= at_most)
    }

    /// Reads what the kernel says of one.
    fn parse(body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_at_checked(8)?;
        let (mut address, mut valid) = (None, None);
        for (kind, value) in attributes(rest) {
            match kind {
                number::ADDRESS_LOCAL => address = Some(Ipv4Addr::from(four(value, 0)?)),
                number::ADDRESS_CACHE => valid = Some(u32::from_ne_bytes(four(value, 4)?)),
                _ => {}
            }
        }
        let valid = valid.filter(|seconds| *seconds != FOREVER).map(|seconds| Duration::from_secs(seconds.into()));
        Some(Self { index: u32::from_ne_bytes(four(head, 4)?), address: address?, prefix: head[1], valid })
    }
}

fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

/// A way to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// Where to.
    pub to: Ipv4Addr,
    /// By whom; by nobody where it is on the link itself.
    pub via: Option<Ipv4Addr>,
    /// The address that the link has for it.
    pub from: Ipv4Addr,
}

impl HostRoute {
    fn body(&self, index: u32) -> Vec<u8> {
        let scope = if self.via.is_some() { number::SCOPE_UNIVERSE } else { number::SCOPE_LINK };
        let mut body = vec![number::INET, 32, 0, 0, number::TABLE_MAIN, OURS, scope, number::UNICAST];
        body.extend((if self.via.is_some() { number::ON_LINK } else { 0 }).to_ne_bytes());
        attribute(&mut body, number::ROUTE_TO, &self.to.octets());
        attribute(&mut body, number::ROUTE_LINK, &index.to_ne_bytes());
        attribute(&mut body, number::ROUTE_FROM, &self.from.octets());
        attribute(&mut body, number::ROUTE_RANK, &LAST.to_ne_bytes());
        if let Some(via) = self.via {
            attribute(&mut body, number::ROUTE_VIA, &via.octets());
        }
        body
    }
}

impl Rtnetlink {
    /// Opens it.
    pub fn open() -> Result<Self, Error> {
        let failed = |errno| Error::io("speak with", "rtnetlink", errno);
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).map_err(failed)?;
        set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE)).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Sets a link up. One that is up stays so.
    pub fn set_up(&self, index: u32) -> Result<(), Error> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend(number::UP.to_ne_bytes());
        body.extend(number::UP.to_ne_bytes());
        self.change("set up link", &index.to_string(), number::NEW_LINK, 0, &body)
    }

    /// All addresses of the fourth version, of all links.
    pub fn addresses(&self) -> Result<Vec<Address>, Error> {
        let mut found = Vec::new();
        let all = &[number::INET, 0, 0, 0, 0, 0, 0, 0];
        self.ask("list", "addresses", number::GET_ADDRESS, number::DUMP, all, |body| {
            found.extend(Address::parse(body));
        })?;
        Ok(found)
    }

    /// Puts an address on a link, alone in its network, for so long. It is an error when it is there already.
    pub fn add_address(&self, index: u32, address: Ipv4Addr, valid: Duration) -> Result<(), Error> {
        let mut body = address_of(index, address);
        let seconds = u32::try_from(valid.as_secs()).unwrap_or(u32::MAX).to_ne_bytes();
        attribute(&mut body, number::ADDRESS_CACHE, &[seconds, seconds, [0; 4], [0; 4]].concat());
        let flags = number::CREATE | number::EXCLUSIVE;
        self.change("add address", &address.to_string(), number::NEW_ADDRESS, flags, &body)
    }

    /// Takes off what [`Self::add_address`] put on, and with it every route that is for it. An address that others put on differs in
    /// its network and stays. Says whether it was there.
    pub fn remove_address(&self, index: u32, address: Ipv4Addr) -> Result<bool, Error> {
        let body = address_of(index, address);
        gone(self.change("remove address", &address.to_string(), number::DELETE_ADDRESS, 0, &body))
    }

    /// Leads to one address over a link, from an address of ours. It is an error when there is such a way already; it ends with the
    /// address.
    pub fn add_route(&self, index: u32, way: &HostRoute) -> Result<(), Error> {
        let flags = number::CREATE | number::EXCLUSIVE;
        self.change("add a way to", &way.to.to_string(), number::NEW_ROUTE, flags, &way.body(index))
    }

    /// Takes away what [`Self::add_route`] made, and nobody else's. Says whether it was there.
    pub fn remove_route(&self, index: u32, way: &HostRoute) -> Result<bool, Error> {
        gone(self.change("remove the way to", &way.to.to_string(), number::DELETE_ROUTE, 0, &way.body(index)))
    }

    pub(crate) fn change(
        &self,
        doing: &'static str,
        what: &str,
        kind: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<(), Error> {
        self.ask(doing, what, kind, flags | number::ACKNOWLEDGE, body, |_| ())
    }

    /// Sends one request and reads until its end is said.
    pub(crate) fn ask(
        &self,
        doing: &'static str,
        what: &str,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let failed = |errno: Errno| Error::io(doing, what, errno);
        let mut message = Vec::with_capacity(16 + body.len());
        message.extend(u32::try_from(16 + body.len()).unwrap_or(u32::MAX).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags | number::REQUEST).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        sendto(&self.socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).map_err(failed)?;
        let mut buffer = [0_u8; 16 << 10];
        loop {
            let (length, _) = match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                answer => answer.map_err(failed)?,
            };
            match answers(&buffer[..length], &mut each) {
                Some(0) => return Ok(()),
                Some(code) => return Err(failed(Errno::from_raw_os_error(code))),
                None => {}
            }
        }
    }
}

/// Whether something was there to be removed.
fn gone(removed: Result<(), Error>) -> Result<bool, Error> {
    match removed {
        Err(error) if [Errno::ADDRNOTAVAIL, Errno::NODEV, Errno::SRCH].map(Some).contains(&error.errno()) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Reads a packet of answers. How the request ended, where that is said: zero, or a number of an error.
fn answers(mut bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Option<i32> {
    while let Some(head) = bytes.get(..16) {
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let body = bytes.get(16..length)?;
        match kind {
            number::DONE => return Some(0),
            number::ERROR => {
                let code: [u8; 4] = body.get(..4)?.try_into().ok()?;
                return Some(i32::from_ne_bytes(code).saturating_neg());
            }
            _ => each(body),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn address_of(index: u32, address: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![number::INET, 32, 0, number::SCOPE_UNIVERSE];
    body.extend(index.to_ne_bytes());
    attribute(&mut body, number::ADDRESS_LOCAL, &address.octets());
    attribute(&mut body, number::ADDRESS_ADDRESS, &address.octets());
    body
}

/// Length, kind, value; the next begins at a multiple of four bytes.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(u16::try_from(4 + value.len()).unwrap_or(u16::MAX).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Kinds and values, up to the first whose length leads outside.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let start = rest.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([start[0], start[1]]));
        let kind = u16::from_ne_bytes([start[2], start[3]]);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(16 + body.len()).expect("short").to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_packet_says_each_thing_and_how_the_request_ended() {
        let mut said = Vec::new();
        let bytes = [message(20, &[1; 8]), message(20, &[2; 8]), message(number::DONE, &[0; 4])].concat();
        assert_eq!(answers(&bytes, &mut |body: &[u8]| said.push(body[0])), Some(0));
        assert_eq!(said, [1, 2]);
        assert_eq!(answers(&message(number::ERROR, &(-17_i32).to_ne_bytes()), &mut |_: &[u8]| ()), Some(17));
        assert_eq!(answers(&message(20, &[1; 8]), &mut |_: &[u8]| ()), None, "more follows");
    }

    fn said(prefix: u8, seconds: u32) -> Vec<u8> {
        let mut body = vec![number::INET, prefix, 0x80, 0, 7, 0, 0, 0];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        attribute(&mut body, number::ADDRESS_ADDRESS, &[10, 0, 0, 1]);
        attribute(&mut body, number::ADDRESS_LOCAL, &[10, 0, 0, 4]);
        body.extend([9, 0, 3, 0]);
        body.extend(b"eth0\0\0\0\0");
        attribute(&mut body, number::ADDRESS_CACHE, &[1, seconds, 3, 4].map(u32::to_ne_bytes).concat());
        body
    }

    #[test]
    fn an_address_is_read_with_its_network_and_its_time() {
        let read = |prefix, seconds| Address::parse(&said(prefix, seconds)).expect("an address");
        let minute = Duration::from_mins(1);
        let expected = Address { index: 7, address: [10, 0, 0, 4].into(), prefix: 24, valid: Some(minute) };
        assert_eq!(read(24, 60), expected);
        assert_eq!(read(32, FOREVER).valid, None);
        assert!(read(32, 60).is_passing(minute));
        for (prefix, seconds) in [(24, 60), (32, 61), (32, FOREVER)] {
            assert!(!read(prefix, seconds).is_passing(minute), "/{prefix} for {seconds} s is another's");
        }
        let whole = said(32, 60);
        for end in 0..whole.len() {
            let _ = Address::parse(&whole[..end]);
        }
        for length in [0, 3, 200] {
            let mut bytes = whole.clone();
            bytes[8] = length;
            assert_eq!(Address::parse(&bytes), None, "{length}");
        }
    }

    #[test]
    fn lengths_that_lead_outside_end_the_reading() {
        for length in [0_u32, 3, 15, 17, 4000, u32::MAX] {
            let mut bytes = message(20, &[1; 8]);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            let _ = answers(&bytes, &mut |_: &[u8]| ());
        }
    }
}
