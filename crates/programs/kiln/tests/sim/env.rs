//! `kiln sim env` and `kiln completions`.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::Finished;

use crate::{folder, kiln, text};

const SECRET: &str = "it's a \"secret\" with $HOME, `date` and # signs";

fn ready() -> Value {
    json!({
        "arm": "https://localhost:8443", "authority": "https://localhost:8443", "imds": "http://127.0.0.1:8080", "wireServer": "http://127.0.0.1:8081",
        "caFile": "/tmp/with space/ca.pem", "tenantId": "tenant", "subscriptionId": "subscription", "clientId": "client", "clientSecret": SECRET,
        "resourceGroup": "group", "location": "westus2",
    })
}

fn shell(script: &str, arguments: &[&str]) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh", env!("CARGO_BIN_EXE_kiln")]).args(arguments);
    testkit::run(command, Duration::from_mins(1)).success()
}

#[test]
fn exported_variables_survive_shell_quoting() {
    let folder = folder();
    let file = folder.path().join("ready.json");
    fs::write(&file, ready().to_string()).expect("written");
    let script = r#"eval "$("$1" sim env --from "$2" --vm node_0)"; printf '%s\n' "$AZURE_CLIENT_SECRET" "$REQUESTS_CA_BUNDLE" "$AZURE_POD_IDENTITY_AUTHORITY_HOST""#;
    let finished = shell(script, &[text(&file)]);
    assert_eq!(finished.stdout, format!("{SECRET}\n/tmp/with space/ca.pem\nhttp://127.0.0.1:8080/vm/node_0\n"));
}

#[test]
fn exports_and_az_commands_are_printed() {
    let folder = folder();
    let file = folder.path().join("ready.json");
    fs::write(&file, ready().to_string()).expect("written");
    let finished = kiln().run(&["sim", "env", "--from", text(&file)]).success();
    let expected = "\
export AZURE_TENANT_ID=tenant
export AZURE_CLIENT_ID=client
export AZURE_CLIENT_SECRET='it'\\''s a \"secret\" with $HOME, `date` and # signs'
export AZURE_SUBSCRIPTION_ID=subscription
export AZURE_RESOURCE_GROUP=group
export AZURE_AUTHORITY_HOST=https://localhost:8443
export AZURE_POD_IDENTITY_AUTHORITY_HOST=http://127.0.0.1:8080
export AZURE_CORE_INSTANCE_DISCOVERY=false
export AZURE_CORE_COLLECT_TELEMETRY=no
export KILN_ARM_ENDPOINT=https://localhost:8443
export KILN_CA_FILE='/tmp/with space/ca.pem'
export REQUESTS_CA_BUNDLE='/tmp/with space/ca.pem'
export CURL_CA_BUNDLE='/tmp/with space/ca.pem'
export SSL_CERT_FILE='/tmp/with space/ca.pem'
export NO_PROXY=localhost,127.0.0.1,::1
# For az, run these once, with a separate configuration folder (export AZURE_CONFIG_DIR=DIR):
# az cloud register --name kiln --endpoint-resource-manager https://localhost:8443 --endpoint-active-directory https://localhost:8443 \
--endpoint-active-directory-resource-id https://localhost:8443 --endpoint-active-directory-graph-resource-id https://localhost:8443 \
--endpoint-management https://localhost:8443
# az cloud set --name kiln
# az login --service-principal --username client --password \"$AZURE_CLIENT_SECRET\" --tenant tenant
";
    assert_eq!(finished.stdout, expected);
}

#[test]
fn json_output_has_the_same_contents_also_from_standard_input() {
    let script = r#"printf '%s' "$2" | "$1" sim env --from - --output json"#;
    let printed = shell(script, &[&ready().to_string()]).json();
    assert_eq!(printed["variables"]["AZURE_CLIENT_SECRET"], SECRET);
    assert_eq!(printed["variables"]["KILN_ARM_ENDPOINT"], "https://localhost:8443");
    assert!(printed["az"][0].as_str().expect("text").starts_with("az cloud register --name kiln "));
    assert!(!printed["az"].to_string().contains(SECRET), "the secret must be in the variables only");
}

#[test]
fn state_folder_can_be_used_only_while_it_is_served() {
    let folder = folder();
    let state = folder.path().join("state");
    let mut sim = kiln().sim(&["--state", text(&state)]);
    let printed = kiln().run(&["sim", "env", "--state", text(&state), "--output", "json"]).success().json();
    assert_eq!(printed["variables"]["KILN_ARM_ENDPOINT"], sim.key("arm"));
    sim.terminate();
    let finished = kiln().run(&["sim", "env", "--state", text(&state)]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished}");
    assert!(finished.stderr.contains("endpoint.json"), "{finished}");
}

#[test]
fn invalid_ready_line_is_an_error() {
    let folder = folder();
    let file = folder.path().join("ready.json");
    fs::write(&file, "{\"arm\": 1}").expect("written");
    for arguments in
        [&["sim", "env", "--from", text(&file)][..], &["sim", "env"], &["sim", "env", "--from", "a", "--state", "b"]]
    {
        let finished = kiln().run(arguments);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished}");
    }
    assert!(kiln().run(&["sim", "env", "--from", text(&file)]).stderr.contains("ready.json"));
}

#[test]
fn completions_contain_the_commands() {
    for (shell, words) in [("bash", "--imds-listen"), ("zsh", "--imds-listen"), ("fish", "imds-listen")] {
        let finished = kiln().run(&["completions", shell]).success();
        assert!(finished.stdout.contains(words), "{shell}");
    }
    assert_eq!(kiln().run(&["completions", "abacus"]).code, Some(2));
}

#[test]
fn help_shows_examples() {
    let finished = kiln().run(&["sim", "serve", "--help"]).success();
    assert!(finished.stdout.contains("kiln sim serve --state ./azure --listen 127.0.0.1:8443"), "{finished}");
}
