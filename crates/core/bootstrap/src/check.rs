//! Validation of resolved values beyond their type.

use std::fmt;

use kiln_aks_formats::karpenter::{LocalDnsZone, Taint};
use kiln_aks_formats::names::SubnetId;
use kiln_aks_formats::nbv::rules;
use kiln_aks_formats::{Arch, KubernetesVersion, from_base64};

use crate::field::Field;
use crate::provenance::{ErrorPosition, SourceKind, SourcePosition};
use crate::resolve::Resolved;

/// A value that is not valid for its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    pub field: &'static str,
    pub position: SourcePosition,
    /// Never contains a secret.
    pub reason: String,
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", ErrorPosition(&self.position), self.field, self.reason)
    }
}

/// All invalid values of a set of inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidValues(pub Vec<InvalidValue>);

/// Fields with a fixed set of values; an empty value means "not set".
const CHOICES: [(&str, &[&str]); 13] = [
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

/// Fields with a numeric range. The range includes the value for "not set".
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

/// Whether Azure accepts the text as a user name.
fn is_user_name(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

impl Resolved {
    /// Checks all values and returns every invalid one. Missing values are not an error here.
    pub fn check(&self) -> Result<(), InvalidValues> {
        let mut problems = Vec::new();
        let mut report = |name: &str, reason: String| {
            let position = self.get(name).map_or(SourcePosition::Program, |value| value.position.clone());
            problems.push(InvalidValue { field: Field::named(name).map_or("", |field| field.name), position, reason });
        };
        for (name, choices) in CHOICES {
            let value = self.text(name);
            if !choices.contains(&value) {
                let known: Vec<String> =
                    choices.iter().filter(|one| !one.is_empty()).map(|one| format!("`{one}`")).collect();
                report(name, format!("unsupported value `{value}`; expected one of {}", known.join(", ")));
            }
        }
        for (name, min, max) in BOUNDS {
            let number = self.number(name);
            if !(min..=max).contains(&number) {
                report(name, format!("{number} is not between {min} and {max}"));
            }
        }
        let pods = self.number("maxPods");
        if pods != 0 && !(10..=250).contains(&pods) {
            report("maxPods", format!("{pods} is not between 10 and 250"));
        }
        for (name, grammar) in GRAMMARS {
            let text = self.text(name);
            if let Some(reason) = Some(text).filter(|text| !text.is_empty()).and_then(grammar) {
                report(name, reason);
            }
        }
        self.check_combinations(&mut report);
        if problems.is_empty() { Ok(()) } else { Err(InvalidValues(problems)) }
    }

    /// Checks lists, maps and combinations of fields.
    fn check_combinations(&self, report: &mut impl FnMut(&str, String)) {
        let chosen = |name: &str| self.get(name).is_some_and(|value| !matches!(value.kind, SourceKind::Hardcoded(_)));
        if self.text("networkPlugin") == "none"
            && chosen("networkPluginMode")
            && !self.text("networkPluginMode").is_empty()
        {
            report("networkPluginMode", "a mode requires a network plugin".to_owned());
        }
        let (high, low) =
            (self.number("kubelet.imageGCHighThresholdPercent"), self.number("kubelet.imageGCLowThresholdPercent"));
        if high <= low {
            report(
                "kubelet.imageGCHighThresholdPercent",
                format!("{high} must be greater than `kubelet.imageGCLowThresholdPercent`, which is {low}"),
            );
        }
        if self.number("SwapFileSizeMB") > 0 && self.text("kubelet.failSwapOn") != "false" {
            report(
                "SwapFileSizeMB",
                "the kubelet does not start with swap unless `kubelet.failSwapOn` is `false`".to_owned(),
            );
        }
        for (name, text) in self.map("sysctls") {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-/*".contains(c);
            if name.is_empty() || !name.chars().all(plain) || text.contains(['\n', '\r']) {
                report(
                    "sysctls",
                    format!("invalid sysctl `{name}`; expected a kernel parameter name and a value on one line"),
                );
            }
        }
        for field in ["localDnsVnetOverrides", "localDnsKubeOverrides"] {
            for (zone, json) in self.map(field) {
                if serde_json::from_str::<LocalDnsZone>(&json).is_err() {
                    report(field, format!("the override of zone `{zone}` is not valid JSON for a LocalDNS zone"));
                }
            }
        }
        for name in ["taints", "startupTaints"] {
            for taint in self.list(name) {
                if let Err(bad) = taint.parse::<Taint>() {
                    report(name, bad.to_string());
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
    ("caBundle", |text| from_base64(text.trim()).is_err().then(|| "expected base64".to_owned())),
    ("vnetGuid", |text| (!is_uuid(text)).then(|| format!("`{text}` is not a GUID"))),
    ("kubeletIdentityClientId", |text| (!is_uuid(text)).then(|| format!("`{text}` is not a client ID"))),
    ("adminUsername", |text| {
        (!is_user_name(text)).then(|| {
            format!("invalid user name `{text}`; expected a letter, then letters, digits, `-` and `_`, at most 32 characters")
        })
    }),
    ("dnsServiceIp", |text| {
        text.parse::<std::net::IpAddr>().is_err().then(|| format!("`{text}` is not an IP address"))
    }),
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resolve::resolve;
    use crate::source::Source;

    fn problems(name: &str, value: Value) -> Vec<String> {
        let mut source = Source::new(Field::named(name).unwrap().highest_kind().unwrap());
        source.set(name, value, SourcePosition::Argument(format!("--set {name}"))).unwrap();
        resolve(&[source])
            .check()
            .err()
            .map_or_else(Vec::new, |problems| problems.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(resolve(&[]).check(), Ok(()));
    }

    #[test]
    fn errors_name_field_and_position() {
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
    fn valid_values_pass() {
        assert_eq!(problems("vnetGuid", json!("11111111-1111-1111-1111-111111111111")), Vec::<String>::new());
        assert_eq!(problems("networkPlugin", json!("none")), Vec::<String>::new());
    }
}
