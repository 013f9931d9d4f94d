//! Validation of documents.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::node_config::NodeConfig;
use crate::secrets;
use crate::spec::{CredentialKind, File, GateKind, Spec, TaintEffect};

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    /// Never contains a secret.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// All invalid fields of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<Violation>);

struct Checker(Vec<Violation>);

impl Checker {
    /// Adds a violation. Text that looks like a secret is redacted in the reason and in the path.
    fn report(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        let (path, reason) = (path.into(), reason.into());
        let shown = secrets::classify(&path)
            .map_or(path.clone(), |_| path.split('[').next().unwrap_or_default().to_owned() + "[***]");
        let reason = secrets::classify(&reason)
            .map_or(reason, |looks_like| format!("invalid value, which looks like {looks_like}"));
        self.0.push(Violation { path: shown, reason });
    }

    fn report_if(&mut self, invalid: bool, path: impl Into<String>, reason: impl Into<String>) {
        if invalid {
            self.report(path, reason);
        }
    }

    fn done(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
    }

    fn unique<'a>(&mut self, path: &str, names: impl Iterator<Item = &'a String>) {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                self.report(path, format!("duplicate `{name}`"));
            }
        }
    }
}

impl NodeConfig {
    /// Validates the document and returns all violations.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checker = self.values();
        for found in self.suspected_secrets() {
            checker.report(found.path.clone(), format!("{found}; a NodeConfig must not contain secrets"));
        }
        checker.done()
    }

    /// Validates the document without searching for secrets, which costs more than the rest. For documents that were already searched.
    pub fn check_values(&self) -> Result<(), Invalid> {
        self.values().done()
    }

    fn values(&self) -> Checker {
        let mut checker = Checker(Vec::new());
        cluster(&self.spec, &mut checker);
        kubelet(&self.spec, &mut checker);
        system(&self.spec, &mut checker);
        platform(&self.spec, &mut checker);
        content(&self.spec, &mut checker);
        policy(&self.spec, &mut checker);
        checker
    }
}

fn is_https(url: &str) -> bool {
    url.strip_prefix("https://")
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace))
}

fn is_version(text: &str) -> bool {
    let plain = text.split(['-', '+']).next().unwrap_or_default();
    plain.split('.').count() == 3
        && plain.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether the path is absolute and without `.` and `..`.
fn is_path(path: &str) -> bool {
    path.starts_with('/')
        && path.len() > 1
        && !path.contains('\0')
        && !path.split('/').any(|part| part == ".." || part == ".")
}

fn is_unit(name: &str) -> bool {
    let (stem, kind) = name.rsplit_once('.').unwrap_or_default();
    let plain = stem.chars().all(|c| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c));
    !stem.is_empty()
        && plain
        && ["service", "socket", "timer", "path", "mount", "target", "slice", "swap"].contains(&kind)
}

fn is_label(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').unwrap_or(("x", key));
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    prefix.len() <= 253 && (1..=63).contains(&name.len()) && plain(prefix) && plain(name) && ends(prefix) && ends(name)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || (!value.contains('/') && is_label(value))
}

fn is_pem(text: &str) -> bool {
    text.contains("-----BEGIN CERTIFICATE-----") && text.contains("-----END CERTIFICATE-----")
}

fn cluster(spec: &Spec, checker: &mut Checker) {
    let cluster = &spec.cluster;
    checker.report_if(!is_https(&cluster.endpoint), "spec.cluster.endpoint", "expected an `https://` URL");
    let ca = &cluster.certificate_authority;
    checker.report_if(!is_pem(ca), "spec.cluster.certificateAuthority", "expected PEM certificates");
    for (index, ip) in cluster.dns.service_ips.iter().enumerate() {
        let bad = ip.parse::<std::net::IpAddr>().is_err();
        checker.report_if(bad, format!("spec.cluster.dns.serviceIps[{index}]"), format!("`{ip}` is not an IP address"));
    }
    checker.unique("spec.registries", spec.registries.iter().map(|registry| &registry.host));
    for registry in &spec.registries {
        let path = format!("spec.registries[{}]", registry.host);
        checker.report_if(
            registry.host.is_empty() || registry.host.contains('/'),
            &path,
            "expected a host without a path",
        );
        for mirror in &registry.mirrors {
            let known = mirror.starts_with("https://") || mirror.starts_with("http://");
            checker.report_if(!known, format!("{path}.mirrors"), format!("`{mirror}` is not a URL"));
        }
        let ca = &registry.certificate_authority;
        checker.report_if(
            !ca.is_empty() && !is_pem(ca),
            format!("{path}.certificateAuthority"),
            "expected PEM certificates",
        );
    }
    let mtu = spec.network.mtu;
    checker.report_if(
        mtu != 0 && !(576..=65_535).contains(&mtu),
        "spec.network.mtu",
        format!("{mtu} is not between 576 and 65535"),
    );
}

fn kubelet(spec: &Spec, checker: &mut Checker) {
    let kubelet = &spec.kubelet;
    checker.report_if(
        !is_version(&kubelet.version),
        "spec.kubelet.version",
        format!("invalid version `{}`; expected a version such as `1.33.7`", kubelet.version),
    );
    for flag in kubelet.flags.keys().filter(|flag| !flag.starts_with("--") || flag.contains(['=', ' '])) {
        checker.report("spec.kubelet.flags", format!("invalid flag `{flag}`; expected two dashes and a name"));
    }
    for (key, value) in &kubelet.labels {
        let good = is_label(key) && is_label_value(value);
        checker.report_if(!good, format!("spec.kubelet.labels[{key}]"), format!("invalid label `{key}={value}`"));
    }
    for (index, taint) in kubelet.taints.iter().enumerate() {
        let path = format!("spec.kubelet.taints[{index}]");
        checker.report_if(
            !is_label(&taint.key) || !is_label_value(&taint.value),
            &path,
            format!("invalid taint `{}={}`", taint.key, taint.value),
        );
        checker.report_if(taint.effect == TaintEffect::Unset, format!("{path}.effect"), "the effect is not set");
    }
    checker
        .unique("spec.kubelet.credentialProviders", kubelet.credential_providers.iter().map(|provider| &provider.name));
    for provider in &kubelet.credential_providers {
        let bad = provider.name.is_empty() || provider.name.contains('/');
        checker.report_if(
            bad,
            "spec.kubelet.credentialProviders",
            format!("invalid executable name `{}`", provider.name),
        );
    }
    for (path, folder) in [("spec.kubelet.root", &kubelet.root), ("spec.runtime.root", &spec.runtime.root)] {
        checker.report_if(!folder.is_empty() && !is_path(folder), path, format!("`{folder}` is not an absolute path"));
    }
    let node_ip = &kubelet.node_ip;
    checker.report_if(
        !node_ip.is_empty() && node_ip.parse::<std::net::IpAddr>().is_err(),
        "spec.kubelet.nodeIp",
        format!("`{node_ip}` is not an IP address"),
    );
    let runtime = &spec.runtime.version;
    checker.report_if(
        !runtime.is_empty() && !is_version(runtime),
        "spec.runtime.version",
        format!("invalid version `{runtime}`; expected a version such as `2.0.1`"),
    );
}

fn system(spec: &Spec, checker: &mut Checker) {
    let os = &spec.os;
    for (name, value) in &os.sysctl {
        let good = name.contains(['.', '/']) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        let path = format!("spec.os.sysctl[{name}]");
        checker.report_if(!good || name.contains(".."), &path, format!("invalid kernel parameter `{name}`"));
        checker.report_if(value.contains(['\n', '\0']), &path, "the value must be a single line");
    }
    let modes = ["", "always", "madvise", "never"];
    let transparent = os.huge_pages.transparent.as_str();
    checker.report_if(
        !modes.contains(&transparent),
        "spec.os.hugePages.transparent",
        format!("unsupported value `{transparent}`; expected `always`, `madvise` or `never`"),
    );
    let defrag = os.huge_pages.defrag.as_str();
    let known = [&modes[..], &["defer", "defer+madvise"]].concat().contains(&defrag);
    checker.report_if(
        !known,
        "spec.os.hugePages.defrag",
        format!("unsupported value `{defrag}`; expected `always`, `defer`, `defer+madvise`, `madvise` or `never`"),
    );
    for name in os.limits.keys().filter(|name| !name.starts_with("Limit")) {
        checker.report("spec.os.limits", format!("invalid limit `{name}`; expected a name such as `LimitNOFILE`"));
    }
    for (index, ca) in os.certificate_authorities.iter().enumerate() {
        checker.report_if(
            !is_pem(ca),
            format!("spec.os.certificateAuthorities[{index}]"),
            "expected a PEM certificate",
        );
    }
}

fn platform(spec: &Spec, checker: &mut Checker) {
    let name = &spec.platform.host_name;
    let good = name.len() <= 63
        && is_label(name)
        && !name.contains(['_', '/'])
        && name.chars().all(|c| !c.is_ascii_uppercase());
    checker.report_if(!name.is_empty() && !good, "spec.platform.hostName", format!("invalid host name `{name}`"));
    checker.unique("spec.platform.users", spec.platform.users.iter().map(|user| &user.name));
    for user in &spec.platform.users {
        let good = user.name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && user.name.len() <= 32
            && user.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
        checker.report_if(
            !good,
            format!("spec.platform.users[{}]", user.name),
            "expected a name of lower-case letters, digits, `-` and `_`",
        );
        let one_line = user.ssh_keys.iter().all(|key| !key.contains(['\n', '\0']) && key.contains(' '));
        checker.report_if(
            !one_line,
            format!("spec.platform.users[{}].sshKeys", user.name),
            "expected one line with key type and key",
        );
    }
    let mount = &spec.platform.temporary_disk.mount_path;
    checker.report_if(
        !mount.is_empty() && !is_path(mount),
        "spec.platform.temporaryDisk.mountPath",
        format!("`{mount}` is not an absolute path"),
    );
}

fn content(spec: &Spec, checker: &mut Checker) {
    checker.unique("spec.files", spec.files.iter().map(|file| &file.path));
    for file in &spec.files {
        one_file(file, &format!("spec.files[{}]", file.path), checker);
    }
    checker.unique("spec.units", spec.units.iter().map(|unit| &unit.name));
    for unit in &spec.units {
        let path = format!("spec.units[{}]", unit.name);
        checker.report_if(!is_unit(&unit.name), &path, format!("invalid unit name `{}`", unit.name));
        checker.unique(&format!("{path}.dropIns"), unit.drop_ins.iter().map(|drop_in| &drop_in.name));
        for drop_in in unit.drop_ins.iter().filter(|drop_in| {
            drop_in.name.rsplit_once('.').is_none_or(|(_, ending)| ending != "conf") || drop_in.name.contains('/')
        }) {
            checker.report(format!("{path}.dropIns[{}]", drop_in.name), "expected a file name that ends with `.conf`");
        }
    }
}

fn one_file(file: &File, path: &str, checker: &mut Checker) {
    checker.report_if(!is_path(&file.path), path, format!("`{}` is not an absolute path", file.path));
    let mode = file.mode.as_str();
    let octal = (3..=4).contains(&mode.len()) && mode.bytes().all(|b| (b'0'..=b'7').contains(&b));
    checker.report_if(
        !mode.is_empty() && !octal,
        format!("{path}.mode"),
        format!("invalid mode `{mode}`; expected a mode such as `0644`"),
    );
    // kilnd's sandbox forbids setuid, setgid and sticky bits on a running node, so a document with them could only be applied at boot.
    checker.report_if(
        octal && mode.len() == 4 && !mode.starts_with('0'),
        format!("{path}.mode"),
        format!("mode `{mode}` sets setuid, setgid or sticky, which is not allowed; expected a mode such as `0755`"),
    );
    let both = !file.content.is_empty() && !file.content_base64.is_empty();
    checker.report_if(both, path, "`content` and `contentBase64` are mutually exclusive");
    checker.report_if(
        STANDARD.decode(&file.content_base64).is_err(),
        format!("{path}.contentBase64"),
        "expected base64",
    );
    for unit in file.restarts.iter().chain(&file.reloads).filter(|unit| !is_unit(unit)) {
        checker.report(path, format!("invalid unit name `{unit}`"));
    }
}

fn policy(spec: &Spec, checker: &mut Checker) {
    let from = &spec.credential_from;
    let path = "spec.credentialFrom";
    match from.kind {
        CredentialKind::File | CredentialKind::ProtectedSettings => {
            checker.report_if(
                !is_path(&from.name),
                format!("{path}.name"),
                format!("`{}` is not an absolute path", from.name),
            );
        }
        CredentialKind::SystemCredential => {
            checker.report_if(from.name.is_empty(), format!("{path}.name"), "the name is not set");
        }
        CredentialKind::Unset => {
            checker.report_if(
                !from.name.is_empty() || !from.endpoint.is_empty(),
                format!("{path}.kind"),
                "the kind is not set",
            );
        }
        CredentialKind::CustomData => {
            checker.report_if(
                !from.name.is_empty(),
                format!("{path}.name"),
                "custom data contains one credential without a name",
            );
        }
        CredentialKind::AttestedIdentity | CredentialKind::ManagedIdentity => {}
    }
    checker.unique("spec.health.gates", spec.health.gates.iter().map(|gate| &gate.name));
    for gate in &spec.health.gates {
        let path = format!("spec.health.gates[{}]", gate.name);
        let good = match gate.kind {
            GateKind::UnitActive => is_unit(&gate.target),
            GateKind::FileExists => is_path(&gate.target),
            // A gate must not depend on another machine, whose failure would revert every node.
            GateKind::HttpOk => {
                ["http://127.0.0.1", "http://localhost", "http://[::1]", "https://127.0.0.1", "https://localhost"]
                    .iter()
                    .any(|local| {
                        gate.target
                            .strip_prefix(local)
                            .is_some_and(|rest| rest.starts_with([':', '/']) || rest.is_empty())
                    })
            }
            GateKind::KubeletHealthy | GateKind::NodeReady => gate.target.is_empty(),
            GateKind::Unset => false,
        };
        checker.report_if(
            !good,
            path,
            format!("invalid target `{}` for a gate of kind `{}`", gate.target, gate.kind.as_str()),
        );
    }
}

#[cfg(test)]
mod tests {
    use kiln_types::json::merge_patch;
    use serde_json::{Value, json};

    use super::*;

    fn minimal() -> Value {
        json!({"cluster": {"endpoint": "https://api.example:443", "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"},
               "kubelet": {"version": "1.33.7"}})
    }

    fn violations(change: &Value) -> Vec<String> {
        let mut spec = minimal();
        merge_patch(&mut spec, change);
        let config = NodeConfig { spec: serde_json::from_value(spec).unwrap(), ..NodeConfig::default() };
        config
            .check()
            .err()
            .map_or_else(Vec::new, |invalid| invalid.0.into_iter().map(|violation| violation.path).collect())
    }

    #[test]
    fn minimal_document_is_valid() {
        assert_eq!(violations(&json!({})), Vec::<String>::new());
    }

    #[test]
    fn violations_name_the_field() {
        for (change, path) in [
            (json!({"cluster": {"endpoint": "http://x"}}), "spec.cluster.endpoint"),
            (json!({"cluster": {"certificateAuthority": "x"}}), "spec.cluster.certificateAuthority"),
            (json!({"cluster": {"dns": {"serviceIps": ["10.0.0.10", "x"]}}}), "spec.cluster.dns.serviceIps[1]"),
            (json!({"registries": [{"host": "a/b"}]}), "spec.registries[a/b]"),
            (json!({"registries": [{"host": "a", "mirrors": ["x"]}]}), "spec.registries[a].mirrors"),
            (json!({"network": {"mtu": 100}}), "spec.network.mtu"),
            (json!({"kubelet": {"version": "1.33"}}), "spec.kubelet.version"),
            (json!({"kubelet": {"flags": {"x": "y"}}}), "spec.kubelet.flags"),
            (json!({"kubelet": {"labels": {"-a": "b"}}}), "spec.kubelet.labels[-a]"),
            (json!({"kubelet": {"taints": [{"key": "a"}]}}), "spec.kubelet.taints[0].effect"),
            (json!({"kubelet": {"nodeIp": "x"}}), "spec.kubelet.nodeIp"),
            (json!({"kubelet": {"root": "../x"}}), "spec.kubelet.root"),
            (json!({"os": {"sysctl": {"a.b": "1\n2"}}}), "spec.os.sysctl[a.b]"),
            (json!({"os": {"sysctl": {"../x": "1"}}}), "spec.os.sysctl[../x]"),
            (json!({"os": {"hugePages": {"transparent": "maybe"}}}), "spec.os.hugePages.transparent"),
            (json!({"os": {"limits": {"NOFILE": "1"}}}), "spec.os.limits"),
            (json!({"os": {"certificateAuthorities": ["x"]}}), "spec.os.certificateAuthorities[0]"),
            (json!({"os": {"proxy": {"http": "http://u:p@h"}}}), "spec.os.proxy.http"),
            (json!({"platform": {"hostName": "A_b"}}), "spec.platform.hostName"),
            (json!({"platform": {"users": [{"name": "Root"}]}}), "spec.platform.users[Root]"),
            (json!({"platform": {"users": [{"name": "a", "sshKeys": ["x\ny z"]}]}}), "spec.platform.users[a].sshKeys"),
            (json!({"files": [{"path": "/a/../b"}]}), "spec.files[/a/../b]"),
            (json!({"files": [{"path": "/a"}, {"path": "/a"}]}), "spec.files"),
            (json!({"files": [{"path": "/a", "mode": "0999"}]}), "spec.files[/a].mode"),
            (json!({"files": [{"path": "/a", "mode": "4755"}]}), "spec.files[/a].mode"),
            (json!({"files": [{"path": "/a", "mode": "2755"}]}), "spec.files[/a].mode"),
            (json!({"files": [{"path": "/a", "mode": "1777"}]}), "spec.files[/a].mode"),
            (json!({"files": [{"path": "/a", "contentBase64": "!"}]}), "spec.files[/a].contentBase64"),
            (json!({"units": [{"name": "x"}]}), "spec.units[x]"),
            (json!({"units": [{"name": "x.service", "dropIns": [{"name": "y"}]}]}), "spec.units[x.service].dropIns[y]"),
            (json!({"credentialFrom": {"kind": "file", "name": "x"}}), "spec.credentialFrom.name"),
            (json!({"credentialFrom": {"kind": "protectedSettings"}}), "spec.credentialFrom.name"),
            (json!({"credentialFrom": {"kind": "customData", "name": "x"}}), "spec.credentialFrom.name"),
            (json!({"credentialFrom": {"name": "x"}}), "spec.credentialFrom.kind"),
            (
                json!({"health": {"gates": [{"name": "g", "kind": "httpOk", "target": "http://127.0.0.1.evil.example/"}]}}),
                "spec.health.gates[g]",
            ),
        ] {
            assert_eq!(violations(&change), [path], "{change}");
        }
    }

    #[test]
    fn modes_without_special_bits_are_valid() {
        for mode in ["", "644", "0644", "777", "0777"] {
            assert_eq!(violations(&json!({"files": [{"path": "/a", "mode": mode}]})), Vec::<String>::new(), "{mode}");
        }
    }

    #[test]
    fn all_violations_are_reported() {
        assert_eq!(violations(&json!({"cluster": {"endpoint": ""}, "kubelet": {"version": ""}})).len(), 2);
    }

    #[test]
    fn planted_secret_is_rejected_and_not_shown() {
        let mut spec = minimal();
        merge_patch(&mut spec, &json!({"files": [{"path": "/a", "content": "abcdef.0123456789abcdef"}]}));
        let config = NodeConfig { spec: serde_json::from_value(spec).unwrap(), ..NodeConfig::default() };
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("spec.files[0].content") && !error.contains("0123456789abcdef"));
    }
}
