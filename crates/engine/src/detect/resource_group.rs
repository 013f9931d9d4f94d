//! Detecting subnet, security group and identities from the nodes' resource group.

use std::collections::BTreeMap;

use kiln_aks_formats::go::cluster_id::from_security_group;
use kiln_types::{Network, Placement, ResourceGroup, Sourced};

use super::{Detected, to_line};

/// The suffix of the identity that AKS creates for kubelets.
const KUBELET_IDENTITY: &str = "-agentpool";

pub(super) async fn detect<L: ResourceGroup>(azure: &L, found: &mut Detected) {
    let placements = azure.placements().await;
    if !found.has("securityGroup") {
        match azure.security_groups().await {
            Ok(groups) => security_group(&groups, placements.as_ref().ok(), found),
            Err(error) => found.miss("securityGroup", to_line(&error)),
        }
    }
    subnet(azure, placements.as_ref().ok(), found).await;
    match &placements {
        Ok(placements) => identities(azure, placements, found).await,
        Err(error) => {
            let reason = to_line(error);
            found.miss("nodeIdentities", &reason);
            if !found.has("kubeletIdentityClientId") {
                found.miss("kubeletIdentityClientId", reason);
            }
        }
    }
}

/// Detects the security group: AKS' by its name, else that of the pools, else the only one.
fn security_group(groups: &Sourced<Vec<String>>, placements: Option<&Sourced<Vec<Placement>>>, found: &mut Detected) {
    let of_aks: Vec<(&str, String)> =
        groups.value.iter().filter_map(|name| Some((name.as_str(), from_security_group(name)?))).collect();
    match of_aks.as_slice() {
        [(name, id)] => {
            found.fact("clusterId", id, &groups.call);
            return found.fact("securityGroup", *name, &groups.call);
        }
        [] => {}
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            let reason = format!("{}: several match: {}", groups.call, names.join(", "));
            found.miss("clusterId", &reason);
            return found.miss("securityGroup", reason);
        }
    }
    if let Some(placements) = placements
        && let [id] = distinct(placements.value.iter().flat_map(|one| &one.security_groups)).as_slice()
    {
        return found.fact("securityGroup", last(id), &placements.call);
    }
    match groups.value.as_slice() {
        [only] => found.fact("securityGroup", only, &groups.call),
        [] => found.miss("securityGroup", format!("{}: none found", groups.call)),
        several => found.miss("securityGroup", format!("{}: several found: {}", groups.call, several.join(", "))),
    }
}

async fn subnet<L: ResourceGroup>(azure: &L, placements: Option<&Sourced<Vec<Placement>>>, found: &mut Detected) {
    let known = found.facts.iter().find(|fact| fact.field == "vnetSubnetId").map(|fact| fact.text.clone());
    let subnet = match known {
        Some(known) => Some(known),
        None => match chosen_subnet(azure, placements).await {
            Ok(chosen) => {
                found.fact("vnetSubnetId", &chosen.value, chosen.call);
                Some(chosen.value)
            }
            Err(reason) => {
                found.miss("vnetSubnetId", reason);
                None
            }
        },
    };
    let Some(network) = subnet.as_deref().and_then(|id| id.rsplit_once("/subnets/")).map(|(network, _)| network) else {
        return;
    };
    match azure.network(network).await {
        Ok(Sourced { value: Some(Network { guid: Some(guid), .. }), call }) => found.fact("vnetGuid", guid, call),
        Ok(Sourced { call, .. }) => found.miss("vnetGuid", format!("{call}: the network has no GUID")),
        Err(error) => found.miss("vnetGuid", to_line(&error)),
    }
}

/// The subnet of the pools, else the only one of the group.
async fn chosen_subnet<L: ResourceGroup>(
    azure: &L,
    placements: Option<&Sourced<Vec<Placement>>>,
) -> Result<Sourced<String>, String> {
    if let Some(placements) = placements {
        let used = distinct(placements.value.iter().flat_map(|one| &one.subnets));
        match used.as_slice() {
            [only] => return Ok(Sourced { value: only.clone(), call: placements.call.clone() }),
            [] => {}
            several => {
                return Err(format!("{}: the pools use several subnets: {}", placements.call, several.join(", ")));
            }
        }
    }
    let networks = azure.networks().await.map_err(|error| to_line(&error))?;
    let all: Vec<&String> = networks.value.iter().flat_map(|network| &network.subnets).collect();
    match all.as_slice() {
        [only] => Ok(Sourced { value: (*only).clone(), call: networks.call }),
        [] => Err(format!("{}: none found", networks.call)),
        several => Err(format!("{}: {} subnets found", networks.call, several.len())),
    }
}

/// Detects the identities that all pools have. The kubelet's is AKS' by its name, or the only one.
async fn identities<L: ResourceGroup>(azure: &L, placements: &Sourced<Vec<Placement>>, found: &mut Detected) {
    let mut pools = placements.value.iter().map(|one| distinct(&one.identities));
    let Some(first) = pools.next() else {
        if !found.has("kubeletIdentityClientId") {
            found.miss("kubeletIdentityClientId", format!("{}: no pools found", placements.call));
        }
        return;
    };
    let alike = |other: &Vec<String>| {
        other.len() == first.len() && other.iter().zip(&first).all(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    if !pools.all(|other| alike(&other)) {
        let reason = format!("{}: the pools have different identities", placements.call);
        found.miss("nodeIdentities", &reason);
        if !found.has("kubeletIdentityClientId") {
            found.miss("kubeletIdentityClientId", reason);
        }
        return;
    }
    if !first.is_empty() {
        found.fact("nodeIdentities", first.join(","), &placements.call);
    }
    if found.has("kubeletIdentityClientId") {
        return;
    }
    let named: Vec<&String> = first.iter().filter(|id| id.to_ascii_lowercase().ends_with(KUBELET_IDENTITY)).collect();
    let kubelets = match (named.as_slice(), first.as_slice()) {
        ([one], _) => *one,
        ([], [only]) => only,
        (_, []) => {
            return found.miss("kubeletIdentityClientId", format!("{}: the pools have no identity", placements.call));
        }
        _ => {
            let reason =
                format!("{}: none of {} identities ends with {KUBELET_IDENTITY}", placements.call, first.len());
            return found.miss("kubeletIdentityClientId", reason);
        }
    };
    match azure.identity_client(kubelets).await {
        Ok(Sourced { value: Some(client), call }) => found.fact("kubeletIdentityClientId", client, call),
        Ok(Sourced { value: None, call }) => {
            found.miss("kubeletIdentityClientId", format!("{call}: the identity has no client id"));
        }
        Err(error) => found.miss("kubeletIdentityClientId", to_line(&error)),
    }
}

/// The ids, sorted and without duplicates. Ids that differ only in case are duplicates.
fn distinct<'a>(ids: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let each: BTreeMap<String, String> = ids.into_iter().map(|id| (id.to_ascii_lowercase(), id.clone())).collect();
    each.into_values().collect()
}

fn last(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Sourced<Vec<String>> {
        Sourced { value: names.iter().map(|name| (*name).to_owned()).collect(), call: "groups".to_owned() }
    }

    fn found(names: &[&str], used: &[&str]) -> Detected {
        let placement = |group: &&str| Placement {
            pool: "p".to_owned(),
            subnets: Vec::new(),
            security_groups: vec![format!("/x/{group}")],
            identities: Vec::new(),
        };
        let placements = Sourced { value: used.iter().map(placement).collect(), call: "pools".to_owned() };
        let mut found = Detected::default();
        security_group(&groups(names), Some(&placements), &mut found);
        found
    }

    fn texts(found: &Detected) -> Vec<(&'static str, &str, &str)> {
        found.facts.iter().map(|fact| (fact.field, fact.text.as_str(), fact.call.as_str())).collect()
    }

    #[test]
    fn name_of_aks_security_group_contains_the_cluster_id() {
        let one = found(&["mine", "aks-agentpool-46593302-nsg"], &["mine"]);
        assert_eq!(
            texts(&one),
            [("clusterId", "46593302", "groups"), ("securityGroup", "aks-agentpool-46593302-nsg", "groups")]
        );
        let two = found(&["aks-agentpool-00000001-nsg", "aks-agentpool-46593302-nsg"], &[]);
        assert_eq!((two.facts.len(), two.misses.len()), (0, 2));
        assert!(two.misses[0].reason.contains("aks-agentpool-00000001-nsg, aks-agentpool-46593302-nsg"), "{two:?}");
    }

    #[test]
    fn without_aks_the_pools_or_the_only_security_group_decides() {
        assert_eq!(texts(&found(&["a", "b"], &["b", "B"])), [("securityGroup", "B", "pools")]);
        assert_eq!(texts(&found(&["a"], &[])), [("securityGroup", "a", "groups")]);
        assert_eq!(found(&["a", "b"], &["a", "b"]).misses[0].reason, "groups: several found: a, b");
        assert_eq!(found(&[], &[]).misses[0].reason, "groups: none found");
    }
}
