//! The port for detecting where nodes run: networks, security groups and identities of a resource group.

use std::future::Future;

use serde::{Deserialize, Serialize};

use crate::error::FactoryError;

/// A value and the request that returned it (`GET /version`), for provenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub call: String,
}

/// A virtual network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub id: String,
    /// The id that the cloud assigns in addition to the name.
    pub guid: Option<String>,
    /// Resource ids.
    pub subnets: Vec<String>,
}

/// Subnets, security groups and identities of a pool's nodes, each by resource id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub pool: String,
    /// Of the primary interfaces.
    pub subnets: Vec<String>,
    pub security_groups: Vec<String>,
    pub identities: Vec<String>,
}

/// A resource group whose resources can be listed.
pub trait ResourceGroup: Send + Sync {
    /// The error type of this cloud.
    type Error: FactoryError;

    /// Names of the group's security groups.
    fn security_groups(&self) -> impl Future<Output = Result<Sourced<Vec<String>>, Self::Error>> + Send;

    /// The group's networks.
    fn networks(&self) -> impl Future<Output = Result<Sourced<Vec<Network>>, Self::Error>> + Send;

    /// A network by its resource id, in this or another group.
    fn network(&self, id: &str) -> impl Future<Output = Result<Sourced<Option<Network>>, Self::Error>> + Send;

    /// Where the group's pools run.
    fn placements(&self) -> impl Future<Output = Result<Sourced<Vec<Placement>>, Self::Error>> + Send;

    /// The client id of an identity, by its resource id.
    fn identity_client(&self, id: &str) -> impl Future<Output = Result<Sourced<Option<String>>, Self::Error>> + Send;
}
