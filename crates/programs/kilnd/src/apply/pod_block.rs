//! Blocks pods from services of the cloud with routing rules, which do not survive a reboot. Does nothing for `--root`.

use std::net::Ipv4Addr;

use kiln_node_plan::CloudService;

use crate::os::{Block, Error, Root, Rtnetlink, nat64};

/// The address that pods use. `--imds` does not change it.
const METADATA_SERVICE: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Also a DNS server, at port 53.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// The wire server itself, and the host's plugin for extensions (`HostGAPlugin`).
const WIRE_SERVER_PORTS: [u16; 2] = [80, 32526];

fn blocks(service: CloudService) -> [Block; 2] {
    match service {
        CloudService::MetadataService => [METADATA_SERVICE.into(), nat64(METADATA_SERVICE).into()].map(Block::address),
        CloudService::WireServer => {
            [WIRE_SERVER.into(), nat64(WIRE_SERVER).into()].map(|to| Block::tcp_ports(to, &WIRE_SERVER_PORTS))
        }
    }
}

/// Whether pods are blocked from a service.
pub fn is_blocked(root: &Root, service: CloudService) -> Result<bool, Error> {
    if !root.is_host() {
        return Ok(false);
    }
    let netlink = Rtnetlink::open()?;
    for block in blocks(service) {
        if !netlink.is_blocked(&block)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Blocks or unblocks pods.
pub fn set_blocked(root: &Root, service: CloudService, block: bool) -> Result<(), Error> {
    if !root.is_host() {
        return Ok(());
    }
    let netlink = Rtnetlink::open()?;
    for rules in blocks(service) {
        if block { netlink.block(&rules)? } else { netlink.unblock(&rules)? }
    }
    Ok(())
}
