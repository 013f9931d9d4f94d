//! Messages to and from everybody on one link, for a machine that has no address there.

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

/// The largest that a link carries without being told to carry more.
const LARGEST: usize = 1500;

/// A port of one link, without an address.
#[derive(Debug)]
pub struct Broadcast {
    sender: UdpSocket,
    /// The kernel itself gives a machine without an address nothing, so packets are read as they come from the links: of all of them,
    /// and it is for the reader to know its own.
    packets: OwnedFd,
    to: u16,
}

impl Broadcast {
    /// Opens a port of a link, to send to another of everybody there. Takes the rights to use packets and ports as they are.
    pub fn open(link: &str, from: u16, to: u16) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::io("speak to everybody on", link, source);
        // Before anything is asked, or the answer may be missed.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let packets = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, Some(eth::IP));
        let packets = packets.map_err(|errno| failed(errno.into()))?;
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
        socket.set_broadcast(true).map_err(failed)?;
        // Whoever sets up the network for good listens there too, and must not be kept from it.
        socket.set_reuse_address(true).map_err(failed)?;
        socket.bind_device(Some(link.as_bytes())).map_err(failed)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, from).into()).map_err(failed)?;
        Ok(Self { sender: socket.into(), packets, to })
    }

    /// Sends to everybody.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        self.sender.send_to(message, (Ipv4Addr::BROADCAST, self.to)).map(drop)
    }

    /// The next packet of any link, from its IPv4 head on; nothing when the time is over.
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
            // A link that goes down says so once, to everybody who listens.
            Err(Errno::AGAIN | Errno::NETDOWN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
