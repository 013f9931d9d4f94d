//! What a launch finds around it: networks, security groups, identities. Each answer names the call that gave it.

use std::future::Future;

use serde::{Deserialize, Serialize};

use crate::error::FactoryError;

/// An answer, and the call that gave it (`GET /version`): what an explanation points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    pub value: T,
    pub call: String,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub id: String,
    /// The id that the cloud gives it besides its name.
    pub guid: Option<String>,
    /// Resource ids of its subnets.
    pub subnets: Vec<String>,
}

/// Where the nodes of a pool are, and as whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub pool: String,
    /// Resource ids of the subnets of its primary interfaces.
    pub subnets: Vec<String>,
    /// Resource ids of the security groups of its interfaces.
    pub security_groups: Vec<String>,
    /// Resource ids of the identities that its nodes may use.
    pub identities: Vec<String>,
}

/// The places of one resource group.
pub trait Landscape: Send + Sync {
    /// What can go wrong.
    type Error: FactoryError;

    /// Names of the group's security groups.
    fn security_groups(&self) -> impl Future<Output = Result<Seen<Vec<String>>, Self::Error>> + Send;

    /// The group's networks.
    fn networks(&self) -> impl Future<Output = Result<Seen<Vec<Network>>, Self::Error>> + Send;

    /// A network by its resource id, in this group or another.
    fn network(&self, id: &str) -> impl Future<Output = Result<Seen<Option<Network>>, Self::Error>> + Send;

    /// Where the group's pools are.
    fn placements(&self) -> impl Future<Output = Result<Seen<Vec<Placement>>, Self::Error>> + Send;

    /// The client id of an identity, by its resource id.
    fn identity_client(&self, id: &str) -> impl Future<Output = Result<Seen<Option<String>>, Self::Error>> + Send;
}
