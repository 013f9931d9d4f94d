//! The world file: the initial contents of the embedded Azure.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::str::FromStr;

use kiln_types::TokenId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pool::{PoolSpec, default_pool};
use super::profile::Profile;
use crate::arm::guardrails::Lock;
use crate::compute::community::CommunityImage;
use crate::yaml;

/// The contents of a world file. Every field has a default, so an empty file is valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorldSpec {
    /// The tenant that issues tokens.
    pub tenant_id: String,
    /// The subscription of all resources.
    pub subscription_id: String,
    pub subscription_name: String,
    /// More subscriptions of the tenant, without resources.
    pub more_subscriptions: Vec<String>,
    /// Subscriptions of other tenants. They exist, but reject this tenant's tokens.
    pub foreign_subscriptions: Vec<ForeignSubscription>,
    /// The resource group of the pools.
    pub resource_group: String,
    pub location: String,
    pub regions: Vec<Region>,
    pub clients: Vec<Client>,
    /// The managed identity of all VMs.
    pub identity: Identity,
    /// The network that VMs get their addresses from.
    pub address_prefix: Subnet,
    pub pools: Vec<PoolSpec>,
    /// Other resources, by type and name.
    pub resources: Vec<ResourceSpec>,
    /// Community images.
    pub community_images: Vec<CommunityImage>,
    /// Locks of the resource group and its resources.
    pub locks: Vec<Lock>,
    /// Tags that a policy requires of new resources.
    pub required_tags: Vec<String>,
    /// Ids of revoked bootstrap tokens.
    pub revoked_tokens: BTreeSet<TokenId>,
    pub profile: Profile,
    /// Whether ARM limits the request rate. Default: yes, except with `--speed instant`.
    pub throttling: Option<bool>,
    /// Items per page of a list.
    pub page_size: usize,
    /// Lifetime of a token in seconds of wall time.
    pub token_lifetime: u32,
}

/// A subscription of another tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForeignSubscription {
    pub subscription_id: String,
    /// The tenant that it trusts.
    pub tenant_id: String,
}

/// An Azure region and whether it has availability zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Region {
    /// Name, such as `westus2`.
    pub name: String,
    /// Whether it has zones, and therefore zone-redundant storage.
    #[serde(default)]
    pub zones: bool,
}

/// A service principal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Client {
    /// Application id.
    pub client_id: String,
    pub client_secret: String,
    /// Assertions that are accepted instead of the secret: service account tokens of a workload identity.
    #[serde(default)]
    pub federated_tokens: Vec<String>,
    /// Object id of the principal.
    #[serde(default = "default_object_id")]
    pub object_id: String,
    /// Granted actions.
    #[serde(default = "all_actions")]
    pub actions: Vec<String>,
    /// Excluded actions.
    #[serde(default)]
    pub not_actions: Vec<String>,
}

/// The identity of VMs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Identity {
    /// Application id.
    pub client_id: String,
    pub object_id: String,
    /// Granted actions.
    pub actions: Vec<String>,
    /// Excluded actions.
    pub not_actions: Vec<String>,
}

/// A resource that is created by a PUT at the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSpec {
    /// Path below the resource group's providers, such as `Microsoft.Network/virtualNetworks/net`.
    pub path: String,
    /// The body of the PUT.
    pub body: Map<String, Value>,
}

/// An IPv4 network, such as `10.240.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    base: Ipv4Addr,
    bits: u8,
}

impl Subnet {
    /// Returns the address with this number, wrapping around within the network.
    pub(crate) fn address(self, number: u32) -> Ipv4Addr {
        let hosts = (1u64 << (32 - self.bits)) - 1;
        let offset = u32::try_from(u64::from(number) % hosts + 1).unwrap_or(1);
        Ipv4Addr::from(u32::from(self.base).wrapping_add(offset))
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("`{text}` is not an IPv4 network such as 10.240.0.0/16");
        let (base, bits) = text.split_once('/').ok_or_else(error)?;
        let (base, bits): (Ipv4Addr, u8) = (base.parse().map_err(|_| error())?, bits.parse().map_err(|_| error())?);
        if !(8..=28).contains(&bits) {
            return Err(format!("`{text}`: the prefix length must be from 8 to 28"));
        }
        Ok(Self { base: Ipv4Addr::from(u32::from(base) & (u32::MAX << (32 - bits))), bits })
    }
}

impl Serialize for Subnet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.base, self.bits))
    }
}

impl<'de> Deserialize<'de> for Subnet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn all_actions() -> Vec<String> {
    vec!["*".to_owned()]
}
fn default_object_id() -> String {
    "6f2c6a4e-58ab-4c59-9a65-1f6d0c1b7a02".to_owned()
}
impl Default for Identity {
    fn default() -> Self {
        Self {
            client_id: "0b7f41f1-7c0e-4d39-9b45-2f43a6f6a403".to_owned(),
            object_id: "d9f1c8c0-1d3c-4a0f-8d7a-70a9a0a3b404".to_owned(),
            actions: all_actions(),
            not_actions: Vec::new(),
        }
    }
}

impl Default for WorldSpec {
    /// One resource group with a pool of ten nodes, named as in kamino's published walkthrough.
    fn default() -> Self {
        let region = |name: &str, zones| Region { name: name.to_owned(), zones };
        Self {
            tenant_id: "5a1b1c7e-2f64-4f0a-8f4e-0c7d5b1e6f01".to_owned(),
            subscription_id: "c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02".to_owned(),
            subscription_name: "embedded".to_owned(),
            more_subscriptions: Vec::new(),
            foreign_subscriptions: Vec::new(),
            resource_group: "kubernetes-westus2-17813".to_owned(),
            location: "westus2".to_owned(),
            regions: vec![
                region("westus2", true),
                region("eastus", true),
                region("westeurope", true),
                region("westcentralus", false),
            ],
            clients: vec![Client {
                client_id: "a7d2e1b4-93c6-4e5f-8a1b-6c5d4e3f2a01".to_owned(),
                client_secret: "embedded-azure-is-not-a-secret".to_owned(),
                federated_tokens: Vec::new(),
                object_id: default_object_id(),
                actions: all_actions(),
                not_actions: Vec::new(),
            }],
            identity: Identity::default(),
            address_prefix: Subnet { base: Ipv4Addr::new(10, 240, 0, 0), bits: 16 },
            pools: vec![default_pool()],
            resources: Vec::new(),
            community_images: Vec::new(),
            locks: Vec::new(),
            required_tags: Vec::new(),
            revoked_tokens: BTreeSet::new(),
            profile: Profile::default(),
            throttling: None,
            page_size: 50,
            token_lifetime: 3_600,
        }
    }
}

impl WorldSpec {
    /// Parses a world file (YAML or JSON). `name` is used in error messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let spec: Self = yaml::parse(name, text)?;
        spec.check().map_err(|problem| format!("{name}: {problem}"))?;
        Ok(spec)
    }

    /// The ids of the tenant's subscriptions.
    pub(crate) fn own_subscriptions(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.subscription_id).chain(&self.more_subscriptions).map(String::as_str)
    }

    fn check(&self) -> Result<(), String> {
        if !self.regions.iter().any(|region| region.name == self.location) {
            return Err(format!("location: `{}` is not one of the regions", self.location));
        }
        if self.clients.is_empty() {
            return Err("clients: at least one client is required to log in".to_owned());
        }
        if self.page_size == 0 {
            return Err("pageSize: must be at least 1".to_owned());
        }
        if let Some(name) = self.profile.first_invalid() {
            return Err(format!("profile: `{name}` must be from 0 to 31536000 seconds"));
        }
        for (index, pool) in self.pools.iter().enumerate() {
            pool.check().map_err(|problem| format!("pools[{index}]{problem}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_key_error_has_the_position() {
        let error =
            WorldSpec::parse("w.yaml", "location: westus2\npools:\n- name: a\n  capcity: 3\n").expect_err("a typo");
        assert!(error.contains("w.yaml") && error.contains("capcity") && error.contains('4'), "{error}");
    }

    #[test]
    fn invalid_value_errors_have_the_path() {
        for (text, place) in [
            ("location: mars\n", "location"),
            ("clients: []\n", "clients"),
            ("pools: [{name: '-x'}]\n", "pools[0].name"),
            ("pools: [{name: x, capacity: 5000}]\n", "pools[0].capacity"),
            ("pools: [{name: x, upgradePolicy: Never}]\n", "pools[0].upgradePolicy"),
            ("pools: [{name: x, capacity: 2, instances: {2: {patched: true}}}]\n", "instance 2 does not exist"),
            ("pools: [{name: x, contents: {kernl: 5}}]\n", "kernl"),
            ("revokedTokens: [abcdef.0123456789abcdef]\n", "not a bootstrap token id"),
            ("profile: {snapshot: -1}\n", "snapshot"),
            ("addressPrefix: 10.0.0.0\n", "10.0.0.0"),
            ("pools: [{name: x, nodeTaints: [gpu]}]\n", "`gpu` is not a taint"),
            ("pools: [{name: x, nodeTaints: ['a=b:Sometimes']}]\n", "is not a taint"),
        ] {
            let error = WorldSpec::parse("w.yaml", text).expect_err(text);
            assert!(error.contains(place) && error.starts_with("w.yaml"), "{error}");
        }
    }

    #[test]
    fn empty_file_is_the_default_and_round_trips() {
        let spec = WorldSpec::parse("w", "").expect("the default");
        assert_eq!(spec.pools[0].name, "k8s-agentpool1-26100436-vmss");
        let text = serde_json::to_string(&spec).expect("json");
        assert_eq!(WorldSpec::parse("w", &text), Ok(spec));
    }

    #[test]
    fn addresses_stay_within_the_network() {
        let net: Subnet = "127.77.0.0/24".parse().expect("a network");
        assert_eq!(net.address(0), Ipv4Addr::new(127, 77, 0, 1));
        assert_eq!(net.address(254), Ipv4Addr::new(127, 77, 0, 255));
        assert_eq!(net.address(255), Ipv4Addr::new(127, 77, 0, 1));
    }
}
