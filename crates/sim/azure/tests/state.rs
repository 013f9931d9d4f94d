//! Persistence in a state folder.

mod common;

use std::io::Write;
use std::path::Path;

use common::{COMPUTE, Client, GALLERY, POOL, start};
use kiln_sim_azure::{JournalError, OpenError, Options, Sim, WorldSpec};
use serde_json::json;

fn open(folder: &Path) -> Result<Sim, OpenError> {
    Sim::open(folder, WorldSpec::default(), Options::instant(start()))
}

fn pool(client: &Client) -> String {
    client.compute(&format!("virtualMachineScaleSets/{POOL}"))
}

/// Everything that clients can read.
fn readable_state(client: &Client) -> Vec<String> {
    let paths = [
        (pool(client), COMPUTE),
        (format!("{}/virtualMachines?$expand=instanceView", pool(client)), COMPUTE),
        (client.compute("galleries"), GALLERY),
        (format!("{}/resources", client.group()), "2022-09-01"),
    ];
    paths.iter().map(|(path, version)| client.get(path, version).body.to_string()).collect()
}

#[tokio::test]
async fn reopened_state_is_identical() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = {
        let client = Client::for_sim(open(folder.path()).expect("a new state"));
        let versions = client.ready_for_version();
        client.done(client.put(&format!("{versions}/1.2.3"), GALLERY, &client.version_body("Standard_LRS", true)));
        client.done(client.patch(
            &pool(&client),
            COMPUTE,
            &json!({"sku": {"name": "Standard_D2s_v3", "capacity": 12}}),
        ));
        readable_state(&client)
    };
    let client = Client::for_sim(open(folder.path()).expect("the same state"));
    assert_eq!(readable_state(&client), before);
    // New ids do not repeat earlier ones.
    client.done(client.patch(&pool(&client), COMPUTE, &json!({"sku": {"name": "Standard_D2s_v3", "capacity": 13}})));
    assert_eq!(client.get(&format!("{}/virtualMachines/12", pool(&client)), COMPUTE).status, 200);
}

#[tokio::test]
async fn running_operation_ends_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = {
        let client = Client::for_sim(open(folder.path()).expect("a new state"));
        let got = client.post(&format!("{}/powerOff", pool(&client)), COMPUTE, Some(&json!({"instanceIds": ["0"]})));
        got.header("azure-asyncoperation").to_owned()
    };
    let client = Client::for_sim(open(folder.path()).expect("the same state"));
    assert_eq!(client.send(&http::Method::GET, &status, None).body["status"], "Succeeded");
    let view = client.get(&format!("{}/virtualMachines/0/instanceView", pool(&client)), COMPUTE).body;
    assert_eq!(view["statuses"][1]["code"], "PowerState/stopped");
}

#[tokio::test]
async fn status_urls_have_azures_length_and_are_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let urls = |client: &Client| {
        let power_off = format!("{}/virtualMachines/0/powerOff", pool(client));
        let got = client.post(&power_off, COMPUTE, None);
        ["azure-asyncoperation", "location"].map(|name| got.header(name).to_owned())
    };
    let sent = urls(&Client::for_sim(open(folder.path()).expect("a new state")));
    assert_eq!(urls(&Client::instant()), sent, "the same requests give the same URLs");
    let log = std::fs::read_to_string(folder.path().join("world.log")).expect("the log");
    let client = Client::for_sim(open(folder.path()).expect("the same state"));
    for url in sent {
        assert!((3_045..=3_288).contains(&url.len()), "{} characters: {url}", url.len());
        let lengths: Vec<(&str, usize)> = url
            .split(['?', '&'])
            .filter_map(|pair| pair.split_once('='))
            .filter(|(name, _)| name.len() == 1)
            .map(|(name, value)| (name, value.len()))
            .collect();
        assert!(
            matches!(lengths[..], [("p", 36), ("t", 18), ("c", 2_395..=2_615), ("s", 342), ("h", 43)]),
            "{lengths:?}"
        );
        let certificate = url.split_once("&c=").expect("a certificate").1;
        assert!(!log.contains(&certificate[..64]), "the state has a part of a status URL");
        assert_eq!(client.send(&http::Method::GET, &url, None).status, 200, "{url}");
    }
}

#[tokio::test]
async fn torn_last_line_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = {
        let client = Client::for_sim(open(folder.path()).expect("a new state"));
        client.done(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"kept": "yes"}})));
        readable_state(&client)
    };
    let mut log = std::fs::OpenOptions::new().append(true).open(folder.path().join("world.log")).expect("the log");
    log.write_all(b"{\"now\":\"2026-11-15T12:00:00Z\",\"meta\":{\"ids\":3,\"sequ").expect("half a line");
    drop(log);
    let client = Client::for_sim(open(folder.path()).expect("the same state"));
    assert_eq!(readable_state(&client), before);
    client.done(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"after": "crash"}})));
    drop(client);
    let client = Client::for_sim(open(folder.path()).expect("and again"));
    assert_eq!(client.get(&pool(&client), COMPUTE).body["tags"]["after"], "crash");
}

#[tokio::test]
async fn damaged_line_is_named_and_the_folder_is_not_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()).expect("a new state"));
    let path = folder.path().join("world.log");
    let text = std::fs::read_to_string(&path).expect("the log");
    std::fs::write(&path, format!("{text}not json\n{text}")).expect("damage");
    let error = open(folder.path()).expect_err("a damaged log");
    assert!(matches!(&error, OpenError::Log(JournalError::Damaged { line: 2, .. })), "{error}");
    assert!(error.to_string().contains("world.log"), "{error}");
}

#[tokio::test]
async fn state_folder_is_locked_by_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path()).expect("a new state");
    assert!(matches!(open(folder.path()), Err(OpenError::Log(JournalError::Locked { .. }))));
    drop(first);
    assert!(open(folder.path()).is_ok());
}

#[tokio::test]
async fn long_journal_is_compacted_without_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("world.log");
    let filler = "x".repeat(200_000);
    let before = {
        let client = Client::for_sim(open(folder.path()).expect("a new state"));
        for number in 0..40 {
            let tags = json!({"tags": {"filler": filler, "n": number.to_string()}});
            client.done(client.patch(&pool(&client), COMPUTE, &tags));
        }
        readable_state(&client)
    };
    let now = std::fs::metadata(&path).expect("the log").len();
    assert!(now < 40 * 200_000, "the journal was not compacted: {now} bytes");
    let client = Client::for_sim(open(folder.path()).expect("the same state"));
    assert_eq!(readable_state(&client), before);
}

#[tokio::test]
async fn vm_is_identified_by_its_address_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()).expect("a new state"));
    let sim = open(folder.path()).expect("the same state");
    let request = http::Request::get("/metadata/instance/compute/name?api-version=2021-02-01&format=text")
        .header("metadata", "true")
        .body(bytes::Bytes::new())
        .expect("a request");
    let answer = sim.imds(Some("10.240.0.1".parse().expect("an address")), &request).answer().expect("an answer");
    assert_eq!(answer.body(), &format!("{POOL}_0"));
}
