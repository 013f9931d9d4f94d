//! Changes of the network: who cannot reach an address waits for one of them, not for a time to pass.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use rustix::time::Timespec;

use crate::os::error::Error;

/// Links, addresses and routes of both families: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR` and
/// `RTMGRP_IPV6_ROUTE` of `linux/rtnetlink.h`.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Listens to changes of the network from the moment it is opened, so that none between an attempt and the wait after it is missed.
#[derive(Debug)]
pub struct Changes {
    socket: OwnedFd,
}

impl Changes {
    /// Begins to listen.
    pub fn listen() -> Result<Self, Error> {
        let failed = |errno| Error::io("listen to", "rtnetlink", errno);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).map_err(failed)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS)).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Waits for a change, at most so long. Says whether there was one. Several that are there already count as one.
    pub fn wait(&self, at_most: Duration) -> Result<bool, Error> {
        let failed = |errno| Error::io("listen to", "rtnetlink", errno);
        let limit = Timespec::try_from(at_most).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let mut buffer = [0_u8; 8192];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return Ok(true),
                // More changes than the kernel keeps for us: a change all the same.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

/// Waits for a change from now on, at most so long. Who tries before it waits uses [`Changes`].
pub fn wait(at_most: Duration) -> Result<bool, Error> {
    Changes::listen()?.wait(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_change_the_wait_ends_by_itself() {
        let changes = Changes::listen().expect("a socket");
        // Others on this machine may change its network meanwhile: what was waiting is drained, and no answer is a failure.
        changes.wait(Duration::from_millis(1)).expect("waited");
        wait(Duration::from_millis(1)).expect("waited");
    }
}
