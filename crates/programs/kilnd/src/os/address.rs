//! Temporary addresses and host routes on network interfaces, by rtnetlink. They expire even if kilnd is killed.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::set_socket_timeout;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::os::error::Error;

/// The kernel answers at once.
const TIMEOUT: Duration = Duration::from_secs(2);

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
    /// The gateway is on the link although no address covers it.
    pub(super) const ON_LINK: u32 = 4;
}

/// The route protocol number of kilnd: routes with it are ours.
const PROTOCOL: u8 = 107;
/// A metric after all other routes to the same address, so that they do not conflict. The host route is still preferred over a default route,
/// because it is more specific.
const METRIC: u32 = 1 << 16;
/// The lifetime of a permanent address.
const FOREVER: u32 = u32::MAX;

/// An rtnetlink socket.
#[derive(Debug)]
pub struct Rtnetlink {
    socket: OwnedFd,
}

/// An IPv4 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub index: u32,
    pub address: Ipv4Addr,
    pub prefix: u8,
    /// The remaining lifetime; none for a permanent address.
    pub valid: Option<Duration>,
}

impl Address {
    /// Whether [`Rtnetlink::add_address`] with this lifetime may have added it: a /32 that expires soon. Network managers use a prefix or a longer
    /// lifetime.
    pub fn is_temporary(&self, at_most: Duration) -> bool {
        self.prefix == 32 && self.valid.is_some_and(|valid| valid <= at_most)
    }

    /// Parses an `ifaddrmsg`.
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

/// A route to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoute {
    pub to: Ipv4Addr,
    /// The gateway; none if the target is on the link.
    pub via: Option<Ipv4Addr>,
    /// The source address.
    pub from: Ipv4Addr,
}

impl HostRoute {
    fn body(&self, index: u32) -> Vec<u8> {
        let scope = if self.via.is_some() { number::SCOPE_UNIVERSE } else { number::SCOPE_LINK };
        let mut body = vec![number::INET, 32, 0, 0, number::TABLE_MAIN, PROTOCOL, scope, number::UNICAST];
        body.extend((if self.via.is_some() { number::ON_LINK } else { 0 }).to_ne_bytes());
        attribute(&mut body, number::ROUTE_TO, &self.to.octets());
        attribute(&mut body, number::ROUTE_LINK, &index.to_ne_bytes());
        attribute(&mut body, number::ROUTE_FROM, &self.from.octets());
        attribute(&mut body, number::ROUTE_RANK, &METRIC.to_ne_bytes());
        if let Some(via) = self.via {
            attribute(&mut body, number::ROUTE_VIA, &via.octets());
        }
        body
    }
}

impl Rtnetlink {
    /// Opens a socket.
    pub fn open() -> Result<Self, Error> {
        let failed = |errno| Error::io("open", "rtnetlink", errno);
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).map_err(failed)?;
        set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(TIMEOUT)).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Sets an interface up.
    pub fn set_up(&self, index: u32) -> Result<(), Error> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend(number::UP.to_ne_bytes());
        body.extend(number::UP.to_ne_bytes());
        self.change("set up interface", &index.to_string(), number::NEW_LINK, 0, &body)
    }

    /// All IPv4 addresses of all interfaces.
    pub fn addresses(&self) -> Result<Vec<Address>, Error> {
        let mut found = Vec::new();
        let all = &[number::INET, 0, 0, 0, 0, 0, 0, 0];
        self.request("list", "addresses", number::GET_ADDRESS, number::DUMP, all, |body| {
            found.extend(Address::parse(body));
        })?;
        Ok(found)
    }

    /// Adds a /32 address with a lifetime. Fails if it exists already.
    pub fn add_address(&self, index: u32, address: Ipv4Addr, valid: Duration) -> Result<(), Error> {
        let mut body = address_of(index, address);
        let seconds = u32::try_from(valid.as_secs()).unwrap_or(u32::MAX).to_ne_bytes();
        attribute(&mut body, number::ADDRESS_CACHE, &[seconds, seconds, [0; 4], [0; 4]].concat());
        let flags = number::CREATE | number::EXCLUSIVE;
        self.change("add address", &address.to_string(), number::NEW_ADDRESS, flags, &body)
    }

    /// Removes an address of [`Self::add_address`], and with it the routes that use it. An address with another prefix stays. Returns whether it
    /// existed.
    pub fn remove_address(&self, index: u32, address: Ipv4Addr) -> Result<bool, Error> {
        let body = address_of(index, address);
        existed(self.change("remove address", &address.to_string(), number::DELETE_ADDRESS, 0, &body))
    }

    /// Adds a route. Fails if it exists already. It disappears with its source address.
    pub fn add_route(&self, index: u32, route: &HostRoute) -> Result<(), Error> {
        let flags = number::CREATE | number::EXCLUSIVE;
        self.change("add a route to", &route.to.to_string(), number::NEW_ROUTE, flags, &route.body(index))
    }

    /// Removes a route of [`Self::add_route`]. Returns whether it existed.
    pub fn remove_route(&self, index: u32, route: &HostRoute) -> Result<bool, Error> {
        existed(self.change("remove the route to", &route.to.to_string(), number::DELETE_ROUTE, 0, &route.body(index)))
    }

    pub(crate) fn change(
        &self,
        doing: &'static str,
        what: &str,
        kind: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<(), Error> {
        self.request(doing, what, kind, flags | number::ACKNOWLEDGE, body, |_| ())
    }

    /// Sends a request and reads its responses.
    pub(crate) fn request(
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
            match parse_responses(&buffer[..length], &mut each) {
                Some(0) => return Ok(()),
                Some(code) => return Err(failed(Errno::from_raw_os_error(code))),
                None => {}
            }
        }
    }
}

/// Turns "not found" into `false`.
fn existed(removed: Result<(), Error>) -> Result<bool, Error> {
    match removed {
        Err(error) if [Errno::ADDRNOTAVAIL, Errno::NODEV, Errno::SRCH].map(Some).contains(&error.errno()) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Parses a packet of responses. Returns the result of the request if the packet contains it: zero or an error number.
fn parse_responses(mut bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Option<i32> {
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

/// Appends an attribute: length, kind, value, padded to four bytes.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(u16::try_from(4 + value.len()).unwrap_or(u16::MAX).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Iterates over attributes, up to the first with an invalid length.
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
    fn responses_and_result_are_parsed() {
        let mut bodies = Vec::new();
        let bytes = [message(20, &[1; 8]), message(20, &[2; 8]), message(number::DONE, &[0; 4])].concat();
        assert_eq!(parse_responses(&bytes, &mut |body: &[u8]| bodies.push(body[0])), Some(0));
        assert_eq!(bodies, [1, 2]);
        assert_eq!(parse_responses(&message(number::ERROR, &(-17_i32).to_ne_bytes()), &mut |_: &[u8]| ()), Some(17));
        assert_eq!(parse_responses(&message(20, &[1; 8]), &mut |_: &[u8]| ()), None, "more follows");
    }

    fn address_message(prefix: u8, seconds: u32) -> Vec<u8> {
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
    fn address_is_parsed_with_prefix_and_lifetime() {
        let read = |prefix, seconds| Address::parse(&address_message(prefix, seconds)).expect("an address");
        let minute = Duration::from_mins(1);
        let expected = Address { index: 7, address: [10, 0, 0, 4].into(), prefix: 24, valid: Some(minute) };
        assert_eq!(read(24, 60), expected);
        assert_eq!(read(32, FOREVER).valid, None);
        assert!(read(32, 60).is_temporary(minute));
        for (prefix, seconds) in [(24, 60), (32, 61), (32, FOREVER)] {
            assert!(!read(prefix, seconds).is_temporary(minute), "/{prefix} for {seconds} s is not temporary");
        }
        let whole = address_message(32, 60);
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
    fn invalid_lengths_end_the_parsing() {
        for length in [0_u32, 3, 15, 17, 4000, u32::MAX] {
            let mut bytes = message(20, &[1; 8]);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            let _ = parse_responses(&bytes, &mut |_: &[u8]| ());
        }
    }
}
