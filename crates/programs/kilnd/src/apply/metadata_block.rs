//! Blocks pods from the metadata service with routing rules, which do not survive a reboot. Does nothing for `--root`.

use std::net::Ipv4Addr;

use crate::os::{Error, Root, Rtnetlink};

/// The address that pods use. `--imds` does not change it.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Whether pods are blocked.
pub fn is_blocked(root: &Root) -> Result<bool, Error> {
    if root.is_host() { Rtnetlink::open()?.is_blocked(ADDRESS) } else { Ok(false) }
}

/// Blocks or unblocks pods.
pub fn set_blocked(root: &Root, block: bool) -> Result<(), Error> {
    if !root.is_host() {
        return Ok(());
    }
    let netlink = Rtnetlink::open()?;
    if block { netlink.block(ADDRESS) } else { netlink.unblock(ADDRESS) }
}
