//! Which network a cluster has, by what runs on each of its nodes.

use std::collections::BTreeMap;

use kiln_bootstrap::sources::Fact;
use kiln_types::Sourced;

/// Azure's own keeper of pod addresses: with overlays and with subnets of pods.
pub(super) const CNS: &str = "azure-cns";
pub(super) const CILIUM: &str = "cilium";
pub(super) const CALICO: &str = "calico-node";
const AZURE_POLICY: &str = "azure-npm";
/// Runs wherever Azure's plugin gives pods addresses and nothing else does.
const AZURE_MASQUERADE: &str = "azure-ip-masq-agent";
/// Networks that bring their own plugin. Nodes get none from outside then.
const OTHERS: [&str; 7] = [CALICO, "canal", "kindnet", "kube-flannel", "kube-flannel-ds", "kube-router", "weave-net"];

/// What was read of a cluster.
#[derive(Debug)]
pub(super) struct Looked {
    /// Daemon sets of `kube-system`.
    pub(super) system: Sourced<Vec<String>>,
    /// Daemon sets of Calico's own namespace.
    pub(super) calico: Option<Sourced<Vec<String>>>,
    /// Cilium's configuration.
    pub(super) cilium: Option<Sourced<Option<BTreeMap<String, String>>>>,
    /// Whether a node says that its pods have a network of their own.
    pub(super) overlay: Option<Sourced<bool>>,
}

impl Looked {
    fn runs(&self, name: &str) -> bool {
        self.system.value.iter().any(|set| set == name)
    }

    fn runs_calico(&self) -> Option<&str> {
        if self.runs(CALICO) {
            return Some(&self.system.call);
        }
        self.calico.as_ref().filter(|seen| seen.value.iter().any(|set| set == CALICO)).map(|seen| seen.call.as_str())
    }

    /// Plugin, its mode, what forwards packets and what filters them; nothing where no network is known.
    pub(super) fn facts(&self) -> Option<Vec<Fact>> {
        let system = self.system.call.as_str();
        let fact = |field, text: &str, call: &str| Fact { field, text: text.to_owned(), call: call.to_owned() };
        let cilium = self.cilium.as_ref();
        // Azure runs Cilium below its own plugin; whoever brings Cilium lets it give the addresses itself.
        let delegates = cilium.is_some_and(|seen| {
            seen.value.as_ref().is_some_and(|map| map.get("ipam").is_some_and(|ipam| ipam == "delegated-plugin"))
        });
        let of_azure = self.runs(CNS) || self.runs(AZURE_MASQUERADE) || self.runs(AZURE_POLICY) || delegates;
        if !of_azure {
            let brought = cilium.map(|seen| seen.call.as_str());
            let brought = brought
                .or_else(|| self.runs_calico())
                .or_else(|| OTHERS.iter().any(|name| self.runs(name)).then_some(system))?;
            let empty = |field| fact(field, "", brought);
            return Some(vec![
                fact("networkPlugin", "none", brought),
                empty("networkPluginMode"),
                empty("networkDataplane"),
                empty("networkPolicy"),
            ]);
        }
        let mode = match &self.overlay {
            Some(Sourced { value: true, call }) => fact("networkPluginMode", "overlay", call),
            Some(Sourced { call, .. }) => fact("networkPluginMode", "", call),
            None => fact("networkPluginMode", "", system),
        };
        let (dataplane, policy) = if let Some(seen) = cilium {
            let how = seen.value.as_ref().and_then(|map| map.get("enable-policy"));
            let policy = if how.is_some_and(|how| how == "never") { "" } else { "cilium" };
            (fact("networkDataplane", "cilium", &seen.call), fact("networkPolicy", policy, &seen.call))
        } else {
            let policy = match (self.runs(AZURE_POLICY), self.runs_calico()) {
                (true, _) => fact("networkPolicy", "azure", system),
                (false, Some(call)) => fact("networkPolicy", "calico", call),
                (false, None) => fact("networkPolicy", "", system),
            };
            (fact("networkDataplane", "azure", system), policy)
        };
        Some(vec![fact("networkPlugin", "azure", system), mode, dataplane, policy])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(system: &[&str], cilium: Option<&[(&str, &str)]>, overlay: Option<bool>, calico: bool) -> Looked {
        let seen = |names: Vec<String>, call: &str| Sourced { value: names, call: call.to_owned() };
        Looked {
            system: seen(system.iter().map(|name| (*name).to_owned()).collect(), "sets"),
            calico: calico.then(|| seen(vec![CALICO.to_owned()], "calico")),
            cilium: cilium.map(|pairs| Sourced {
                value: Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
                call: "map".to_owned(),
            }),
            overlay: overlay.map(|value| Sourced { value, call: "nodes".to_owned() }),
        }
    }

    fn network(looked: &Looked) -> Option<[String; 4]> {
        let facts = looked.facts()?;
        let names = ["networkPlugin", "networkPluginMode", "networkDataplane", "networkPolicy"];
        Some(names.map(|name| facts.iter().find(|fact| fact.field == name).unwrap().text.clone()))
    }

    #[test]
    fn each_network_is_known_by_what_runs_on_every_node() {
        let delegated = [("ipam", "delegated-plugin"), ("enable-policy", "default")];
        let unfiltered = [("ipam", "delegated-plugin"), ("enable-policy", "never")];
        for (looked, expected) in [
            (
                looked(&["azure-cns", "cilium", "kube-proxy"], Some(&delegated), Some(true), false),
                ["azure", "overlay", "cilium", "cilium"],
            ),
            (looked(&["azure-cns", "cilium"], Some(&delegated), Some(false), false), ["azure", "", "cilium", "cilium"]),
            (
                looked(&["azure-cns", "cilium"], Some(&unfiltered), Some(true), false),
                ["azure", "overlay", "cilium", ""],
            ),
            (looked(&["cilium"], Some(&delegated), None, false), ["azure", "", "cilium", "cilium"]),
            (looked(&["cilium"], Some(&[("ipam", "cluster-pool")]), None, false), ["none", "", "", ""]),
            (looked(&["azure-cns", "kube-proxy"], None, Some(true), false), ["azure", "overlay", "azure", ""]),
            (looked(&["azure-ip-masq-agent", "azure-npm"], None, None, false), ["azure", "", "azure", "azure"]),
            (looked(&["azure-ip-masq-agent"], None, None, true), ["azure", "", "azure", "calico"]),
            (looked(&["calico-node"], None, None, false), ["none", "", "", ""]),
            (looked(&["kindnet", "kube-proxy"], None, None, false), ["none", "", "", ""]),
        ] {
            assert_eq!(network(&looked), Some(expected.map(ToOwned::to_owned)), "{looked:?}");
        }
        assert_eq!(network(&looked(&["kube-proxy", "my-agent"], None, None, false)), None);
    }

    #[test]
    fn each_fact_names_the_call_that_decided_it() {
        let facts = looked(&["azure-cns", "cilium"], Some(&[]), Some(true), false).facts().unwrap();
        let calls: Vec<_> = facts.iter().map(|fact| (fact.field, fact.call.as_str())).collect();
        assert_eq!(
            calls,
            [
                ("networkPlugin", "sets"),
                ("networkPluginMode", "nodes"),
                ("networkDataplane", "map"),
                ("networkPolicy", "map")
            ]
        );
    }
}
