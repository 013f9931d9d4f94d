//! A world in a state folder: what was answered is there again.

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

/// Everything that can be read of a world.
fn portrait(client: &Client) -> Vec<String> {
    let paths = [
        (pool(client), COMPUTE),
        (format!("{}/virtualMachines?$expand=instanceView", pool(client)), COMPUTE),
        (client.compute("galleries"), GALLERY),
        (format!("{}/resources", client.group()), "2022-09-01"),
    ];
    paths.iter().map(|(path, version)| client.get(path, version).body.to_string()).collect()
}

#[tokio::test]
async fn a_world_that_is_opened_again_is_the_same_world() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = {
        let client = Client::on(open(folder.path()).expect("a world"));
        let versions = client.ready_for_version();
        client.done(client.put(&format!("{versions}/1.2.3"), GALLERY, &client.version_body("Standard_LRS", true)));
        client.done(client.patch(
            &pool(&client),
            COMPUTE,
            &json!({"sku": {"name": "Standard_D2s_v3", "capacity": 12}}),
        ));
        portrait(&client)
    };
    let client = Client::on(open(folder.path()).expect("the same world"));
    assert_eq!(portrait(&client), before);
    // And it goes on where it stopped: ids are not given twice.
    client.done(client.patch(&pool(&client), COMPUTE, &json!({"sku": {"name": "Standard_D2s_v3", "capacity": 13}})));
    assert_eq!(client.get(&format!("{}/virtualMachines/12", pool(&client)), COMPUTE).status, 200);
}

#[tokio::test]
async fn an_operation_that_was_under_way_ends_after_the_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = {
        let client = Client::on(open(folder.path()).expect("a world"));
        let got = client.post(&format!("{}/powerOff", pool(&client)), COMPUTE, Some(&json!({"instanceIds": ["0"]})));
        got.header("azure-asyncoperation").to_owned()
    };
    let client = Client::on(open(folder.path()).expect("the same world"));
    assert_eq!(client.send(&http::Method::GET, &status, None).body["status"], "Succeeded");
    let view = client.get(&format!("{}/virtualMachines/0/instanceView", pool(&client)), COMPUTE).body;
    assert_eq!(view["statuses"][1]["code"], "PowerState/stopped");
}

#[tokio::test]
async fn a_torn_last_line_is_dropped_and_all_before_it_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = {
        let client = Client::on(open(folder.path()).expect("a world"));
        client.done(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"kept": "yes"}})));
        portrait(&client)
    };
    let mut log = std::fs::OpenOptions::new().append(true).open(folder.path().join("world.log")).expect("the log");
    log.write_all(b"{\"now\":\"2026-11-15T12:00:00Z\",\"meta\":{\"ids\":3,\"sequ").expect("half a line");
    drop(log);
    let client = Client::on(open(folder.path()).expect("the same world"));
    assert_eq!(portrait(&client), before);
    client.done(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"after": "crash"}})));
    drop(client);
    let client = Client::on(open(folder.path()).expect("and again"));
    assert_eq!(client.get(&pool(&client), COMPUTE).body["tags"]["after"], "crash");
}

#[tokio::test]
async fn a_damaged_line_in_the_middle_is_named_and_nothing_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()).expect("a world"));
    let path = folder.path().join("world.log");
    let text = std::fs::read_to_string(&path).expect("the log");
    std::fs::write(&path, format!("{text}not json\n{text}")).expect("damage");
    let error = open(folder.path()).expect_err("a damaged log");
    assert!(matches!(&error, OpenError::Log(JournalError::Damaged { line: 2, .. })), "{error}");
    assert!(error.to_string().contains("world.log"), "{error}");
}

#[tokio::test]
async fn two_processes_cannot_have_one_state_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path()).expect("a world");
    assert!(matches!(open(folder.path()), Err(OpenError::Log(JournalError::Locked { .. }))));
    drop(first);
    assert!(open(folder.path()).is_ok());
}

#[tokio::test]
async fn a_long_log_is_written_anew_and_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("world.log");
    let filler = "x".repeat(200_000);
    let before = {
        let client = Client::on(open(folder.path()).expect("a world"));
        for number in 0..40 {
            let tags = json!({"tags": {"filler": filler, "n": number.to_string()}});
            client.done(client.patch(&pool(&client), COMPUTE, &tags));
        }
        portrait(&client)
    };
    let now = std::fs::metadata(&path).expect("the log").len();
    assert!(now < 40 * 200_000, "40 writes of 200,000 bytes are still all there: {now} bytes");
    let client = Client::on(open(folder.path()).expect("the same world"));
    assert_eq!(portrait(&client), before);
}

#[tokio::test]
async fn a_machine_is_still_told_by_its_address_after_the_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()).expect("a world"));
    let sim = open(folder.path()).expect("the same world");
    let request = http::Request::get("/metadata/instance/compute/name?api-version=2021-02-01&format=text")
        .header("metadata", "true")
        .body(bytes::Bytes::new())
        .expect("a request");
    let answer = sim.imds(Some("10.240.0.1".parse().expect("an address")), &request).answer().expect("an answer");
    assert_eq!(answer.body(), &format!("{POOL}_0"));
}
