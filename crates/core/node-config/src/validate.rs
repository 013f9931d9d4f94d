//! What a document may say.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::hub::NodeConfig;
use crate::secrets;
use crate::spec::{CredentialKind, File, GateKind, Spec, TaintEffect};

/// Something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field.
    pub path: String,
    /// What is wrong and what would be right. A secret is never shown.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Everything that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<Violation>);

struct Checker(Vec<Violation>);

impl Checker {
    /// What looks like a secret is not repeated, be it the value or the name that a path is made of.
    fn say(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        let (path, reason) = (path.into(), reason.into());
        let shown = secrets::looks_secret(&path)
            .map_or(path.clone(), |_| path.split('[').next().unwrap_or_default().to_owned() + "[***]");
        let reason = secrets::looks_secret(&reason)
            .map_or(reason, |looks| format!("the value cannot be this, and it looks like {looks}"));
        self.0.push(Violation { path: shown, reason });
    }

    fn when(&mut self, wrong: bool, path: impl Into<String>, reason: impl Into<String>) {
        if wrong {
            self.say(path, reason);
        }
    }

    fn done(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
    }

    fn unique<'a>(&mut self, path: &str, names: impl Iterator<Item = &'a String>) {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                self.say(path, format!("`{name}` is there twice"));
            }
        }
    }
}

impl NodeConfig {
    /// Whether the document can be; all that is wrong, if not.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checker = self.values();
        for found in self.secrets() {
            checker.say(
                found.path,
                format!("this looks like {}; a document says where a secret is and never holds one", found.looks_like),
            );
        }
        checker.done()
    }

    /// The same without the search for secrets, which costs more than the rest: for a document that was searched when it was read.
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

/// An absolute path without steps back: what it names is what it says.
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
    checker.when(!is_https(&cluster.endpoint), "spec.cluster.endpoint", "an `https://` URL is needed");
    let ca = &cluster.certificate_authority;
    checker.when(!is_pem(ca), "spec.cluster.certificateAuthority", "PEM certificates are needed");
    for (index, ip) in cluster.dns.service_ips.iter().enumerate() {
        let bad = ip.parse::<std::net::IpAddr>().is_err();
        checker.when(bad, format!("spec.cluster.dns.serviceIps[{index}]"), format!("`{ip}` is no address"));
    }
    checker.unique("spec.registries", spec.registries.iter().map(|registry| &registry.host));
    for registry in &spec.registries {
        let path = format!("spec.registries[{}]", registry.host);
        checker.when(
            registry.host.is_empty() || registry.host.contains('/'),
            &path,
            "a host is needed, without a path",
        );
        for mirror in &registry.mirrors {
            let known = mirror.starts_with("https://") || mirror.starts_with("http://");
            checker.when(!known, format!("{path}.mirrors"), format!("`{mirror}` is no URL"));
        }
        let ca = &registry.certificate_authority;
        checker.when(
            !ca.is_empty() && !is_pem(ca),
            format!("{path}.certificateAuthority"),
            "PEM certificates are needed",
        );
    }
    let mtu = spec.network.mtu;
    checker.when(
        mtu != 0 && !(576..=65_535).contains(&mtu),
        "spec.network.mtu",
        format!("{mtu} is not between 576 and 65535"),
    );
}

fn kubelet(spec: &Spec, checker: &mut Checker) {
    let kubelet = &spec.kubelet;
    checker.when(
        !is_version(&kubelet.version),
        "spec.kubelet.version",
        format!("`{}` is no version, as in 1.33.7", kubelet.version),
    );
    for flag in kubelet.flags.keys().filter(|flag| !flag.starts_with("--") || flag.contains(['=', ' '])) {
        checker.say("spec.kubelet.flags", format!("`{flag}` is no flag: two dashes and a name"));
    }
    for (key, value) in &kubelet.labels {
        let good = is_label(key) && is_label_value(value);
        checker.when(!good, format!("spec.kubelet.labels[{key}]"), format!("`{key}={value}` is no label"));
    }
    for (index, taint) in kubelet.taints.iter().enumerate() {
        let path = format!("spec.kubelet.taints[{index}]");
        checker.when(
            !is_label(&taint.key) || !is_label_value(&taint.value),
            &path,
            format!("`{}={}` is no taint", taint.key, taint.value),
        );
        checker.when(taint.effect == TaintEffect::Unset, format!("{path}.effect"), "an effect is needed");
    }
    checker
        .unique("spec.kubelet.credentialProviders", kubelet.credential_providers.iter().map(|provider| &provider.name));
    for provider in &kubelet.credential_providers {
        let bad = provider.name.is_empty() || provider.name.contains('/');
        checker.when(bad, "spec.kubelet.credentialProviders", format!("`{}` is no name of a program", provider.name));
    }
    for (path, folder) in [("spec.kubelet.root", &kubelet.root), ("spec.runtime.root", &spec.runtime.root)] {
        checker.when(!folder.is_empty() && !is_path(folder), path, format!("`{folder}` is no absolute path"));
    }
    let node_ip = &kubelet.node_ip;
    checker.when(
        !node_ip.is_empty() && node_ip.parse::<std::net::IpAddr>().is_err(),
        "spec.kubelet.nodeIp",
        format!("`{node_ip}` is no address"),
    );
    let runtime = &spec.runtime.version;
    checker.when(
        !runtime.is_empty() && !is_version(runtime),
        "spec.runtime.version",
        format!("`{runtime}` is no version, as in 2.0.1"),
    );
}

fn system(spec: &Spec, checker: &mut Checker) {
    let os = &spec.os;
    for (name, value) in &os.sysctl {
        let good = name.contains(['.', '/']) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        let path = format!("spec.os.sysctl[{name}]");
        checker.when(!good || name.contains(".."), &path, format!("`{name}` is no setting of the kernel"));
        checker.when(value.contains(['\n', '\0']), &path, "a value has one line");
    }
    let words = ["", "always", "madvise", "never"];
    let transparent = os.huge_pages.transparent.as_str();
    checker.when(
        !words.contains(&transparent),
        "spec.os.hugePages.transparent",
        format!("`{transparent}` is none of always, madvise, never"),
    );
    let defrag = os.huge_pages.defrag.as_str();
    let known = [&words[..], &["defer", "defer+madvise"]].concat().contains(&defrag);
    checker.when(
        !known,
        "spec.os.hugePages.defrag",
        format!("`{defrag}` is none of always, defer, defer+madvise, madvise, never"),
    );
    for name in os.limits.keys().filter(|name| !name.starts_with("Limit")) {
        checker.say("spec.os.limits", format!("`{name}` is no limit: as in LimitNOFILE"));
    }
    for (index, ca) in os.certificate_authorities.iter().enumerate() {
        checker.when(!is_pem(ca), format!("spec.os.certificateAuthorities[{index}]"), "a PEM certificate is needed");
    }
}

fn platform(spec: &Spec, checker: &mut Checker) {
    let name = &spec.platform.host_name;
    let good = name.len() <= 63
        && is_label(name)
        && !name.contains(['_', '/'])
        && name.chars().all(|c| !c.is_ascii_uppercase());
    checker.when(!name.is_empty() && !good, "spec.platform.hostName", format!("`{name}` is no host name"));
    checker.unique("spec.platform.users", spec.platform.users.iter().map(|user| &user.name));
    for user in &spec.platform.users {
        let good = user.name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && user.name.len() <= 32
            && user.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
        checker.when(
            !good,
            format!("spec.platform.users[{}]", user.name),
            "a name of lower-case letters, digits, - and _ is needed",
        );
        let one_line = user.ssh_keys.iter().all(|key| !key.contains(['\n', '\0']) && key.contains(' '));
        checker.when(
            !one_line,
            format!("spec.platform.users[{}].sshKeys", user.name),
            "a key is one line: its kind and itself",
        );
    }
    let mount = &spec.platform.temporary_disk.mount_path;
    checker.when(
        !mount.is_empty() && !is_path(mount),
        "spec.platform.temporaryDisk.mountPath",
        format!("`{mount}` is no absolute path"),
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
        checker.when(!is_unit(&unit.name), &path, format!("`{}` is no name of a unit", unit.name));
        checker.unique(&format!("{path}.dropIns"), unit.drop_ins.iter().map(|drop_in| &drop_in.name));
        for drop_in in unit.drop_ins.iter().filter(|drop_in| {
            drop_in.name.rsplit_once('.').is_none_or(|(_, ending)| ending != "conf") || drop_in.name.contains('/')
        }) {
            checker.say(format!("{path}.dropIns[{}]", drop_in.name), "a file name that ends with .conf is needed");
        }
    }
}

fn one_file(file: &File, path: &str, checker: &mut Checker) {
    checker.when(!is_path(&file.path), path, format!("`{}` is no absolute path", file.path));
    let mode = file.mode.as_str();
    let octal = (3..=4).contains(&mode.len()) && mode.bytes().all(|b| (b'0'..=b'7').contains(&b));
    checker.when(!mode.is_empty() && !octal, format!("{path}.mode"), format!("`{mode}` is no mode, as in 0644"));
    // A fourth digit is setuid, setgid and sticky. kilnd may not set them once a node runs: a document that does would do so at boot alone.
    checker.when(
        octal && mode.len() == 4 && !mode.starts_with('0'),
        format!("{path}.mode"),
        format!("`{mode}` is setuid, setgid or sticky: a document gives nobody the rights of another; as in 0755"),
    );
    let both = !file.content.is_empty() && !file.content_base64.is_empty();
    checker.when(both, path, "content and contentBase64 exclude each other");
    checker.when(STANDARD.decode(&file.content_base64).is_err(), format!("{path}.contentBase64"), "base64 is needed");
    for unit in file.restarts.iter().chain(&file.reloads).filter(|unit| !is_unit(unit)) {
        checker.say(path, format!("`{unit}` is no name of a unit"));
    }
}

fn policy(spec: &Spec, checker: &mut Checker) {
    let from = &spec.credential_from;
    let path = "spec.credentialFrom";
    match from.kind {
        CredentialKind::File | CredentialKind::ProtectedSettings => {
            checker.when(!is_path(&from.name), format!("{path}.name"), format!("`{}` is no absolute path", from.name));
        }
        CredentialKind::SystemCredential => {
            checker.when(from.name.is_empty(), format!("{path}.name"), "a name is needed");
        }
        CredentialKind::Unset => {
            checker.when(
                !from.name.is_empty() || !from.endpoint.is_empty(),
                format!("{path}.kind"),
                "a kind of place is needed",
            );
        }
        CredentialKind::CustomData => {
            checker.when(
                !from.name.is_empty(),
                format!("{path}.name"),
                "custom data holds one credential, without a name",
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
            // A gate must not depend on another machine: that one's trouble would roll back every node.
            GateKind::HttpOk => {
                ["http://127.0.0.1", "http://localhost", "http://[::1]", "https://127.0.0.1", "https://localhost"]
                    .iter()
                    .any(|own| {
                        gate.target
                            .strip_prefix(own)
                            .is_some_and(|rest| rest.starts_with([':', '/']) || rest.is_empty())
                    })
            }
            GateKind::KubeletHealthy | GateKind::NodeReady => gate.target.is_empty(),
            GateKind::Unset => false,
        };
        checker.when(!good, path, format!("`{}` is no target of `{}`", gate.target, gate.kind.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn good() -> Value {
        json!({"cluster": {"endpoint": "https://api.example:443", "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"},
               "kubelet": {"version": "1.33.7"}})
    }

    fn violations(change: &Value) -> Vec<String> {
        let mut spec = good();
        merge(&mut spec, change);
        let config = NodeConfig { spec: serde_json::from_value(spec).unwrap(), ..NodeConfig::default() };
        config
            .check()
            .err()
            .map_or_else(Vec::new, |invalid| invalid.0.into_iter().map(|violation| violation.path).collect())
    }

    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (name, value) in from {
                    merge(into.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }

    #[test]
    fn the_least_document_is_good() {
        assert_eq!(violations(&json!({})), Vec::<String>::new());
    }

    #[test]
    fn each_rule_names_the_field_that_breaks_it() {
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
    fn modes_of_three_digits_and_of_four_that_begin_with_0_are_good() {
        for mode in ["", "644", "0644", "777", "0777"] {
            assert_eq!(violations(&json!({"files": [{"path": "/a", "mode": mode}]})), Vec::<String>::new(), "{mode}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        assert_eq!(violations(&json!({"cluster": {"endpoint": ""}, "kubelet": {"version": ""}})).len(), 2);
    }

    #[test]
    fn a_planted_secret_is_refused_and_not_shown() {
        let mut spec = good();
        merge(&mut spec, &json!({"files": [{"path": "/a", "content": "abcdef.0123456789abcdef"}]}));
        let config = NodeConfig { spec: serde_json::from_value(spec).unwrap(), ..NodeConfig::default() };
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("spec.files[0].content") && !error.contains("0123456789abcdef"));
    }
}
