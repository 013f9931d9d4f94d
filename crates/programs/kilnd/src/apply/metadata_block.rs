//! The metadata service, closed to pods: by rules of the kernel's routing, which are gone when the machine restarts. A folder has none.

use std::net::Ipv4Addr;

use crate::os::{Error, Root, Table};

/// Where the platform's metadata service answers. Not where `--imds` says: pods ask this one.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Whether pods are kept from it.
pub fn is_blocked(root: &Root) -> Result<bool, Error> {
    if root.is_host() { Table::open()?.is_closed(ADDRESS) } else { Ok(false) }
}

/// Keeps pods from it, or no longer.
pub fn set_blocked(root: &Root, block: bool) -> Result<(), Error> {
    if !root.is_host() {
        return Ok(());
    }
    let table = Table::open()?;
    if block { table.close(ADDRESS) } else { table.open_again(ADDRESS) }
}
