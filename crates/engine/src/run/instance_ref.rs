//! Which instance a node runs on.

use kiln_kubernetes::ProviderId;
use kiln_types::{InstanceId, Node, PoolName, instance_from_node_name};

use crate::error::Error;

/// An instance of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceRef {
    pub(crate) pool: PoolName,
    pub(crate) instance: InstanceId,
}

impl InstanceRef {
    /// The instance of a node, by its provider ID, or by its name as long as it has none.
    pub(crate) fn of(node: &Node) -> Result<Self, Error> {
        if let Some(id) = ProviderId::from_node(node) {
            return Ok(Self { pool: id.pool, instance: id.instance });
        }
        // A standalone machine, or an instance of a Flexible scale set, whose names can look like those of instances.
        if let Some(id) = node.provider_id.as_ref().filter(|id| !id.is_empty()) {
            return Err(Error::NotUniform { node: node.name.clone(), provider_id: id.clone() });
        }
        let (pool, instance) = instance_from_node_name(node.name.as_str())
            .map_err(|source| Error::NotInPool { node: node.name.clone(), source })?;
        Ok(Self { pool, instance })
    }
}
