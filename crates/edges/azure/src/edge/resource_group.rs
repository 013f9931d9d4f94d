//! Networks, security groups and identities of a resource group.

use kiln_types::{Network, Placement, ResourceGroup, Sourced};
use serde::de::DeserializeOwned;

use super::{Azure, COMPUTE, NETWORK};
use crate::arm::{Api, Call, Error, ResourceId};
use crate::models::landscape::{IdentityModel, Named, NetworkModel, PlacedScaleSet};

impl Azure {
    async fn seen_list<T: DeserializeOwned>(&self, path: String, api: Api) -> Result<Sourced<Vec<T>>, Error> {
        let value = self.arm.list(&Call::get(path.as_str(), api)).await?;
        Ok(Sourced { value, call: format!("GET {path}") })
    }

    async fn seen_one<T: DeserializeOwned>(&self, id: &str, api: Api) -> Result<Sourced<Option<T>>, Error> {
        let id: ResourceId = id.parse()?;
        let value = self.arm.find(&Call::get(id.as_str(), api)).await?;
        Ok(Sourced { value, call: format!("GET {}", id.as_str()) })
    }
}

impl ResourceGroup for Azure {
    type Error = Error;

    async fn security_groups(&self) -> Result<Sourced<Vec<String>>, Error> {
        let path = self.scope.collection(NETWORK, "networkSecurityGroups");
        let seen: Sourced<Vec<Named>> = self.seen_list(path, Api::Network).await?;
        Ok(Sourced { value: seen.value.into_iter().map(|group| group.name).collect(), call: seen.call })
    }

    async fn networks(&self) -> Result<Sourced<Vec<Network>>, Error> {
        let path = self.scope.collection(NETWORK, "virtualNetworks");
        let seen: Sourced<Vec<NetworkModel>> = self.seen_list(path, Api::Network).await?;
        Ok(Sourced { value: seen.value.into_iter().map(Network::from).collect(), call: seen.call })
    }

    async fn network(&self, id: &str) -> Result<Sourced<Option<Network>>, Error> {
        let seen: Sourced<Option<NetworkModel>> = self.seen_one(id, Api::Network).await?;
        Ok(Sourced { value: seen.value.map(Network::from), call: seen.call })
    }

    async fn placements(&self) -> Result<Sourced<Vec<Placement>>, Error> {
        let path = self.scope.collection(COMPUTE, "virtualMachineScaleSets");
        let seen: Sourced<Vec<PlacedScaleSet>> = self.seen_list(path, Api::Compute).await?;
        Ok(Sourced { value: seen.value.into_iter().map(Placement::from).collect(), call: seen.call })
    }

    async fn identity_client(&self, id: &str) -> Result<Sourced<Option<String>>, Error> {
        let seen: Sourced<Option<IdentityModel>> = self.seen_one(id, Api::Identity).await?;
        Ok(Sourced { value: seen.value.and_then(IdentityModel::client_id), call: seen.call })
    }
}
