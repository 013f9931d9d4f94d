//! Notifications about changes of interfaces, addresses and routes.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use rustix::time::Timespec;

use crate::os::error::Error;

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR` and
/// `RTMGRP_IPV6_ROUTE` of `linux/rtnetlink.h`.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// A listener. It receives all changes since it was opened, so that none between an attempt and the wait after it is missed.
#[derive(Debug)]
pub struct Changes {
    socket: OwnedFd,
}

impl Changes {
    /// Starts listening.
    pub fn listen() -> Result<Self, Error> {
        let failed = |errno| Error::io("listen to", "rtnetlink", errno);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).map_err(failed)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS)).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Waits for a change and returns whether there was one. Pending changes count as one.
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
                // The socket buffer overflowed, so there were changes.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

/// Waits for a change from now on. Use [`Changes`] to include earlier changes.
pub fn wait(at_most: Duration) -> Result<bool, Error> {
    Changes::listen()?.wait(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_after_the_timeout() {
        let changes = Changes::listen().expect("a socket");
        // Other processes may change the network meanwhile, so both results are valid.
        changes.wait(Duration::from_millis(1)).expect("waited");
        wait(Duration::from_millis(1)).expect("waited");
    }
}
