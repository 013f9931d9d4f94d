//! Values that have the right form and still cannot be.

use std::fmt;

use kiln_aks_formats::karpenter::{LocalDnsZone, Taint};
use kiln_aks_formats::names::SubnetId;
use kiln_aks_formats::nbv::rules;
use kiln_aks_formats::{Arch, KubernetesVersion, from_base64};

use crate::field::Field;
use crate::kind::{Kind, Place, Pointed};
use crate::resolve::Resolved;

/// A value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub field: &'static str,
    /// Where its value stands.
    pub place: Place,
    /// What is wrong and what would be right. A secret is not shown.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", Pointed(&self.place), self.field, self.reason)
    }
}

/// Everything that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Problems(pub Vec<Problem>);

/// Words that a field knows; an empty one is "not set".
const WORDS: [(&str, &[&str]); 13] = [
    ("networkPlugin", &["azure", "none"]),
    ("networkPluginMode", &["overlay", ""]),
    ("networkDataplane", &["", "azure", "cilium"]),
    ("credentialFrom", &["attestedIdentity", "customData", "managedIdentity"]),
    ("capacityType", &["on-demand", "spot"]),
    ("imageFamily", &["Ubuntu", "Ubuntu2204", "Ubuntu2404", "AzureLinux", "Gallery", "Prototype"]),
    ("fipsMode", &["FIPS", "Disabled"]),
    ("gpuMode", &["Driver", "None"]),
    ("localDnsMode", &["Preferred", "Required", "Disabled"]),
    ("kubelet.cpuManagerPolicy", &["", "none", "static"]),
    ("kubelet.topologyManagerPolicy", &["", "none", "restricted", "best-effort", "single-numa-node"]),
    ("kubelet.cpuCFSQuota", &["", "true", "false"]),
    ("kubelet.failSwapOn", &["", "true", "false"]),
];

/// Numbers and their bounds; one that stands for "not set" is in them.
const BOUNDS: [(&str, i64, i64); 6] = [
    ("osDiskSizeGb", 30, 2048),
    ("kubelet.imageGCHighThresholdPercent", 0, 100),
    ("kubelet.imageGCLowThresholdPercent", 0, 100),
    ("kubelet.containerLogMaxFiles", 0, i32::MAX as i64),
    ("kubelet.podPidsLimit", -1, i64::MAX),
    ("SwapFileSizeMB", 0, i32::MAX as i64),
];

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|b| b.is_ascii_hexdigit())
}

/// A name of a user as Azure takes it.
fn is_user(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

impl Resolved {
    /// Whether the values can be; all that cannot, with their places, if not. Missing ones are no problem here.
    pub fn check(&self) -> Result<(), Problems> {
        let mut problems = Vec::new();
        let mut say = |name: &str, reason: String| {
            let place = self.get(name).map_or(Place::Program, |value| value.place.clone());
            problems.push(Problem { field: Field::named(name).map_or("", |field| field.name), place, reason });
        };
        for (name, words) in WORDS {
            let word = self.text(name);
            if !words.contains(&word) {
                let known: Vec<&str> = words.iter().copied().filter(|known| !known.is_empty()).collect();
                say(name, format!("`{word}` is none of {}", known.join(", ")));
            }
        }
        for (name, least, most) in BOUNDS {
            let number = self.number(name);
            if !(least..=most).contains(&number) {
                say(name, format!("{number} is not between {least} and {most}"));
            }
        }
        let pods = self.number("maxPods");
        if pods != 0 && !(10..=250).contains(&pods) {
            say("maxPods", format!("{pods} is not between 10 and 250"));
        }
        for (name, grammar) in GRAMMARS {
            let text = self.text(name);
            if let Some(reason) = Some(text).filter(|text| !text.is_empty()).and_then(grammar) {
                say(name, reason);
            }
        }
        self.check_together(&mut say);
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// Values that only together cannot be.
    fn check_together(&self, say: &mut impl FnMut(&str, String)) {
        let chosen = |name: &str| self.get(name).is_some_and(|value| !matches!(value.kind, Kind::Hardcoded(_)));
        if self.text("networkPlugin") == "none"
            && chosen("networkPluginMode")
            && !self.text("networkPluginMode").is_empty()
        {
            say("networkPluginMode", "without a network plugin there is no mode".to_owned());
        }
        let (high, low) =
            (self.number("kubelet.imageGCHighThresholdPercent"), self.number("kubelet.imageGCLowThresholdPercent"));
        if high <= low {
            say("kubelet.imageGCHighThresholdPercent", format!("{high} is not above the {low} at which removal ends"));
        }
        if self.number("SwapFileSizeMB") > 0 && self.text("kubelet.failSwapOn") != "false" {
            say("SwapFileSizeMB", "kubelet refuses to run with swap unless kubelet.failSwapOn is `false`".to_owned());
        }
        for (name, text) in self.map("sysctls") {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-/*".contains(c);
            if name.is_empty() || !name.chars().all(plain) || text.contains(['\n', '\r']) {
                say("sysctls", format!("`{name}` is no kernel setting with a value on one line"));
            }
        }
        for field in ["localDnsVnetOverrides", "localDnsKubeOverrides"] {
            for (zone, json) in self.map(field) {
                if serde_json::from_str::<LocalDnsZone>(&json).is_err() {
                    say(field, format!("what is said of zone `{zone}` is not what a class says of a zone"));
                }
            }
        }
        for name in ["taints", "startupTaints"] {
            for taint in self.list(name) {
                if let Err(bad) = taint.parse::<Taint>() {
                    say(name, bad.to_string());
                }
            }
        }
    }
}

type Grammar = fn(&str) -> Option<String>;

const GRAMMARS: [(&str, Grammar); 9] = [
    ("kubernetesVersion", |text| text.parse::<KubernetesVersion>().err().map(|bad| bad.to_string())),
    ("vnetSubnetId", |text| text.parse::<SubnetId>().err().map(|bad| bad.to_string())),
    ("arch", |text| text.parse::<Arch>().err().map(|bad| bad.to_string())),
    ("clusterEndpoint", |text| rules::api_server_name(text).is_none().then(|| format!("`{text}` has no host"))),
    ("caBundle", |text| from_base64(text.trim()).is_err().then(|| "base64 is needed".to_owned())),
    ("vnetGuid", |text| (!is_uuid(text)).then(|| format!("`{text}` is no id of a network"))),
    ("kubeletIdentityClientId", |text| (!is_uuid(text)).then(|| format!("`{text}` is no client id"))),
    ("adminUsername", |text| {
        (!is_user(text))
            .then(|| format!("`{text}` is no name of a user: a letter, then letters, digits, - and _, at most 32"))
    }),
    ("dnsServiceIp", |text| text.parse::<std::net::IpAddr>().is_err().then(|| format!("`{text}` is no address"))),
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::layer::Layer;
    use crate::resolve::resolve;

    fn problems(name: &str, value: Value) -> Vec<String> {
        let mut layer = Layer::new(Field::named(name).unwrap().strongest().unwrap());
        layer.set(name, value, Place::Argument(format!("--set {name}"))).unwrap();
        resolve(&[layer])
            .check()
            .err()
            .map_or_else(Vec::new, |problems| problems.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_defaults_can_be() {
        assert_eq!(resolve(&[]).check(), Ok(()));
    }

    #[test]
    fn each_rule_names_the_field_and_the_place() {
        for (name, value) in [
            ("networkPlugin", json!("kubenet")),
            ("networkDataplane", json!("ebpf")),
            ("imageFamily", json!("Windows")),
            ("osDiskSizeGb", json!(10)),
            ("maxPods", json!(251)),
            ("kubernetesVersion", json!("latest")),
            ("vnetSubnetId", json!("subnet")),
            ("arch", json!("riscv")),
            ("clusterEndpoint", json!("https://")),
            ("caBundle", json!("!")),
            ("vnetGuid", json!("x")),
            ("kubeletIdentityClientId", json!("x")),
            ("adminUsername", json!("1x")),
            ("dnsServiceIp", json!("x")),
            ("taints", json!(["x"])),
            ("sysctls", json!({"vm.swappiness": "1\nkernel.panic=1"})),
            ("sysctls", json!({"a b": "1"})),
            ("localDnsVnetOverrides", json!({".": "x"})),
            ("SwapFileSizeMB", json!(10)),
            ("kubelet.imageGCHighThresholdPercent", json!(80)),
        ] {
            let found = problems(name, value);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert!(found[0].starts_with(&format!("--set {name}: `{name}`: ")), "{found:?}");
        }
    }

    #[test]
    fn a_good_id_and_a_mode_that_fits_pass() {
        assert_eq!(problems("vnetGuid", json!("11111111-1111-1111-1111-111111111111")), Vec::<String>::new());
        assert_eq!(problems("networkPlugin", json!("none")), Vec::<String>::new());
    }
}
