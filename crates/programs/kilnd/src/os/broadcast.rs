//! UDP broadcast on an interface without an address.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with};
use rustix::time::Timespec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::os::error::Error;

/// The default MTU.
const LARGEST: usize = 1500;

/// A UDP port on one interface without an address.
#[derive(Debug)]
pub struct Broadcast {
    sender: UdpSocket,
    /// The kernel delivers no UDP to an interface without an address, so packets are read from all interfaces and the caller filters them.
    packets: OwnedFd,
    to: u16,
}

impl Broadcast {
    /// Opens the port `from` on an interface, to broadcast to the port `to`. Needs root.
    pub fn open(link: &str, from: u16, to: u16) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::io("open a broadcast socket on", link, source);
        // Opened first, so that no response is missed.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let packets = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, Some(eth::IP));
        let packets = packets.map_err(|errno| failed(errno.into()))?;
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
        socket.set_broadcast(true).map_err(failed)?;
        // The network manager must be able to bind the same port.
        socket.set_reuse_address(true).map_err(failed)?;
        socket.bind_device(Some(link.as_bytes())).map_err(failed)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, from).into()).map_err(failed)?;
        Ok(Self { sender: socket.into(), packets, to })
    }

    /// Broadcasts a message.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        self.sender.send_to(message, (Ipv4Addr::BROADCAST, self.to)).map(drop)
    }

    /// The next packet of any interface, starting at its IPv4 header; none after the timeout.
    pub fn receive(&self, at_most: Duration) -> io::Result<Option<Vec<u8>>> {
        let limit = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut sockets = [PollFd::new(&self.packets, PollFlags::IN)];
        if poll(&mut sockets, Some(&limit))? == 0 {
            return Ok(None);
        }
        let mut buffer = vec![0; LARGEST];
        match recv(&self.packets, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                buffer.truncate(length);
                Ok(Some(buffer))
            }
            // An interface went down.
            Err(Errno::AGAIN | Errno::NETDOWN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
