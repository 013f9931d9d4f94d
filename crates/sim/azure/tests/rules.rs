//! Rules that Azure's own clients cannot test, in raw HTTP.

mod common;

use std::time::Duration;

use common::{COMPUTE, Client, DISK, GALLERY, POOL, start, with_version};
use http::Method;
use kiln_sim_azure::{ForeignSubscription, Options, WorldSpec};
use serde_json::json;

fn pool(client: &Client) -> String {
    client.compute(&format!("virtualMachineScaleSets/{POOL}"))
}

#[tokio::test]
async fn missing_and_unknown_api_versions_are_rejected() {
    let client = Client::instant();
    let got = client.send(&Method::GET, &pool(&client), None);
    assert_eq!((got.status, got.code()), (400, "MissingApiVersionParameter"));
    let missing = "VirtualMachineScaleSets_Get request: required query parameter `api-version` is missing";
    assert_eq!(client.take_findings(), [missing]);
    let got = client.get(&pool(&client), "2001-01-01");
    assert_eq!((got.status, got.code()), (400, "NoRegisteredProviderFound"));
    assert!(got.body["error"]["message"].as_str().is_some_and(|text| text.contains("2024-03-01")));
    // Each type has its own versions: a disk's version is unknown to galleries.
    assert_eq!(client.get(&client.compute("galleries"), DISK).code(), "NoRegisteredProviderFound");
    let got = client.get(&client.group(), "2001-01-01");
    assert_eq!((got.status, got.code()), (400, "InvalidApiVersionParameter"));
}

#[tokio::test]
async fn api_versions_newer_than_the_known_ones_are_accepted() {
    let client = Client::instant();
    // `2026-03-01` is the version of @azure/arm-compute 24.1, `2025-12-03` that of galleries in its successor.
    let paths = [
        (pool(&client), "2026-03-01"),
        (client.compute("galleries"), "2025-12-03"),
        (client.compute("snapshots"), "2031-02-28"),
        (client.group(), "2031-12-31"),
        (format!("{}/virtualMachines", pool(&client)), "2031-01-01-preview"),
    ];
    for (path, version) in paths {
        assert_eq!(client.get(&path, version).status, 200, "{path} {version}");
    }
    let newest = client.get(&pool(&client), "2026-04-01").body;
    assert_eq!(client.get(&pool(&client), "2031-01-01").body, newest);
    // A page links to the next one with the version of the request, and an operation to its status.
    let got = client.patch(&pool(&client), "2031-01-01", &json!({"tags": {"a": "b"}}));
    assert_eq!(client.operation(&got)["status"], "Succeeded");
    for malformed in ["2031-13-01", "2031-02-30", "2031-1-1", "20310101", "2031-01-01-beta", "2031-01-01x", "latest"] {
        let got = client.get(&pool(&client), malformed);
        assert_eq!((got.status, got.code()), (400, "NoRegisteredProviderFound"), "{malformed}");
    }
    drop(client.take_findings());
}

#[tokio::test]
async fn paths_are_case_insensitive() {
    let client = Client::instant();
    let got = client.get(&pool(&client).to_uppercase(), COMPUTE);
    assert_eq!(got.status, 200);
    assert_eq!(got.body["id"], json!(pool(&client)));
}

#[tokio::test]
async fn responses_have_request_ids_and_echo_the_clients() {
    let client = Client::instant();
    let headers = [("x-ms-client-request-id", "mine"), ("x-ms-correlation-request-id", "ours")];
    for path in [pool(&client), client.compute("snapshots/none")] {
        let version = if path.contains("none") { DISK } else { COMPUTE };
        let got = client.try_send(&Method::GET, &with_version(&path, version), &headers, None).expect("an answer");
        assert_eq!(got.header("x-ms-client-request-id"), "mine");
        assert_eq!(got.header("x-ms-correlation-request-id"), "ours");
        assert_eq!(got.header("x-ms-request-id").len(), 36);
        assert!(!got.header("x-ms-routing-request-id").is_empty());
    }
}

#[tokio::test]
async fn unknown_and_foreign_subscriptions_have_different_errors() {
    let spec = WorldSpec {
        foreign_subscriptions: vec![ForeignSubscription {
            subscription_id: "11111111-2222-4333-8444-555555555555".to_owned(),
            tenant_id: "99999999-2222-4333-8444-555555555555".to_owned(),
        }],
        ..WorldSpec::default()
    };
    let client = Client::with_options(spec, Options::instant(start()));
    let got = client.get("/subscriptions/11111111-2222-4333-8444-555555555555/resourceGroups", "2022-09-01");
    assert_eq!((got.status, got.code()), (401, "InvalidAuthenticationTokenTenant"));
    assert!(
        got.body["error"]["message"].as_str().is_some_and(|text| text.contains("99999999-2222-4333-8444-555555555555"))
    );
    let got = client.get("/subscriptions/00000000-2222-4333-8444-555555555555/resourceGroups", "2022-09-01");
    assert_eq!((got.status, got.code()), (404, "SubscriptionNotFound"));
}

#[tokio::test(start_paused = true)]
async fn long_operation_can_be_polled_in_three_ways() {
    let client = Client::at_speed(1.0);
    let got = client.post(&format!("{}/powerOff", pool(&client)), COMPUTE, Some(&json!({"instanceIds": ["3"]})));
    assert_eq!(got.status, 202);
    let (status, location) = (got.header("azure-asyncoperation").to_owned(), got.header("location").to_owned());
    let retry: u64 = got.header("retry-after").parse().expect("seconds");
    assert_eq!(retry, 30, "the poll interval is at most 30 s");
    assert!(status.contains("/providers/Microsoft.Compute/locations/westus2/operations/"), "{status}");
    assert_eq!(client.send(&Method::GET, &status, None).body["status"], "InProgress");
    assert_eq!(client.send(&Method::GET, &location, None).status, 202);
    let instance = format!("{}/virtualMachines/3?$expand=instanceView", pool(&client));
    let view = client.get(&instance, COMPUTE).body;
    assert_eq!(view["properties"]["provisioningState"], "Updating");
    assert_eq!(view["properties"]["instanceView"]["statuses"][1]["code"], "PowerState/stopping");

    // kamino's published 183 s.
    tokio::time::advance(Duration::from_secs(182)).await;
    assert_eq!(client.send(&Method::GET, &status, None).body["status"], "InProgress");
    tokio::time::advance(Duration::from_secs(1)).await;
    let end = client.send(&Method::GET, &status, None).body;
    assert_eq!(end["status"], "Succeeded");
    assert!(end["endTime"].is_string());
    assert_eq!(client.send(&Method::GET, &location, None).status, 204);
    let view = client.get(&instance, COMPUTE).body;
    assert_eq!(view["properties"]["provisioningState"], "Succeeded");
    assert_eq!(view["properties"]["instanceView"]["statuses"][1]["code"], "PowerState/stopped");
}

#[tokio::test(start_paused = true)]
async fn image_version_takes_its_published_time_and_shows_progress() {
    let client = Client::at_speed(60.0);
    let versions = client.compute("galleries/SIG_x/images/def/versions");
    let wait = |seconds| tokio::time::advance(Duration::from_secs(seconds));
    let instance = client.get(&format!("{}/virtualMachines/0", pool(&client)), COMPUTE);
    let disk = instance.body["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"].clone();
    let snapshot = json!({"location": "westus2", "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": disk}}});
    client.put(&client.compute("snapshots/snap"), DISK, &snapshot);
    client.put(&client.compute("galleries/SIG_x"), GALLERY, &json!({"location": "westus2"}));
    wait(1).await;
    let definition = json!({"location": "westus2", "properties": {"osType": "Linux", "osState": "Generalized", "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}});
    client.put(&client.compute("galleries/SIG_x/images/def"), GALLERY, &definition);
    wait(1).await;
    let got = client.put(&format!("{versions}/2026.11.15"), GALLERY, &client.version_body("Standard_LRS", false));
    assert_eq!((got.status, &got.body["properties"]["provisioningState"]), (201, &json!("Creating")));
    // 6,266 s at 60 times the speed are 104.4 s.
    wait(52).await;
    let expanded = format!("{versions}/2026.11.15?$expand=ReplicationStatus");
    let half = client.get(&expanded, GALLERY).body;
    assert_eq!(half["properties"]["replicationStatus"]["aggregatedState"], "InProgress");
    assert_eq!(half["properties"]["replicationStatus"]["summary"][0]["progress"], 49);
    assert_eq!(client.operation(&got)["status"], "InProgress");
    wait(53).await;
    assert_eq!(client.operation(&got)["status"], "Succeeded");
    assert_eq!(client.get(&expanded, GALLERY).body["properties"]["replicationStatus"]["aggregatedState"], "Completed");
    assert!(
        client.get(&format!("{versions}/2026.11.15"), GALLERY).body["properties"].get("replicationStatus").is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn arm_throttles_with_a_token_bucket() {
    let client = Client::at_speed(1.0);
    let read = || client.get(&pool(&client), COMPUTE);
    let first = read();
    assert_eq!(first.header("x-ms-ratelimit-remaining-subscription-reads"), "249");
    assert!(first.headers.get_all("x-ms-ratelimit-remaining-resource").iter().count() >= 2);
    assert_eq!(first.header("x-ms-request-charge"), "1");
    (0..249).for_each(|_| assert_eq!(read().status, 200));
    let refused = read();
    assert_eq!((refused.status, refused.code()), (429, "SubscriptionRequestsThrottled"));
    assert_eq!(refused.header("retry-after"), "1");
    // Writes have a separate bucket.
    assert_eq!(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"a": "b"}})).status, 200);
    tokio::time::advance(Duration::from_secs(2)).await;
    (0..50).for_each(|_| assert_eq!(read().status, 200));
    assert_eq!(read().status, 429);
}

#[tokio::test]
async fn lists_are_paged_with_absolute_links() {
    let client = Client::with_options(WorldSpec { page_size: 3, ..WorldSpec::default() }, Options::instant(start()));
    let mut link =
        format!("https://sim.localhost{}", with_version(&format!("{}/virtualMachines", pool(&client)), COMPUTE));
    let mut ids = Vec::new();
    loop {
        let page = client.send(&Method::GET, &link, None).body;
        let items = page["value"].as_array().expect("a list");
        assert!(items.len() <= 3);
        ids.extend(items.iter().map(|item| item["instanceId"].as_str().expect("an id").to_owned()));
        match page["nextLink"].as_str() {
            Some(next) => link = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids, (0..10).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn computer_names_end_in_an_upper_case_base_36_number_and_instance_names_in_a_decimal_one() {
    let mut spec = WorldSpec::default();
    spec.pools[0].capacity = 50;
    let client = Client::with_options(spec, Options::instant(start()));
    let got = client.get(&format!("{}/virtualMachines", pool(&client)), COMPUTE).body;
    let all = got["value"].as_array().expect("a list");
    assert_eq!(all.len(), 50);
    let suffix = |id: usize| {
        let computer = all[id]["properties"]["osProfile"]["computerName"].as_str().expect("a name");
        computer.strip_prefix(POOL).expect("the prefix is the pool's name").to_owned()
    };
    assert_eq!(
        [0, 9, 10, 11, 35, 36, 49].map(suffix),
        ["000000", "000009", "00000A", "00000B", "00000Z", "000010", "00001D"]
    );
    assert_eq!(all[11]["name"], format!("{POOL}_11"));
    assert_eq!(all[11]["instanceId"], "11");
    assert_eq!(all[11]["properties"]["latestModelApplied"], true);
}

#[tokio::test]
async fn same_seed_and_requests_give_the_same_responses() {
    let transcript = || {
        let client = Client::instant();
        let versions = client.ready_for_version();
        client.done(client.put(&format!("{versions}/1.0.0"), GALLERY, &client.version_body("Standard_ZRS", false)));
        client.done(client.patch(
            &pool(&client),
            COMPUTE,
            &json!({"sku": {"name": "Standard_D2s_v3", "capacity": 13}}),
        ));
        let list = client.get(&format!("{}/virtualMachines?$expand=instanceView", pool(&client)), COMPUTE).body;
        (list.to_string(), client.get(&format!("{versions}/1.0.0"), GALLERY).body.to_string(), client.sim.now())
    };
    assert_eq!(transcript(), transcript());
}

#[tokio::test]
async fn write_to_a_locked_resource_is_a_conflict() {
    let client = Client::at_speed(1.0);
    let off = || client.post(&format!("{}/powerOff", pool(&client)), COMPUTE, Some(&json!({"instanceIds": ["0"]})));
    assert_eq!(off().status, 202);
    let second = off();
    assert_eq!((second.status, second.code()), (409, "OperationNotAllowed"));
    // Other instances of the pool are not locked.
    assert_eq!(client.post(&format!("{}/virtualMachines/1/powerOff", pool(&client)), COMPUTE, None).status, 202);
    assert_eq!(client.patch(&pool(&client), COMPUTE, &json!({"tags": {"a": "b"}})).status, 200);
    let second = client.patch(&pool(&client), COMPUTE, &json!({"tags": {"a": "c"}}));
    assert_eq!((second.status, second.code()), (409, "OperationNotAllowed"));
}

#[tokio::test]
async fn etag_changes_with_each_write_and_is_checked() {
    let client = Client::instant();
    let etag = || client.get(&pool(&client), COMPUTE).header("etag").to_owned();
    let old = etag();
    let tag = |value: &str, header: (&str, &str)| {
        let url = with_version(&pool(&client), COMPUTE);
        client.try_send(&Method::PATCH, &url, &[header], Some(&json!({"tags": {"a": value}}))).expect("an answer")
    };
    assert_eq!(tag("1", ("if-match", &old)).status, 200);
    assert_ne!(etag(), old);
    let late = tag("2", ("if-match", &old));
    assert_eq!((late.status, late.code()), (412, "PreconditionFailed"));
    assert_eq!(tag("3", ("if-match", "*")).status, 200);
    assert_eq!(tag("4", ("if-none-match", "*")).status, 412);
    assert_eq!(
        client.get(&pool(&client), COMPUTE).body["tags"],
        json!({"creationSource": "aksengine-k8s-agentpool1", "poolName": "agentpool1", "a": "3"})
    );
}
