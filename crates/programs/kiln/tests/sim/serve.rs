//! `kiln sim serve`: ready line, sockets and shutdown.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use reqwest::{Method, Version};

use crate::http::{Operator, isolated, metadata, plain, send, trusting, wire_server};
use crate::{folder, kiln, text};

const SUBSCRIPTIONS: &str = "/subscriptions?api-version=2022-12-01";

#[test]
fn ready_line_comes_first_and_has_all_keys() {
    let sim = kiln().sim(&[]);
    let keys: Vec<&str> = sim.ready().as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "arm",
        "authority",
        "caFile",
        "clientId",
        "clientSecret",
        "imds",
        "kubeconfig",
        "location",
        "resourceGroup",
        "subscriptionId",
        "tenantId",
        "wireServer",
    ];
    assert!(expected.iter().all(|key| keys.contains(key)), "{keys:?}");
    assert!(sim.key("arm").starts_with("https://localhost:"), "{}", sim.key("arm"));
    for key in ["imds", "wireServer"] {
        assert!(sim.key(key).starts_with("http://127.0.0.1:"), "{}", sim.key(key));
    }
    assert!(Path::new(sim.key("caFile")).is_absolute());
}

#[tokio::test]
async fn client_with_the_ca_logs_in_over_http_2_and_http_1() {
    let sim = kiln().sim(&["--speed", "instant"]);
    let two = Operator::log_in(&sim).await.get(SUBSCRIPTIONS).await;
    assert_eq!((two.status, two.version), (200, Version::HTTP_2), "{}", two.text);
    let one = Operator::log_in_with(&sim, trusting(&sim).http1_only(), sim.key("arm")).await.get(SUBSCRIPTIONS).await;
    assert_eq!((one.status, one.version), (200, Version::HTTP_11), "{}", one.text);
    assert_eq!(one.body["value"][0]["subscriptionId"], sim.key("subscriptionId"));
}

#[tokio::test]
async fn certificate_is_valid_for_the_address_and_only_with_the_ca() {
    let sim = kiln().sim(&[]);
    let url = format!("{}/metadata/endpoints?api-version=2022-09-01", sim.key("arm").replace("localhost", "127.0.0.1"));
    let trusting = trusting(&sim).build().expect("a client");
    assert_eq!(send(&trusting, Method::GET, &url, &[], String::new()).await.expect("an answer").status, 200);
    let stranger = plain().tls_certs_only([]).build().expect("a client");
    let error = send(&stranger, Method::GET, &url, &[], String::new()).await.err().expect("no trust");
    assert!(format!("{error:?}").contains("UnknownIssuer"), "{error:?}");
}

#[test]
fn vm_is_identified_by_its_source_address() {
    isolated(async {
        let folder = folder();
        let world = folder.path().join("world.yaml");
        std::fs::write(&world, "addressPrefix: 127.77.0.0/16\npools: [{name: pool, capacity: 2}]\n").expect("written");
        let sim = kiln().sim(&["--world", text(&world), "--speed", "instant"]);
        let path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
        assert_eq!(metadata(&sim, "127.77.0.1", path).await.text, "pool_0");
        assert_eq!(metadata(&sim, "127.77.0.2", path).await.text, "pool_1");
        let stranger = metadata(&sim, "127.0.0.1", path).await;
        assert!(stranger.status == 404 && stranger.text.contains("/vm/pool000000/"), "{}", stranger.text);
        let named = metadata(&sim, "127.0.0.1", &format!("/vm/pool_1{path}")).await;
        assert_eq!(named.text, "pool_1");
    });
}

#[test]
fn wire_server_has_its_own_address() {
    isolated(async {
        let sim = kiln().sim(&[]);
        let got = wire_server(&sim, "/vm/k8s-agentpool1-26100436-vmss000000/?comp=versions").await;
        assert!(got.status == 200 && got.text.contains("<Version>2012-11-30</Version>"), "{}", got.text);
    });
}

#[tokio::test]
async fn reset_after_processing_executes_the_request() {
    let folder = folder();
    let faults = folder.path().join("faults.yaml");
    std::fs::write(&faults, "faults: [{kind: reset-after-processing, method: PUT, type: resourceGroups}]\n")
        .expect("written");
    let sim = kiln().sim(&["--faults", text(&faults), "--speed", "instant"]);
    let path = format!("/subscriptions/{}/resourcegroups/made?api-version=2022-09-01", sim.key("subscriptionId"));
    // HTTP/1, because an HTTP/2 client may retry by itself.
    let operator = Operator::log_in_with(&sim, trusting(&sim).http1_only(), sim.key("arm")).await;
    let error = operator
        .send(Method::PUT, &path, r#"{"location": "westus2"}"#.to_owned())
        .await
        .err()
        .expect("a broken connection");
    assert!(format!("{error:?}").contains("ConnectionReset"), "{error:?}");
    assert_eq!(operator.get(&path).await.status, 200);
}

#[tokio::test]
async fn oversized_request_is_rejected() {
    let sim = kiln().sim(&["--speed", "instant"]);
    let operator = Operator::log_in(&sim).await;
    let path = format!("/subscriptions/{}/resourcegroups/large?api-version=2022-09-01", sim.key("subscriptionId"));
    let got = operator.send(Method::PUT, &path, "x".repeat((4 << 20) + 1)).await.expect("an answer");
    assert_eq!((got.status, got.body["error"]["code"].as_str()), (413, Some("RequestContentTooLarge")));
    assert_eq!(operator.get(SUBSCRIPTIONS).await.status, 200);
}

#[test]
fn sigterm_exits_with_0_and_leaves_nothing_behind() {
    let mut sim = kiln().sim(&["--log-requests"]);
    let certificates = Path::new(sim.key("caFile")).parent().expect("a folder").to_owned();
    assert!(certificates.exists());
    let status = sim.terminate().expect("the process ends");
    assert_eq!(status.code(), Some(0), "{}", sim.stderr());
    assert!(!certificates.exists() && !certificates.parent().expect("a folder").exists());
}

#[test]
fn request_in_progress_is_answered_during_shutdown() {
    testkit::private().inside(answer_during_shutdown);
}

fn answer_during_shutdown() {
    let mut sim = kiln().sim(&["--speed", "instant"]);
    let address = sim.key("wireServer").trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).expect("a connection");
    let body = r#"{"state": "Ready"}"#;
    let head = format!(
        "POST /vm/k8s-agentpool1-26100436-vmss000000/provisioning/health HTTP/1.1\r\nhost: {address}\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    // The interim response means that the server is waiting for the body, so the request is in progress.
    let mut seen = [0; 25];
    stream.read_exact(&mut seen).expect("an interim answer");
    assert_eq!(&seen, b"HTTP/1.1 100 Continue\r\n\r\n");
    let ended = std::thread::spawn(move || (sim.terminate().expect("the process ends"), sim));
    // New connections are refused once the signal was received.
    while TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    stream.write_all(body.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (status, _sim) = ended.join().expect("the other thread");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn public_address_needs_an_explicit_option() {
    let refused = kiln().run(&["sim", "serve", "--listen", "0.0.0.0:0"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused}");
    assert!(refused.stderr.contains("--allow-remote"), "{refused}");
    let sim = kiln().sim(&["--listen", "0.0.0.0:0", "--allow-remote", "--name", "sim.internal"]);
    assert!(sim.key("arm").starts_with("https://sim.internal:"), "{}", sim.key("arm"));
}

#[tokio::test]
async fn request_log_is_optional_and_has_no_secrets() {
    let sim = kiln().sim(&["--log-requests", "--speed", "instant"]);
    let operator = Operator::log_in(&sim).await;
    operator.get(SUBSCRIPTIONS).await;
    while !sim.stderr().contains("GET /subscriptions 200") {
        std::thread::yield_now();
    }
    assert!(!sim.stderr().contains(sim.key("clientSecret")) && !sim.stderr().contains("Bearer"), "{}", sim.stderr());
}
