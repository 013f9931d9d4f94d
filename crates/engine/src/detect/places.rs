//! What the resource group of the nodes says: subnet, security group, identities.

use std::collections::BTreeMap;

use kiln_aks_formats::go::cluster_id::from_security_group;
use kiln_types::{Network, Placement, ResourceGroup, Sourced};

use super::{Detected, said};

/// How AKS ends the name of the identity that it makes for kubelets.
const KUBELET_IDENTITY: &str = "-agentpool";

pub(super) async fn look<L: ResourceGroup>(azure: &L, found: &mut Detected) {
    let placements = azure.placements().await;
    if !found.has("securityGroup") {
        match azure.security_groups().await {
            Ok(groups) => security_group(&groups, placements.as_ref().ok(), found),
            Err(error) => found.miss("securityGroup", said(&error)),
        }
    }
    subnet(azure, placements.as_ref().ok(), found).await;
    match &placements {
        Ok(placements) => identities(azure, placements, found).await,
        Err(error) => {
            let why = said(error);
            found.miss("nodeIdentities", &why);
            if !found.has("kubeletIdentityClientId") {
                found.miss("kubeletIdentityClientId", why);
            }
        }
    }
}

/// AKS's by its name; else the one that pools use; else the only one.
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
            let why = format!("{}: there are several: {}", groups.call, names.join(", "));
            found.miss("clusterId", &why);
            return found.miss("securityGroup", why);
        }
    }
    if let Some(placements) = placements
        && let [id] = distinct(placements.value.iter().flat_map(|one| &one.security_groups)).as_slice()
    {
        return found.fact("securityGroup", last(id), &placements.call);
    }
    match groups.value.as_slice() {
        [only] => found.fact("securityGroup", only, &groups.call),
        [] => found.miss("securityGroup", format!("{}: there is none", groups.call)),
        several => found.miss("securityGroup", format!("{}: there are several: {}", groups.call, several.join(", "))),
    }
}

async fn subnet<L: ResourceGroup>(azure: &L, placements: Option<&Sourced<Vec<Placement>>>, found: &mut Detected) {
    let known = found.facts.iter().find(|fact| fact.field == "vnetSubnetId").map(|fact| fact.text.clone());
    let subnet = match known {
        Some(known) => Some(known),
        None => match chosen_subnet(azure, placements).await {
            Ok(seen) => {
                found.fact("vnetSubnetId", &seen.value, seen.call);
                Some(seen.value)
            }
            Err(why) => {
                found.miss("vnetSubnetId", why);
                None
            }
        },
    };
    let Some(network) = subnet.as_deref().and_then(|id| id.rsplit_once("/subnets/")).map(|(network, _)| network) else {
        return;
    };
    match azure.network(network).await {
        Ok(Sourced { value: Some(Network { guid: Some(guid), .. }), call }) => found.fact("vnetGuid", guid, call),
        Ok(Sourced { call, .. }) => found.miss("vnetGuid", format!("{call}: it says none")),
        Err(error) => found.miss("vnetGuid", said(&error)),
    }
}

/// Where the pools are; else the only subnet of the group.
async fn chosen_subnet<L: ResourceGroup>(
    azure: &L,
    placements: Option<&Sourced<Vec<Placement>>>,
) -> Result<Sourced<String>, String> {
    if let Some(placements) = placements {
        let used = distinct(placements.value.iter().flat_map(|one| &one.subnets));
        match used.as_slice() {
            [only] => return Ok(Sourced { value: only.clone(), call: placements.call.clone() }),
            [] => {}
            several => return Err(format!("{}: the pools are in several: {}", placements.call, several.join(", "))),
        }
    }
    let networks = azure.networks().await.map_err(|error| said(&error))?;
    let all: Vec<&String> = networks.value.iter().flat_map(|network| &network.subnets).collect();
    match all.as_slice() {
        [only] => Ok(Sourced { value: (*only).clone(), call: networks.call }),
        [] => Err(format!("{}: there is none", networks.call)),
        several => Err(format!("{}: there are {} to choose from", networks.call, several.len())),
    }
}

/// Those that all pools have; kubelet's is the one that AKS named so, or the only one.
async fn identities<L: ResourceGroup>(azure: &L, placements: &Sourced<Vec<Placement>>, found: &mut Detected) {
    let mut pools = placements.value.iter().map(|one| distinct(&one.identities));
    let Some(first) = pools.next() else {
        if !found.has("kubeletIdentityClientId") {
            found.miss("kubeletIdentityClientId", format!("{}: there is no pool", placements.call));
        }
        return;
    };
    let alike = |other: &Vec<String>| {
        other.len() == first.len() && other.iter().zip(&first).all(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    if !pools.all(|other| alike(&other)) {
        let why = format!("{}: the pools have different ones", placements.call);
        found.miss("nodeIdentities", &why);
        if !found.has("kubeletIdentityClientId") {
            found.miss("kubeletIdentityClientId", why);
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
            let why = format!("{}: of {} identities none is named as kubelet's", placements.call, first.len());
            return found.miss("kubeletIdentityClientId", why);
        }
    };
    match azure.identity_client(kubelets).await {
        Ok(Sourced { value: Some(client), call }) => found.fact("kubeletIdentityClientId", client, call),
        Ok(Sourced { value: None, call }) => {
            found.miss("kubeletIdentityClientId", format!("{call}: it says no client id"));
        }
        Err(error) => found.miss("kubeletIdentityClientId", said(&error)),
    }
}

/// Each id once, whatever its case, sorted.
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
    fn aks_names_its_security_group_by_the_clusters_digits() {
        let one = found(&["mine", "aks-agentpool-46593302-nsg"], &["mine"]);
        assert_eq!(
            texts(&one),
            [("clusterId", "46593302", "groups"), ("securityGroup", "aks-agentpool-46593302-nsg", "groups")]
        );
        let two = found(&["aks-agentpool-00000001-nsg", "aks-agentpool-46593302-nsg"], &[]);
        assert_eq!((two.facts.len(), two.misses.len()), (0, 2));
        assert!(two.misses[0].why.contains("aks-agentpool-00000001-nsg, aks-agentpool-46593302-nsg"), "{two:?}");
    }

    #[test]
    fn without_aks_it_is_the_one_that_pools_use_or_the_only_one() {
        assert_eq!(texts(&found(&["a", "b"], &["b", "B"])), [("securityGroup", "B", "pools")]);
        assert_eq!(texts(&found(&["a"], &[])), [("securityGroup", "a", "groups")]);
        assert_eq!(found(&["a", "b"], &["a", "b"]).misses[0].why, "groups: there are several: a, b");
        assert_eq!(found(&[], &[]).misses[0].why, "groups: there is none");
    }
}
