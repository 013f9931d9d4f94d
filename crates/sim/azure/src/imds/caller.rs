//! Identification of the calling VM: by its source address, or by a `/vm/NAME` path prefix.

use std::net::IpAddr;

use crate::world::World;

/// The calling VM and its request path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The resource key of the VM.
    pub(crate) key: String,
    /// The path without the prefix.
    pub(crate) path: String,
    /// `/vm/NAME` if the caller used it. URLs in answers repeat it.
    pub(crate) prefix: String,
}

/// Identifies the VM. An error explains how to name it.
pub(crate) fn identify(world: &World, peer: Option<IpAddr>, path: &str) -> Result<Caller, String> {
    if let Some(rest) = path.strip_prefix("/vm/") {
        let (raw, below) = rest.split_once('/').unwrap_or((rest, ""));
        let name = crate::arm::call::decode(raw);
        let key = world.machine_named(&name).ok_or_else(|| format!("no VM is named `{name}`{}", example(world)))?;
        return Ok(Caller { key: key.to_owned(), path: format!("/{below}"), prefix: format!("/vm/{raw}") });
    }
    let known = match peer.map(|peer| peer.to_canonical()) {
        Some(IpAddr::V4(address)) => world.machine_at(address),
        _ => None,
    };
    let from = peer.map_or_else(|| "the caller".to_owned(), |peer| peer.to_canonical().to_string());
    let key = known.ok_or_else(|| {
        format!("{from} is not the address of a VM; select one with the path prefix /vm/NAME{}", example(world))
    })?;
    Ok(Caller { key: key.to_owned(), path: path.to_owned(), prefix: String::new() })
}

fn example(world: &World) -> String {
    let first = world.resources.iter().find_map(|(_, resource)| resource.vm.as_ref());
    first.map_or_else(
        || " (no VM exists)".to_owned(),
        |vm| format!(", for example /vm/{}/metadata/instance", vm.computer_name),
    )
}
