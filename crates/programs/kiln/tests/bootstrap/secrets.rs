//! Secrets are planted in every field that can hold one and in every source that can bring one, and searched for in everything that
//! the program says but what `render` emits.

use std::collections::BTreeMap;

use kiln_aks_formats::to_base64;
use kiln_bootstrap::{Field, Kind};
use serde_json::json;
use testkit::Finished;

use crate::fixture::{Folder, SOURCES, TOKEN};

/// Looks like nothing in particular: only knowing the field can tell that it is a secret.
const PLANTED: &str = "hunter2-planted";

fn secret_inputs() -> Vec<&'static Field> {
    Field::all().iter().filter(|field| field.secret && field.is_input()).collect()
}

#[track_caller]
fn clean(finished: &Finished) {
    let said = format!("{}{}", finished.stdout, finished.stderr);
    for form in [PLANTED.to_owned(), to_base64(PLANTED)] {
        assert!(!said.contains(&form), "{finished}");
    }
}

/// Everything that a person may see of a set of sources.
fn look(folder: &Folder, environment: &[(&str, &str)], sources: &[&str]) {
    let run = |arguments: &[&str]| folder.run_with(environment, &[arguments, sources].concat());
    for field in secret_inputs() {
        clean(&run(&["explain", field.name]));
    }
    for form in ["text", "json"] {
        clean(&run(&["explain", "--output", form]));
        clean(&run(&["drift", "--record", "then.record", "--output", form]));
        clean(&folder.run_with(environment, &["diff", "then", ".", "--output", form]));
    }
    clean(&run(&["render", "--to", "node-config"]));
    clean(&run(&["render", "--to", "record"]));
    clean(&folder.run_with(environment, &["diff", ".", "then.record"]));
    clean(&folder.run_with(environment, &["check", "settings.yaml", "node-pool.yaml", "node-class.yaml"]));
    // A mistake elsewhere shows nothing either.
    clean(&run(&["render", "--to", "env", "--set", "maxPods=1", "--set", "arch=x"]));
    clean(&run(&["render", "--to", "env", "--set", "noSuchField=1"]));
}

fn planted_folder() -> Folder {
    let folder = Folder::new();
    assert_eq!(folder.with_sources(&["render", "--to", "record", "-o", "then.record"]).code, Some(0));
    for file in crate::fixture::FILES {
        folder.write(&format!("then/{file}"), &folder.read(file));
    }
    folder
}

#[test]
fn there_are_secrets_to_plant_and_each_may_come_from_the_sources_below() {
    let fields: BTreeMap<&str, &[Kind]> = secret_inputs().into_iter().map(|field| (field.name, field.kinds)).collect();
    let names: Vec<&str> = fields.keys().copied().collect();
    assert_eq!(names, ["CustomSearchRealmPassword", "HTTPProxyURLs", "HTTPSProxyURLs", "bootstrapToken"]);
    for kinds in fields.values() {
        assert!(kinds.iter().all(|kind| matches!(kind, Kind::Environment | Kind::Settings)), "{kinds:?}");
    }
}

#[test]
fn a_secret_in_settings_shows_nowhere() {
    for field in secret_inputs() {
        let folder = planted_folder();
        folder.replace("settings.yaml", &format!("bootstrapToken: {TOKEN}\n"), "");
        let token = if field.name == "bootstrapToken" { "" } else { "bootstrapToken: other\n" };
        let text = format!("{}{token}{}: http://u:{PLANTED}@p\n", folder.read("settings.yaml"), field.name);
        folder.write("settings.yaml", &text);
        look(&folder, &[], &SOURCES);
        let script = folder.with_sources(&["render", "--to", "nbv-script"]).success();
        assert!(script.stdout.contains(PLANTED), "render alone shows it");
    }
}

#[test]
fn a_secret_in_karpenters_settings_shows_nowhere() {
    let folder = planted_folder();
    let lines = folder.read("settings.yaml");
    let entries = lines.lines().filter(|line| !line.starts_with('#') && !line.starts_with("additionalTags"));
    let entries = entries.map(|line| line.split_once(": ").expect("a field"));
    let mut data: BTreeMap<String, String> =
        entries.map(|(name, value)| (format!("azure.{name}"), value.trim_matches('"').to_owned())).collect();
    data.remove("azure.bootstrapToken");
    data.insert("azure.kubeletClientTLSBootstrapToken".to_owned(), PLANTED.to_owned());
    folder.write("settings.yaml", &json!({"kind": "ConfigMap", "data": data}).to_string());
    look(&folder, &[], &SOURCES);
    assert!(folder.with_sources(&["render", "--to", "env"]).success().stdout.contains(PLANTED));
}

#[test]
fn a_secret_in_the_environment_or_in_an_argument_shows_nowhere() {
    let folder = planted_folder();
    folder.replace("settings.yaml", &format!("bootstrapToken: {TOKEN}\n"), "");
    look(&folder, &[("KUBELET_BOOTSTRAP_TOKEN", PLANTED)], &SOURCES);
    for field in secret_inputs() {
        let set = format!("{}={PLANTED}", field.name);
        look(&folder, &[], &[&SOURCES[..], &["--set", &set]].concat());
        // Written wrongly, and for a field that takes it from nobody.
        clean(&folder.with_sources(&["explain", "--set", &set.replace('=', ":")]));
        clean(&folder.with_sources(&["explain", "--set", &format!("TLSBootstrapToken={PLANTED}")]));
        clean(&folder.with_sources(&["explain", "--set", &format!("DisableSSH={PLANTED}")]));
    }
}

#[test]
fn a_secret_where_none_belongs_is_refused_and_shows_nowhere() {
    let folder = planted_folder();
    let spoil = [
        // A source that may not set it.
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
        // A value of another form.
        ("node-class.yaml", "maxPods: 60", format!("maxPods: {PLANTED}")),
        ("node-class.yaml", "podPidsLimit: 4096", format!("podPidsLimit: [{PLANTED}]")),
        ("node-class.yaml", "DisableSSH: \"true\"", format!("DisableSSH: \"{PLANTED}\"")),
        ("node-pool.yaml", "taints:\n", format!("taints: {PLANTED}\n      x:\n")),
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: [{PLANTED}]")),
        ("settings.yaml", "additionalTags: {owner: platform}", format!("additionalTags: {PLANTED}")),
        // No YAML.
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: \"{PLANTED}")),
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: &a {PLANTED}\nx: *b")),
        (
            "settings.yaml",
            &format!("bootstrapToken: {TOKEN}"),
            format!("bootstrapToken: {PLANTED}\nbootstrapToken: {PLANTED}"),
        ),
        ("settings.yaml", &format!("bootstrapToken: {TOKEN}"), format!("bootstrapToken: !!int {PLANTED}")),
    ];
    for (file, old, new) in spoil {
        let whole = folder.read(file);
        folder.replace(file, old, &new);
        let finished = folder.with_sources(&["render", "--to", "nbv-script"]);
        assert_eq!(finished.code, Some(2), "{new}: {finished}");
        assert!(finished.stderr.contains(file), "the file is named: {finished}");
        clean(&finished);
        clean(&folder.with_sources(&["explain", "--output", "json"]));
        clean(&folder.with_sources(&["drift", "--record", "then.record"]));
        clean(&folder.run(&["diff", "then", "."]));
        clean(&folder.run(&["check", file]));
        folder.write(file, &whole);
    }
}

#[test]
fn a_secret_that_a_node_config_may_not_hold_is_an_error_that_names_field_and_place() {
    let folder = Folder::new();
    folder.write("settings.yaml", &format!("{}CustomSearchRealmPassword: {PLANTED}\n", folder.read("settings.yaml")));
    let finished = folder.with_sources(&["render", "--to", "node-config"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(finished.stderr.contains("settings.yaml:17:28: at `CustomSearchRealmPassword`: `CustomSearchRealmPassword` is a secret, and a NodeConfig may hold none"), "{finished}");
    clean(&finished);
    for (proxy, refused) in [("http://proxy:3128", false), ("http://u:hunter2-planted@proxy:3128", true)] {
        let set = format!("HTTPProxyURLs={proxy}");
        let folder = Folder::new();
        let finished = folder.with_sources(&["render", "--to", "node-config", "--set", &set]);
        assert_eq!(finished.code == Some(2), refused, "{finished}");
        clean(&finished);
    }
}

#[test]
fn a_secret_in_values_shows_nowhere_but_in_what_may_hold_it() {
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
            clean(&folder.run(&["check", file, "--output", form]));
            clean(&folder.run(&["diff", file, "a.json", "--output", form]));
            clean(&folder.run(&["diff", "a.json", file, "--output", form]));
            clean(&folder.run(&["render", "--values", file, "--to", "node-config", "--output", form]));
            clean(&folder.run(&["render", "--values", file, "--to", "record"]));
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
fn a_secret_in_a_node_controllers_document_shows_nowhere_but_in_what_may_hold_it() {
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
            clean(&folder.run(&["check", "anc.json", "--output", form]));
            clean(&folder.run(&["diff", "base.json", "anc.json", "--output", form]));
            clean(&folder.run(&["diff", "anc.json", "base.json", "--output", form]));
            clean(&folder.run(&["diff", "anc.json", ".", "--output", form]));
            clean(&folder.run(&[
                "render",
                "--from",
                "aks-node-config",
                "anc.json",
                "--to",
                "node-config",
                "--output",
                form,
            ]));
        }
        assert!(folder.run(&["diff", "base.json", "anc.json"]).success().stdout.contains(field), "{field}");
        let own = folder.run(&["render", "--from", "aks-node-config", "anc.json", "--to", "aks-node-config"]).success();
        assert!(own.stdout.contains(PLANTED), "{field}");
        // A mistake after it, and one in it.
        folder.write("bad.json", &document.to_string().replace(&format!("\"{value}\""), &format!("[\"{value}\"]")));
        let bad = folder.run(&["render", "--from", "aks-node-config", "bad.json", "--to", "env"]);
        assert_eq!(bad.code, Some(2), "{field}: {bad}");
        clean(&bad);
        clean(&folder.run(&["check", "bad.json"]));
    }
}

#[test]
fn a_secret_in_a_node_config_is_refused_and_not_shown() {
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
        clean(&finished);
        assert!(!finished.stdout.contains("hunter2"), "{finished}");
        let diff = folder.run(&["diff", "config.json", "."]);
        clean(&diff);
    }
}
