//! Which machine a node is.

use kiln_kubernetes::NodeSeen;
use kiln_prototype::node_name::instance_of;
use kiln_types::{InstanceId, PoolName};

use crate::error::Error;

/// Which machine a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pool: PoolName,
    pub(crate) instance: InstanceId,
}

impl Place {
    /// By the provider id, or by the name where there is none yet.
    pub(crate) fn of(node: &NodeSeen) -> Result<Self, Error> {
        if let Some(machine) = node.machine() {
            return Ok(Self { pool: machine.pool, instance: machine.instance });
        }
        let (pool, instance) =
            instance_of(node.name.as_str()).map_err(|source| Error::NotOfAPool { node: node.name.clone(), source })?;
        Ok(Self { pool, instance })
    }
}
