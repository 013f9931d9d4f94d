//! Plants secrets in every field and source that can contain one, and searches all output for them except the output of `render`.

use std::collections::BTreeMap;

use kiln_aks_formats::to_base64;
use kiln_bootstrap::{Field, SourceKind};
use serde_json::json;
use testkit::Finished;

use crate::fixture::{Folder, SOURCES, TOKEN};

/// Does not look like a secret, so only the field identifies it as one.
const PLANTED: &str = "hunter2-planted";

fn secret_inputs() -> Vec<&'static Field> {
    Field::all().iter().filter(|field| field.secret && field.is_input()).collect()
}

#[track_caller]
fn assert_clean(finished: &Finished) {
    let output = format!("{}{}", finished.stdout, finished.stderr);
    for secret in [PLANTED.to_owned(), to_base64(PLANTED)] {
        assert!(!output.contains(&secret), "{finished}");
    }
}

/// Checks the output of all commands for a set of sources.
fn assert_no_leak(folder: &Folder, environment: &[(&str, &str)], sources: &[&str]) {
    let run = |arguments: &[&str]| folder.run_with(environment, &[arguments, sources].concat());
    for field in secret_inputs() {
        assert_clean(&run(&["explain", field.name]));
    }
    for form in ["text", "json"] {
        assert_clean(&run(&["explain", "--output", form]));
        assert_clean(&run(&["drift", "--record", "then.record", "--output", form]));
        assert_clean(&folder.run_with(environment, &["diff", "then", ".", "--output", form]));
    }
    assert_clean(&run(&["render", "--to", "node-config"]));
    assert_clean(&run(&["render", "--to", "record"]));
    assert_clean(&folder.run_with(environment, &["diff", ".", "then.record"]));
    assert_clean(&folder.run_with(environment, &["check", "settings.yaml", "node-pool.yaml", "node-class.yaml"]));
    // Errors in other fields must not show the secret.
    assert_clean(&run(&["render", "--to", "env", "--set", "maxPods=1", "--set", "arch=x"]));
    assert_clean(&run(&["render", "--to", "env", "--set", "noSuchField=1"]));
}

fn planted_folder() -> Folder {
    let folder = Folder::new();
    assert_eq!(folder.with_sources(&["render", "--to", "record", "--out", "then.record"]).code, Some(0));
    for file in crate::fixture::FILES {
        folder.write(&format!("then/{file}"), &folder.read(file));
    }
    folder
}

#[test]
fn secret_fields_can_only_be_set_by_the_tested_sources() {
    let fields: BTreeMap<&str, &[SourceKind]> =
        secret_inputs().into_iter().map(|field| (field.name, field.kinds)).collect();
    let names: Vec<&str> = fields.keys().copied().collect();
    assert_eq!(names, ["CustomSearchRealmPassword", "HTTPProxyURLs", "HTTPSProxyURLs", "bootstrapToken"]);
    for kinds in fields.values() {
        assert!(kinds.iter().all(|kind| matches!(kind, SourceKind::Environment | SourceKind::Settings)), "{kinds:?}");
    }
}

#[test]
fn secret_in_settings_is_not_shown() {
    for field in secret_inputs() {
        let folder = planted_folder();
        folder.replace("settings.yaml", &format!("bootstrapToken: {TOKEN}\n"), "");
        let token = if field.name == "bootstrapToken" { "" } else { "bootstrapToken: other\n" };
        let text = format!("{}{token}{}: http://u:{PLANTED}@p\n", folder.read("settings.yaml"), field.name);
        folder.write("settings.yaml", &text);
        assert_no_leak(&folder, &[], &SOURCES);
        let script = folder.with_sources(&["render", "--to", "nbv-script"]).success();
        assert!(script.stdout.contains(PLANTED), "only render shows it");
    }
}

#[test]
fn secret_in_karpenter_settings_is_not_shown() {
    let folder = planted_folder();
    let lines = folder.read("settings.yaml");
    let entries = lines.lines().filter(|line| !line.starts_with('#') && !line.starts_with("additionalTags"));
    let entries = entries.map(|line| line.split_once(": ").expect("a field"));
    let mut data: BTreeMap<String, String> =
        entries.map(|(name, value)| (format!("azure.{name}"), value.trim_matches('"').to_owned())).collect();
    data.remove("azure.bootstrapToken");
    data.insert("azure.kubeletClientTLSBootstrapToken".to_owned(), PLANTED.to_owned());
    folder.write("settings.yaml", &json!({"kind": "ConfigMap", "data": data}).to_string());
    assert_no_leak(&folder, &[], &SOURCES);
    assert!(folder.with_sources(&["render", "--to", "env"]).success().stdout.contains(PLANTED));
}

#[test]
fn secret_in_environment_or_argument_is_not_shown() {
    let folder = planted_folder();
    folder.replace("settings.yaml", &format!("bootstrapToken: {TOKEN}\n"), "");
    assert_no_leak(&folder, &[("KUBELET_BOOTSTRAP_TOKEN", PLANTED)], &SOURCES);
    for field in secret_inputs() {
        let set = format!("{}={PLANTED}", field.name);
        assert_no_leak(&folder, &[], &[&SOURCES[..], &["--set", &set]].concat());
        // A wrong separator, a computed field, and a field of another type.
        assert_clean(&folder.with_sources(&["explain", "--set", &set.replace('=', ":")]));
        assert_clean(&folder.with_sources(&["explain", "--set", &format!("TLSBootstrapToken={PLANTED}")]));
        assert_clean(&folder.with_sources(&["explain", "--set", &format!("DisableSSH={PLANTED}")]));
    }
}

#[test]
fn misplaced_secret_is_rejected_and_not_shown() {
    let folder = planted_folder();
    let cases = [
        // A source that may not set the field.
        (
            "node-class.yaml",
            "bootstrap.kiln.dev/DisableSSH: \"true\"",
            format!("bootstrap.kiln.dev/bootstrapToken: {PLANTED}"),
        ),
        (
            "node-pool.yaml",
            "  name: general\n",
            format!("  name: general\n  annotations: {{bootstrap.kiln.dev/CustomSearchRealmPassword: {PLANTED}}}\n"),
        ),
        // A value of the wrong type.
        ("node-class.yaml", "maxPods: 60", format!("maxPods: {PLANTED}")),
        ("node-class.yaml", "podPidsLimit: 4096", format!("podPidsLimit: [{PLANTED}]")),
        ("node-class.yaml", "DisableSSH: \"true\"", format!("DisableSSH: \"{PLANTED}\"")),
        ("node-pool.yaml", "taints:\n", format!("taints: {PLANTED}\n      x:\n")),
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: [{PLANTED}]")),
        ("settings.yaml", "additionalTags: {owner: platform}", format!("additionalTags: {PLANTED}")),
        // Invalid YAML.
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: \"{PLANTED}")),
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: &a {PLANTED}\nx: *b")),
        (
            "settings.yaml",
            &format!("bootstrapToken: {TOKEN}"),
            format!("bootstrapToken: {PLANTED}\nbootstrapToken: {PLANTED}"),
        ),
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: !!int {PLANTED}")),
    ];
    for (file, old, new) in cases {
        let original = folder.read(file);
        folder.replace(file, old, &new);
        let finished = folder.with_sources(&["render", "--to", "nbv-script"]);
        assert_eq!(finished.code, Some(2), "{new}: {finished}");
        assert!(finished.stderr.contains(file), "the error names the file: {finished}");
        assert_clean(&finished);
        assert_clean(&folder.with_sources(&["explain", "--output", "json"]));
        assert_clean(&folder.with_sources(&["drift", "--record", "then.record"]));
        assert_clean(&folder.run(&["diff", "then", "."]));
        assert_clean(&folder.run(&["check", file]));
        folder.write(file, &original);
    }
}

#[test]
fn secret_in_a_node_config_is_an_error_with_field_and_position() {
    let folder = Folder::new();
    folder.write("settings.yaml", &format!("{}CustomSearchRealmPassword: {PLANTED}\n", folder.read("settings.yaml")));
    let finished = folder.with_sources(&["render", "--to", "node-config"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(finished.stderr.contains("settings.yaml:17:28: at `CustomSearchRealmPassword`: `CustomSearchRealmPassword` is a secret and a NodeConfig must not contain secrets"), "{finished}");
    assert_clean(&finished);
    for (proxy, refused) in [("http://proxy:3128", false), ("http://u:hunter2-planted@proxy:3128", true)] {
        let set = format!("HTTPProxyURLs={proxy}");
        let folder = Folder::new();
        let finished = folder.with_sources(&["render", "--to", "node-config", "--set", &set]);
        assert_eq!(finished.code == Some(2), refused, "{finished}");
        assert_clean(&finished);
    }
}

#[test]
fn secret_in_values_is_shown_only_in_allowed_targets() {
    let folder = Folder::new();
    let values = |token: &str, overrides: serde_json::Value| {
        json!({
            "kubernetes_version": "1.33.7", "ca_bundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "api_server_name": "a.example", "bootstrap_token": token, "tenant_id": "t", "subscription_id": "s", "location": "eastus",
            "resource_group": "g", "network_plugin": "none", "overrides": overrides,
            "subnet_id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/sub",
        })
        .to_string()
    };
    folder.write("a.json", &values(PLANTED, json!({})));
    folder.write("b.json", &values("other", json!({"CustomSearchRealmPassword": PLANTED, "HTTPProxyURLs": PLANTED, "ServicePrincipalFileContent": PLANTED, "KubeletClientContent": PLANTED})));
    folder.write("c.json", &values("other", json!({"DisableSSH": PLANTED})));
    folder.write("d.json", &values("other", json!({"TLSBootstrapToken": PLANTED})));
    for file in ["a.json", "b.json", "c.json", "d.json"] {
        for form in ["text", "json"] {
            assert_clean(&folder.run(&["check", file, "--output", form]));
            assert_clean(&folder.run(&["diff", file, "a.json", "--output", form]));
            assert_clean(&folder.run(&["diff", "a.json", file, "--output", form]));
            assert_clean(&folder.run(&["render", "--values", file, "--to", "node-config", "--output", form]));
            assert_clean(&folder.run(&["render", "--values", file, "--to", "record"]));
        }
    }
    assert!(
        folder.run(&["render", "--values", "a.json", "--to", "node-config"]).success().stdout.contains("customData")
    );
    assert_eq!(folder.run(&["render", "--values", "b.json", "--to", "node-config"]).code, Some(2));
    assert!(folder.run(&["diff", "a.json", "b.json"]).success().stdout.contains("CUSTOM_SEARCH_REALM_PASSWORD"));
    for target in ["env", "nbv-script", "aks-node-config"] {
        assert!(
            folder.run(&["render", "--values", "a.json", "--to", target]).success().stdout.contains(PLANTED),
            "{target}"
        );
    }
}

#[test]
fn secret_in_an_aks_node_config_is_shown_only_in_allowed_targets() {
    let folder = Folder::new();
    let fields = [
        ("auth_config", "service_principal_secret"),
        ("bootstrapping_config", "tls_bootstrapping_token"),
        ("custom_search_domain_config", "realm_password"),
        ("http_proxy_config", "http_proxy"),
        ("http_proxy_config", "https_proxy"),
        ("kubelet_config", "kubelet_client_key"),
    ];
    let base = folder.with_sources(&["render", "--to", "aks-node-config"]).success().stdout;
    folder.write("base.json", &base);
    for (message, field) in fields {
        let mut document: serde_json::Value = serde_json::from_str(&base).expect("JSON");
        let value = if field.contains("proxy") { format!("http://u:{PLANTED}@p") } else { PLANTED.to_owned() };
        document[message][field] = json!(value);
        folder.write("anc.json", &document.to_string());
        for form in ["text", "json"] {
            assert_clean(&folder.run(&["check", "anc.json", "--output", form]));
            assert_clean(&folder.run(&["diff", "base.json", "anc.json", "--output", form]));
            assert_clean(&folder.run(&["diff", "anc.json", "base.json", "--output", form]));
            assert_clean(&folder.run(&["diff", "anc.json", ".", "--output", form]));
            assert_clean(&folder.run(&[
                "render",
                "--aks-node-config",
                "anc.json",
                "--to",
                "node-config",
                "--output",
                form,
            ]));
        }
        assert!(folder.run(&["diff", "base.json", "anc.json"]).success().stdout.contains(field), "{field}");
        let own = folder.run(&["render", "--aks-node-config", "anc.json", "--to", "aks-node-config"]).success();
        assert!(own.stdout.contains(PLANTED), "{field}");
        // An error in the field itself.
        folder.write("bad.json", &document.to_string().replace(&format!("\"{value}\""), &format!("[\"{value}\"]")));
        let bad = folder.run(&["render", "--aks-node-config", "bad.json", "--to", "env"]);
        assert_eq!(bad.code, Some(2), "{field}: {bad}");
        assert_clean(&bad);
        assert_clean(&folder.run(&["check", "bad.json"]));
    }
}

#[test]
fn secret_in_a_node_config_is_rejected_and_not_shown() {
    let folder = Folder::new();
    let config = folder.with_sources(&["render", "--to", "node-config"]).success().stdout;
    for (old, new) in [
        ("\"flags\":{", "\"flags\":{\"--token\":\"abcdef.hunter2plantedxx\",".to_owned()),
        ("\"growRoot\":true", format!("\"growRoot\":\"{PLANTED}\"")),
        ("\"spec\":{", format!("\"spec\":{{\"password\":\"{PLANTED}\",")),
    ] {
        assert!(config.contains(old), "{old}");
        folder.write("config.json", &config.replacen(old, &new, 1));
        let finished = folder.run(&["check", "config.json"]);
        assert_eq!(finished.code, Some(1), "{finished}");
        assert_clean(&finished);
        assert!(!finished.stdout.contains("hunter2"), "{finished}");
        let diff = folder.run(&["diff", "config.json", "."]);
        assert_clean(&diff);
    }
}
