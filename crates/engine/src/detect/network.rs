//! Detecting the network plugin from the DaemonSets of a cluster.

use std::collections::BTreeMap;

use kiln_bootstrap::sources::Fact;
use kiln_types::Sourced;

/// Azure's IP address management, for overlay networks and pod subnets.
pub(super) const CNS: &str = "azure-cns";
pub(super) const CILIUM: &str = "cilium";
pub(super) const CALICO: &str = "calico-node";
const AZURE_POLICY: &str = "azure-npm";
/// Runs where Azure's plugin alone assigns pod addresses.
const AZURE_MASQUERADE: &str = "azure-ip-masq-agent";
/// Networks that install their own plugin on nodes.
const OTHERS: [&str; 7] = [CALICO, "canal", "kindnet", "kube-flannel", "kube-flannel-ds", "kube-router", "weave-net"];

/// The objects that were read from the cluster.
#[derive(Debug)]
pub(super) struct NetworkInputs {
    /// DaemonSets in `kube-system`.
    pub(super) system: Sourced<Vec<String>>,
    /// DaemonSets in Calico's namespace.
    pub(super) calico: Option<Sourced<Vec<String>>>,
    pub(super) cilium: Option<Sourced<Option<BTreeMap<String, String>>>>,
    /// Whether a node is labelled with an overlay network.
    pub(super) overlay: Option<Sourced<bool>>,
}

impl NetworkInputs {
    fn runs(&self, name: &str) -> bool {
        self.system.value.iter().any(|set| set == name)
    }

    fn runs_calico(&self) -> Option<&str> {
        if self.runs(CALICO) {
            return Some(&self.system.call);
        }
        self.calico.as_ref().filter(|read| read.value.iter().any(|set| set == CALICO)).map(|read| read.call.as_str())
    }

    /// Plugin, mode, data plane and policy; `None` if no network is recognised.
    pub(super) fn facts(&self) -> Option<Vec<Fact>> {
        let system = self.system.call.as_str();
        let fact = |field, text: &str, call: &str| Fact { field, text: text.to_owned(), call: call.to_owned() };
        let cilium = self.cilium.as_ref();
        // Azure runs Cilium with its own IP address management. Cilium installed by a user assigns addresses itself.
        let delegates = cilium.is_some_and(|read| {
            read.value.as_ref().is_some_and(|map| map.get("ipam").is_some_and(|ipam| ipam == "delegated-plugin"))
        });
        let is_azure = self.runs(CNS) || self.runs(AZURE_MASQUERADE) || self.runs(AZURE_POLICY) || delegates;
        if !is_azure {
            let call = cilium.map(|read| read.call.as_str());
            let call = call
                .or_else(|| self.runs_calico())
                .or_else(|| OTHERS.iter().any(|name| self.runs(name)).then_some(system))?;
            let empty = |field| fact(field, "", call);
            return Some(vec![
                fact("networkPlugin", "none", call),
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
        let (dataplane, policy) = if let Some(read) = cilium {
            let how = read.value.as_ref().and_then(|map| map.get("enable-policy"));
            let policy = if how.is_some_and(|how| how == "never") { "" } else { "cilium" };
            (fact("networkDataplane", "cilium", &read.call), fact("networkPolicy", policy, &read.call))
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

    fn inputs(system: &[&str], cilium: Option<&[(&str, &str)]>, overlay: Option<bool>, calico: bool) -> NetworkInputs {
        let seen = |names: Vec<String>, call: &str| Sourced { value: names, call: call.to_owned() };
        NetworkInputs {
            system: seen(system.iter().map(|name| (*name).to_owned()).collect(), "sets"),
            calico: calico.then(|| seen(vec![CALICO.to_owned()], "calico")),
            cilium: cilium.map(|pairs| Sourced {
                value: Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
                call: "map".to_owned(),
            }),
            overlay: overlay.map(|value| Sourced { value, call: "nodes".to_owned() }),
        }
    }

    fn network(inputs: &NetworkInputs) -> Option<[String; 4]> {
        let facts = inputs.facts()?;
        let names = ["networkPlugin", "networkPluginMode", "networkDataplane", "networkPolicy"];
        Some(names.map(|name| facts.iter().find(|fact| fact.field == name).unwrap().text.clone()))
    }

    #[test]
    fn each_network_is_recognised_by_its_daemonsets() {
        let delegated = [("ipam", "delegated-plugin"), ("enable-policy", "default")];
        let unfiltered = [("ipam", "delegated-plugin"), ("enable-policy", "never")];
        for (inputs, expected) in [
            (
                inputs(&["azure-cns", "cilium", "kube-proxy"], Some(&delegated), Some(true), false),
                ["azure", "overlay", "cilium", "cilium"],
            ),
            (inputs(&["azure-cns", "cilium"], Some(&delegated), Some(false), false), ["azure", "", "cilium", "cilium"]),
            (
                inputs(&["azure-cns", "cilium"], Some(&unfiltered), Some(true), false),
                ["azure", "overlay", "cilium", ""],
            ),
            (inputs(&["cilium"], Some(&delegated), None, false), ["azure", "", "cilium", "cilium"]),
            (inputs(&["cilium"], Some(&[("ipam", "cluster-pool")]), None, false), ["none", "", "", ""]),
            (inputs(&["azure-cns", "kube-proxy"], None, Some(true), false), ["azure", "overlay", "azure", ""]),
            (inputs(&["azure-ip-masq-agent", "azure-npm"], None, None, false), ["azure", "", "azure", "azure"]),
            (inputs(&["azure-ip-masq-agent"], None, None, true), ["azure", "", "azure", "calico"]),
            (inputs(&["calico-node"], None, None, false), ["none", "", "", ""]),
            (inputs(&["kindnet", "kube-proxy"], None, None, false), ["none", "", "", ""]),
        ] {
            assert_eq!(network(&inputs), Some(expected.map(ToOwned::to_owned)), "{inputs:?}");
        }
        assert_eq!(network(&inputs(&["kube-proxy", "my-agent"], None, None, false)), None);
    }

    #[test]
    fn each_fact_has_the_request_that_decided_it() {
        let facts = inputs(&["azure-cns", "cilium"], Some(&[]), Some(true), false).facts().unwrap();
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
