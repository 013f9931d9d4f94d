//! Which machine asks. A machine is known by its address; whoever has none of its own says the name in the path.

use std::net::IpAddr;

use crate::world::World;

/// A machine that asks, and what for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Its key among the resources.
    pub(crate) key: String,
    /// The path without the prefix.
    pub(crate) path: String,
    /// `/vm/NAME` where the caller used it: URLs in answers carry it on.
    pub(crate) prefix: String,
}

/// Tells the machine, or says how to name it.
pub(crate) fn tell(world: &World, peer: Option<IpAddr>, path: &str) -> Result<Caller, String> {
    if let Some(rest) = path.strip_prefix("/vm/") {
        let (raw, below) = rest.split_once('/').unwrap_or((rest, ""));
        let name = crate::arm::call::decode(raw);
        let key = world
            .machine_named(&name)
            .ok_or_else(|| format!("no machine of this world is called `{name}`{}", example(world)))?;
        return Ok(Caller { key: key.to_owned(), path: format!("/{below}"), prefix: format!("/vm/{raw}") });
    }
    let known = match peer.map(|peer| peer.to_canonical()) {
        Some(IpAddr::V4(address)) => world.machine_at(address),
        _ => None,
    };
    let from = peer.map_or_else(|| "the caller".to_owned(), |peer| peer.to_canonical().to_string());
    let key = known.ok_or_else(|| {
        format!(
            "{from} is not the address of a machine of this world; name the machine with a path prefix /vm/NAME{}",
            example(world)
        )
    })?;
    Ok(Caller { key: key.to_owned(), path: path.to_owned(), prefix: String::new() })
}

fn example(world: &World) -> String {
    let first = world.resources.iter().find_map(|(_, resource)| resource.vm.as_ref());
    first.map_or_else(
        || " (the world has no machines)".to_owned(),
        |vm| format!(", for example /vm/{}/metadata/instance", vm.computer_name),
    )
}
