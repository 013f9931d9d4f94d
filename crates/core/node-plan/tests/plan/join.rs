//! Kubeconfigs by kind of join credential.

use kiln_node_plan::{Credential, Desired, ExecPlugin, Facts, Image, layout};
use kiln_types::SecretBytes;
use serde_json::{Value, json};

use crate::support::{Machine, config, facts};

fn render(over: Value, credential: Option<&str>) -> Desired {
    let credential = credential.map(|text| Credential::parse(&SecretBytes::new(text)).expect("a credential"));
    Desired::render(&config(over), &Facts { credential, ..facts() }).expect("compatible")
}

fn json_of(desired: &Desired, file: &str) -> Value {
    let file = desired.file(file).expect("a file");
    assert_eq!(file.mode, 0o600, "{}", file.path);
    serde_json::from_slice(file.content.expose()).expect("JSON")
}

fn user(config: &Value) -> &Value {
    &config["users"][0]["user"]
}

#[test]
fn token_is_used_for_the_first_certificate_only() {
    let desired = render(json!({"credentialFrom": {"kind": "file", "name": "/t"}}), Some("abcdef.0123456789abcdef"));
    let bootstrap = json_of(&desired, layout::BOOTSTRAP_KUBECONFIG);
    assert_eq!(user(&bootstrap), &json!({"token": "abcdef.0123456789abcdef"}));
    let own = json_of(&desired, layout::KUBECONFIG);
    assert_eq!(user(&own)["client-certificate"], layout::CLIENT_CERTIFICATE);
    for config in [&bootstrap, &own] {
        let cluster = &config["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://api.example:443");
        assert_eq!(cluster["certificate-authority"], "/etc/kiln/current/ca.crt");
    }
}

#[test]
fn given_certificate_is_used_unchanged() {
    let pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nMA==\n-----END EC PRIVATE KEY-----\n";
    let desired = render(json!({"credentialFrom": {"kind": "file", "name": "/c"}}), Some(pem));
    assert!(desired.file(layout::BOOTSTRAP_KUBECONFIG).is_none());
    let own = json_of(&desired, layout::KUBECONFIG);
    assert_eq!(user(&own)["client-key"], "/etc/kiln/current/client.pem");
    assert_eq!(desired.file("client.pem").expect("the certificate").content.expose(), pem.as_bytes());
}

#[test]
fn given_kubeconfig_is_used_unchanged() {
    let text = "apiVersion: v1\nkind: Config\nclusters: []\n";
    let desired = render(json!({"credentialFrom": {"kind": "protectedSettings", "name": "/k"}}), Some(text));
    assert_eq!(desired.file(layout::BOOTSTRAP_KUBECONFIG).expect("it").content.expose(), text.as_bytes());
}

#[test]
fn identities_use_an_exec_plugin() {
    let desired = render(json!({"credentialFrom": {"kind": "managedIdentity", "name": "client-1"}}), None);
    let exec = user(&json_of(&desired, layout::BOOTSTRAP_KUBECONFIG))["exec"].clone();
    assert_eq!(exec["command"], "/usr/bin/kubelogin");
    let args = exec["args"].as_array().expect("arguments");
    assert!(args.contains(&json!("--client-id=client-1")), "{args:?}");

    let plugin = ExecPlugin {
        command: "/opt/attest".to_owned(),
        args: vec!["--to={endpoint}".to_owned(), "--as={name}".to_owned()],
    };
    let image = Image { exec_plugins: [("attestedIdentity".to_owned(), plugin)].into(), ..Image::default() };
    let over = json!({"credentialFrom": {"kind": "attestedIdentity", "endpoint": "https://a.example"}});
    let desired = Desired::render(&config(over), &Facts { image, ..facts() }).expect("compatible");
    let exec = user(&json_of(&desired, layout::BOOTSTRAP_KUBECONFIG))["exec"].clone();
    assert_eq!(exec["args"], json!(["--to=https://a.example"]), "arguments without a value are left out");
}

#[test]
fn credential_is_kept_for_the_next_generation() {
    let from = json!({"credentialFrom": {"kind": "file", "name": "/t"}});
    let desired = render(from.clone(), Some("abcdef.0123456789abcdef"));
    let kept = SecretBytes::new(desired.file(layout::CREDENTIAL).expect("kept").content.expose());
    let again = Facts { credential: Credential::parse(&kept).ok(), ..facts() };
    assert_eq!(Desired::render(&config(from), &again).expect("compatible"), desired);
}

#[test]
fn new_credential_is_written_only_before_the_node_has_joined() {
    let wanted = config(json!({"credentialFrom": {"kind": "file", "name": "/t"}}));
    let token = |text: &str| Credential::parse(&SecretBytes::new(text)).ok();
    let old = Facts { credential: token("abcdef.0123456789abcdef"), ..facts() };
    let mut machine = Machine { facts: old, ..Machine::default() };
    machine.apply(None, &wanted);
    assert!(machine.plan(Some(&wanted), &wanted).is_empty());

    machine.facts.credential = token("ghijkl.0123456789abcdef");
    let steps: Vec<String> = machine.plan(Some(&wanted), &wanted).steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["write the generation", "switch to the generation", "restart kubelet.service"]);

    machine.facts.joined = true;
    assert!(machine.plan(Some(&wanted), &wanted).is_empty(), "a rotated token is not a change");
}

#[test]
fn clone_with_its_donors_document_writes_its_own_credential() {
    let wanted = config(json!({"credentialFrom": {"kind": "file", "name": "/t"}}));
    let token = |text: &str| Credential::parse(&SecretBytes::new(text)).ok();
    let mut machine =
        Machine { facts: Facts { credential: token("abcdef.0123456789abcdef"), ..facts() }, ..Machine::default() };
    machine.apply(None, &wanted);
    machine.facts.credential = token("ghijkl.0123456789abcdef");
    machine.apply(None, &wanted);
    assert!(machine.text("/etc/kiln/current/bootstrap-kubeconfig").contains("ghijkl"));
}

#[test]
fn joined_node_gets_no_token_and_its_removal_is_not_a_change() {
    let wanted = config(json!({"credentialFrom": {"kind": "file", "name": "/t"}}));
    let credential = Credential::parse(&SecretBytes::new("abcdef.0123456789abcdef")).ok();
    let mut machine = Machine { facts: Facts { credential, ..facts() }, ..Machine::default() };
    machine.apply(None, &wanted);
    assert!(machine.text("/etc/kiln/current/bootstrap-kubeconfig").contains("abcdef"));
    machine.facts.joined = true;
    let desired = Desired::render(&wanted, &machine.facts).expect("compatible");
    assert!(desired.file(layout::CREDENTIAL).is_none() && desired.file(layout::BOOTSTRAP_KUBECONFIG).is_none());
    assert!(desired.file(layout::KUBECONFIG).is_some());
    assert!(machine.plan(Some(&wanted), &wanted).is_empty());
    machine.facts.credential = None;
    assert!(machine.plan(Some(&wanted), &wanted).is_empty(), "nothing changes when the token is gone");
}
