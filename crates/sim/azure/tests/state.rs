//! Persistence in a state folder.

mod common;

use std::io::Write;
use std::path::Path;

use common::{COMPUTE, Client, GALLERY, POOL, start};
use jiff::SignedDuration;
use kiln_sim_azure::{JournalError, OpenError, Options, Sim, Speed, WorldSpec};
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

/// The size of the state folder after a number of writes of the given duration, while it is open and after it was opened again.
fn folder_after(patches: u32, seconds: f64) -> [u64; 2] {
    // In memory, because each write is synced.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let size = || std::fs::metadata(folder.path().join("world.log")).expect("the log").len();
    let open = || {
        let mut spec = WorldSpec::default();
        spec.profile.model_update = seconds;
        Sim::open(folder.path(), spec, Options::instant(start())).expect("a state")
    };
    let sim = open();
    for number in 0..patches {
        sim.change_scale_set(POOL, &json!({"tags": {"n": number.to_string()}})).expect("a patch");
    }
    let while_open = size();
    drop(sim);
    drop(open());
    [while_open, size()]
}

#[test]
fn state_folder_does_not_grow_with_the_number_of_writes() {
    // A write that takes longer leaves fewer operations within the retention, so that fewer writes are enough.
    let [few, many] = match testkit::tier() {
        testkit::Tier::Full => [folder_after(2_000, 13.0), folder_after(200_000, 13.0)],
        _ => [folder_after(100, 260.0), folder_after(2_500, 260.0)],
    };
    for (few, many) in few.into_iter().zip(many) {
        assert!(many * 10 <= few * 11, "{few} and {many} bytes");
    }
}

#[tokio::test]
async fn finished_operation_is_forgotten_after_the_retention() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::for_sim(open(folder.path()).expect("a new state"));
    // A PATCH has no `Location`.
    let body = json!({"instanceIds": ["0"]});
    let got = client.post(&format!("{}/powerOff", pool(&client)), COMPUTE, Some(&body));
    let status = got.header("azure-asyncoperation").to_owned();
    let location = got.header("location").to_owned();
    let read = |client: &Client, url: &str| client.send(&http::Method::GET, url, None);
    assert_eq!(read(&client, &status).body["status"], "Succeeded");
    client.sim.pass(SignedDuration::from_mins(179)).expect("time passes");
    assert_eq!((read(&client, &status).status, read(&client, &location).status), (200, 200));
    client.sim.pass(SignedDuration::from_mins(1)).expect("time passes");
    drop(client);
    let mut client = Client::for_sim(open(folder.path()).expect("the same state"));
    client.login();
    for url in [&status, &location] {
        let got = read(&client, url);
        assert_eq!((got.status, got.code()), (404, "OperationNotFound"));
    }
    let view = client.get(&format!("{}/virtualMachines/0/instanceView", pool(&client)), COMPUTE).body;
    assert_eq!(view["statuses"][1]["code"], "PowerState/stopped");
}

#[tokio::test(start_paused = true)]
async fn running_operation_is_not_forgotten() {
    let mut spec = WorldSpec::default();
    spec.profile.gallery = 5.0 * 3_600.0;
    let mut client = Client::with_options(spec, Options { speed: Speed::Factor(1.0), ..Options::instant(start()) });
    let body = json!({"location": "westus2", "properties": {}});
    let got = client.put(&client.compute("galleries/SIG_x"), GALLERY, &body);
    for (hours, status) in [(4, "InProgress"), (3, "Succeeded")] {
        tokio::time::advance(std::time::Duration::from_hours(hours)).await;
        client.login();
        assert_eq!(client.operation(&got)["status"], status);
    }
    // The operations that created the world file's resources ended a day before the start.
    assert_eq!(client.sim.operations().len(), 1);
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
