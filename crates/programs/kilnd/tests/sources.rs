//! The metadata service and the wire server in working and failing states.

mod scripted_host;

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kiln_types::SecretBytes;
use kilnd::sources::{self, Endpoints, Health, Imds, Rules, Source, Wait, find, report};
use scripted_host::{Answer, Host, VirtualClock};

const DOCUMENT: &str = r#"{"apiVersion":"kiln.dev/v1alpha1","kind":"NodeConfig"}"#;

fn ok(body: &str) -> Answer {
    (200, String::new(), body.as_bytes().to_vec())
}

fn status(status: u16) -> Answer {
    (status, String::new(), b"{\"error\":\"x\"}".to_vec())
}

#[test]
fn service_that_is_down_for_two_minutes_is_retried() {
    testkit::private().inside(|| {
        let time = VirtualClock::default();
        let clock = time.clone();
        let host = Host::new(move |_, _| if clock.now() < Duration::from_mins(2) { status(503) } else { ok(DOCUMENT) });
        let body = Imds::new(&host.url, 1).user_data(Rules::IMDS, &time).expect("the service recovered");
        assert_eq!(body.as_deref(), Some(DOCUMENT.as_bytes()));
        assert!((120..130).contains(&time.now().as_secs()), "{:?}", time.now());
        let attempts = host.requests().len();
        assert!((25..60).contains(&attempts), "{attempts} attempts");
    });
}

#[test]
fn unavailable_service_fails_after_five_minutes() {
    testkit::private().inside(|| {
        let time = VirtualClock::default();
        let host = Host::new(|_, _| status(500));
        let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &time).expect_err("never");
        assert!(matches!(&error, sources::Error::Deadline { waited, .. } if waited.as_secs() == 300), "{error}");
        assert!(error.is_transient());
    });
}

#[test]
fn refused_and_broken_connections_are_retried() {
    testkit::private().inside(|| {
        let time = VirtualClock::default();
        let port = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        let error = Imds::new(&format!("http://{port}"), 1).user_data(Rules::IMDS, &time).expect_err("refused");
        assert!(matches!(&error, sources::Error::Deadline { attempts, .. } if *attempts > 50), "{error}");
        let host = Host::new(|_, count| if count < 4 { status(0) } else { ok("e30=") });
        assert!(
            Imds::new(&host.url, 1).user_data(Rules::IMDS, &VirtualClock::default()).expect("a response").is_some()
        );
        assert_eq!(host.requests().len(), 4);
    });
}

#[test]
fn gone_and_throttled_are_retried_and_forbidden_is_not() {
    testkit::private().inside(|| {
        let time = VirtualClock::default();
        let host = Host::new(|_, count| match count {
            1 => status(410),
            2 => (429, "Retry-After: 7\r\n".to_owned(), Vec::new()),
            _ => ok(DOCUMENT),
        });
        assert!(Imds::new(&host.url, 1).user_data(Rules::IMDS, &time).is_ok());
        assert!(time.now() >= Duration::from_millis(7100), "{:?}", time.now());
        for code in [401, 403, 405] {
            let host = Host::new(move |_, _| status(code));
            let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &VirtualClock::default()).expect_err("refused");
            assert!(matches!(&error, sources::Error::Refused { status, .. } if *status == code), "{error}");
            assert_eq!(host.requests().len(), 1);
        }
    });
}

#[test]
fn redirect_is_not_followed() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| (302, "Location: http://127.0.0.1:1/\r\n".to_owned(), Vec::new()));
        let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &VirtualClock::default()).expect_err("refused");
        assert!(matches!(error, sources::Error::Refused { status: 302, .. }), "{error}");
    });
}

#[test]
fn requests_have_the_required_headers() {
    testkit::private().inside(|| {
    let host = Host::new(|_, _| {
        ok(
            "{\"compute\":{\"vmId\":\"a\",\"name\":\"n\",\"osProfile\":{\"computerName\":\"c\",\"adminUsername\":\"u\"},\"publicKeys\":[{\"keyData\":\"k\\n\",\"path\":\"p\"}]}}",
        )
    });
    let instance = Imds::new(&host.url, 1).instance(Rules::IMDS, &VirtualClock::default()).expect("read");
    assert_eq!((instance.host_name.as_deref(), instance.user_name.as_deref()), (Some("c"), Some("u")));
    assert_eq!(instance.ssh_keys, ["k"]);
    let request = &host.requests()[0];
    assert!(request.line.starts_with("GET /metadata/instance?api-version="), "{}", request.line);
    assert!(request.head.contains("\r\nmetadata: true\r\n"), "{}", request.head);
    assert!(!request.head.contains("x-forwarded-for"));
    });
}

#[test]
fn oversized_and_non_json_responses_are_errors() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| (200, String::new(), vec![b'x'; 3 << 20]));
        let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &VirtualClock::default()).expect_err("too long");
        assert!(matches!(error, sources::Error::Response { .. }), "{error}");
        let host = Host::new(|_, _| ok("<html>"));
        let error = Imds::new(&host.url, 1).instance(Rules::IMDS, &VirtualClock::default()).expect_err("not JSON");
        assert!(matches!(error, sources::Error::Response { .. }), "{error}");
    });
}

#[test]
fn ready_report_is_retried_until_it_is_accepted() {
    testkit::private().inside(|| {
        let goal =
            "<GoalState><Incarnation>1</Incarnation><ContainerId>c</ContainerId><InstanceId>i</InstanceId></GoalState>";
        let host = Host::new(move |_, count| if count < 3 { status(503) } else { ok(goal) });
        report(&host.endpoints(), &Health::Ready, Rules::WIRE, &VirtualClock::default(), 1).expect("accepted");
        let request = host.requests();
        assert_eq!(request.len(), 4, "{request:?}");
        assert_eq!(request[2].line, "GET /machine/?comp=goalstate HTTP/1.1");
        assert_eq!(request[3].line, "POST /machine/?comp=health HTTP/1.1");
        assert!(request[3].body.contains("<State>Ready</State>"), "{}", request[3].body);
    });
}

fn ovf(custom_data: &str, preprovisioned: bool) -> String {
    format!(
        "<Environment><LinuxProvisioningConfigurationSet><HostName>n</HostName><CustomData>{custom_data}</CustomData>\
         </LinuxProvisioningConfigurationSet><PreprovisionedVm>{preprovisioned}</PreprovisionedVm></Environment>"
    )
}

/// `DOCUMENT` in base64.
const ENCODED: &str = "eyJhcGlWZXJzaW9uIjoia2lsbi5kZXYvdjFhbHBoYTEiLCJraW5kIjoiTm9kZUNvbmZpZyJ9";

fn with_cd(host: &Host, xml: &str) -> (tempfile::TempDir, Endpoints) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ovf-env.xml"), xml).expect("written");
    let endpoints = Endpoints { cd: vec![folder.path().to_owned()], ..host.endpoints() };
    (folder, endpoints)
}

#[test]
fn document_on_provisioning_media_needs_no_network() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| status(500));
        let (_folder, endpoints) = with_cd(&host, &ovf(ENCODED, false));
        let found = find(&endpoints, Rules::IMDS, &VirtualClock::default(), 1).expect("found");
        assert_eq!((found.source, found.document.as_slice()), (Source::CustomData, DOCUMENT.as_bytes()));
        assert_eq!(found.ovf.expect("provisioning media").host_name.as_deref(), Some("n"));
        assert_eq!(host.requests().len(), 0);
    });
}

#[test]
fn system_credential_has_precedence() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| status(500));
        let (folder, mut endpoints) = with_cd(&host, &ovf("e30=", false));
        endpoints.credentials = folder.path().to_owned();
        fs::write(folder.path().join("kiln.node-config"), DOCUMENT).expect("written");
        let found = find(&endpoints, Rules::IMDS, &VirtualClock::default(), 1).expect("found");
        assert_eq!(found.source, Source::SystemCredential);
    });
}

#[test]
fn unrelated_custom_data_is_recorded_and_user_data_is_used() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok(ENCODED));
        // `#!/bin/sh` in base64.
        let (_folder, endpoints) = with_cd(&host, &ovf("IyEvYmluL3NoCg==", false));
        let found = find(&endpoints, Rules::IMDS, &VirtualClock::default(), 1).expect("found");
        assert_eq!((found.source, found.document.as_slice()), (Source::UserData, DOCUMENT.as_bytes()));
        assert_eq!(found.lookups.len(), 1);
        assert_eq!(found.lookups[0].source, Source::CustomData);
    });
}

#[test]
fn preprovisioned_machine_ignores_the_placeholder_and_waits_for_its_assignment() {
    testkit::private().inside(|| {
        let time = VirtualClock::default();
        let clock = time.clone();
        let real = ovf(ENCODED, false);
        let host = Host::new(move |request, _| {
            assert!(request.line.contains("/metadata/reprovisiondata?"), "{}", request.line);
            // Unassigned for sixteen minutes.
            if clock.now() < Duration::from_mins(16) { status(404) } else { ok(&real) }
        });
        let dummy = "eyJkdW1teSI6MX0="; // {"dummy":1}
        let (_folder, endpoints) = with_cd(&host, &ovf(dummy, true));
        let found = find(&endpoints, Rules::IMDS, &time, 1).expect("found");
        assert_eq!(found.document, DOCUMENT.as_bytes());
        assert!(time.now() >= Duration::from_mins(16));
        assert!(found.lookups[0].result.contains("placeholder"), "{:?}", found.lookups);
    });
}

/// A clock with which provisioning media appears after two seconds.
struct Late(VirtualClock, std::path::PathBuf);

impl Wait for Late {
    fn now(&self) -> Duration {
        self.0.now()
    }
    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
        if self.0.now() > Duration::from_secs(2) && !self.1.exists() {
            fs::create_dir(&self.1).expect("made");
            fs::write(self.1.join("ovf-env.xml"), ovf(ENCODED, false)).expect("written");
        }
    }
    fn network(&self, at_most: Duration) {
        self.0.network(at_most);
    }
}

#[test]
fn late_provisioning_media_is_found_if_user_data_is_empty() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok(""));
        let folder = tempfile::tempdir().expect("a folder");
        let late = folder.path().join("cd");
        let endpoints = Endpoints { cd: vec![late.clone()], ..host.endpoints() };
        let found = find(&endpoints, Rules::IMDS, &Late(VirtualClock::default(), late), 1).expect("found");
        assert_eq!(found.source, Source::CustomData);
    });
}

#[test]
fn late_provisioning_media_is_found_while_the_service_fails() {
    testkit::private().inside(|| {
        for code in [404, 503] {
            let host = Host::new(move |_, _| status(code));
            let folder = tempfile::tempdir().expect("a folder");
            let late = folder.path().join("cd");
            let endpoints = Endpoints { cd: vec![late.clone()], ..host.endpoints() };
            let time = VirtualClock::default();
            let found = find(&endpoints, Rules::IMDS, &Late(time.clone(), late), 1).expect("found");
            assert_eq!(found.source, Source::CustomData);
            assert!(time.now() < Duration::from_secs(10), "{:?}", time.now());
        }
    });
}

#[test]
fn without_provisioning_media_the_service_is_retried_to_the_deadline() {
    testkit::private().inside(|| {
        let time = VirtualClock::default();
        let clock = time.clone();
        let host = Host::new(move |_, _| if clock.now() < Duration::from_mins(4) { status(503) } else { ok(ENCODED) });
        let found = find(&host.endpoints(), Rules::IMDS, &time, 1).expect("the service recovered");
        assert_eq!(found.source, Source::UserData);
    });
}

#[test]
fn credential_in_custom_data_is_combined_with_a_document_in_user_data() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok(ENCODED));
        let message = "Content-Type: application/vnd.kiln.credential\n\nabcdef.0123456789abcdef";
        let (_folder, endpoints) = with_cd(&host, &ovf(&BASE64_STANDARD.encode(message), false));
        let found = find(&endpoints, Rules::IMDS, &VirtualClock::default(), 1).expect("found");
        assert_eq!((found.source, found.document.as_slice()), (Source::UserData, DOCUMENT.as_bytes()));
        assert_eq!(found.credential.as_ref().map(SecretBytes::expose), Some(b"abcdef.0123456789abcdef".as_slice()));
        assert!(!format!("{found:?}").contains("abcdef.0123456789"), "{found:?}");
    });
}

#[test]
fn error_without_a_document_lists_the_sources_and_shows_no_content() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok("aHVudGVyMg=="));
        let (_folder, endpoints) = with_cd(&host, &ovf("aHVudGVyMg==", false));
        let error = find(&endpoints, Rules::IMDS, &VirtualClock::default(), 1).expect_err("none").to_string();
        assert!(error.contains("custom data: ") && error.contains("user data: "), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
    });
}
