//! The metadata service and the wire server, well and unwell.

mod scripted_host;

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kiln_node_plan::SecretBytes;
use kilnd::sources::{self, Endpoints, Imds, Rules, Source, Wait, find, report_ready};
use scripted_host::{Answer, Host, Virtual};

const DOCUMENT: &str = r#"{"apiVersion":"kiln.dev/v1alpha1","kind":"NodeConfig"}"#;

fn ok(body: &str) -> Answer {
    (200, String::new(), body.as_bytes().to_vec())
}

fn status(status: u16) -> Answer {
    (status, String::new(), b"{\"error\":\"x\"}".to_vec())
}

#[test]
fn a_service_that_is_down_for_two_minutes_is_waited_for() {
    testkit::private().inside(|| {
        let time = Virtual::default();
        let seen = time.clone();
        let host = Host::new(move |_, _| if seen.now() < Duration::from_mins(2) { status(503) } else { ok(DOCUMENT) });
        let body = Imds::new(&host.url, 1).user_data(Rules::IMDS, &time).expect("it came back");
        assert_eq!(body.as_deref(), Some(DOCUMENT.as_bytes()));
        assert!((120..130).contains(&time.now().as_secs()), "{:?}", time.now());
        let attempts = host.asked().len();
        assert!((25..60).contains(&attempts), "{attempts} attempts");
    });
}

#[test]
fn a_service_that_never_comes_back_is_given_up_after_five_minutes() {
    testkit::private().inside(|| {
        let time = Virtual::default();
        let host = Host::new(|_, _| status(500));
        let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &time).expect_err("never");
        assert!(matches!(&error, sources::Error::Deadline { waited, .. } if waited.as_secs() == 300), "{error}");
        assert!(error.is_transient());
    });
}

#[test]
fn a_port_where_nobody_listens_and_a_broken_connection_are_tried_again() {
    testkit::private().inside(|| {
        let time = Virtual::default();
        let port = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        let error = Imds::new(&format!("http://{port}"), 1).user_data(Rules::IMDS, &time).expect_err("nobody");
        assert!(matches!(&error, sources::Error::Deadline { attempts, .. } if *attempts > 50), "{error}");
        let host = Host::new(|_, count| if count < 4 { status(0) } else { ok("e30=") });
        assert!(Imds::new(&host.url, 1).user_data(Rules::IMDS, &Virtual::default()).expect("at last").is_some());
        assert_eq!(host.asked().len(), 4);
    });
}

#[test]
fn gone_and_throttled_are_retried_as_asked_and_forbidden_is_not() {
    testkit::private().inside(|| {
        let time = Virtual::default();
        let host = Host::new(|_, count| match count {
            1 => status(410),
            2 => (429, "Retry-After: 7\r\n".to_owned(), Vec::new()),
            _ => ok(DOCUMENT),
        });
        assert!(Imds::new(&host.url, 1).user_data(Rules::IMDS, &time).is_ok());
        assert!(time.now() >= Duration::from_millis(7100), "{:?}", time.now());
        for code in [401, 403, 405] {
            let host = Host::new(move |_, _| status(code));
            let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &Virtual::default()).expect_err("refused");
            assert!(matches!(&error, sources::Error::Refused { status, .. } if *status == code), "{error}");
            assert_eq!(host.asked().len(), 1);
        }
    });
}

#[test]
fn a_redirect_is_not_followed() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| (302, "Location: http://127.0.0.1:1/\r\n".to_owned(), Vec::new()));
        let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &Virtual::default()).expect_err("refused");
        assert!(matches!(error, sources::Error::Refused { status: 302, .. }), "{error}");
    });
}

#[test]
fn questions_carry_what_the_service_asks_for() {
    testkit::private().inside(|| {
    let host = Host::new(|_, _| {
        ok(
            "{\"compute\":{\"vmId\":\"a\",\"name\":\"n\",\"osProfile\":{\"computerName\":\"c\",\"adminUsername\":\"u\"},\"publicKeys\":[{\"keyData\":\"k\\n\",\"path\":\"p\"}]}}",
        )
    });
    let instance = Imds::new(&host.url, 1).instance(Rules::IMDS, &Virtual::default()).expect("read");
    assert_eq!((instance.host_name.as_deref(), instance.user_name.as_deref()), (Some("c"), Some("u")));
    assert_eq!(instance.ssh_keys, ["k"]);
    let asked = &host.asked()[0];
    assert!(asked.line.starts_with("GET /metadata/instance?api-version="), "{}", asked.line);
    assert!(asked.head.contains("\r\nmetadata: true\r\n"), "{}", asked.head);
    assert!(!asked.head.contains("x-forwarded-for"));
    });
}

#[test]
fn an_answer_without_end_and_one_that_is_no_json_are_errors() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| (200, String::new(), vec![b'x'; 3 << 20]));
        let error = Imds::new(&host.url, 1).user_data(Rules::IMDS, &Virtual::default()).expect_err("too long");
        assert!(matches!(error, sources::Error::Response { .. }), "{error}");
        let host = Host::new(|_, _| ok("<html>"));
        let error = Imds::new(&host.url, 1).instance(Rules::IMDS, &Virtual::default()).expect_err("no JSON");
        assert!(matches!(error, sources::Error::Response { .. }), "{error}");
    });
}

#[test]
fn the_ready_report_says_so_and_is_repeated_until_it_is_heard() {
    testkit::private().inside(|| {
        let host = Host::new(|_, count| if count < 3 { status(503) } else { ok("") });
        report_ready(&host.endpoints(), Rules::WIRE, &Virtual::default(), 1).expect("heard");
        let asked = host.asked();
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[2].line, "POST /provisioning/health HTTP/1.1");
        assert_eq!(asked[2].body, r#"{"state":"Ready"}"#);
        assert!(asked[2].head.contains("content-type: application/json"), "{}", asked[2].head);
    });
}

fn ovf(custom_data: &str, preprovisioned: bool) -> String {
    format!(
        "<Environment><LinuxProvisioningConfigurationSet><HostName>n</HostName><CustomData>{custom_data}</CustomData>\
         </LinuxProvisioningConfigurationSet><PreprovisionedVm>{preprovisioned}</PreprovisionedVm></Environment>"
    )
}

/// `DOCUMENT`, base64.
const ENCODED: &str = "eyJhcGlWZXJzaW9uIjoia2lsbi5kZXYvdjFhbHBoYTEiLCJraW5kIjoiTm9kZUNvbmZpZyJ9";

fn with_cd(host: &Host, xml: &str) -> (tempfile::TempDir, Endpoints) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ovf-env.xml"), xml).expect("written");
    let endpoints = Endpoints { cd: vec![folder.path().to_owned()], ..host.endpoints() };
    (folder, endpoints)
}

#[test]
fn a_document_on_the_medium_needs_no_network() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| status(500));
        let (_folder, endpoints) = with_cd(&host, &ovf(ENCODED, false));
        let found = find(&endpoints, Rules::IMDS, &Virtual::default(), 1).expect("found");
        assert_eq!((found.source, found.document.as_slice()), (Source::CustomData, DOCUMENT.as_bytes()));
        assert_eq!(found.ovf.expect("a medium").host_name.as_deref(), Some("n"));
        assert_eq!(host.asked().len(), 0);
    });
}

#[test]
fn a_system_credential_comes_first() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| status(500));
        let (folder, mut endpoints) = with_cd(&host, &ovf("e30=", false));
        endpoints.credentials = folder.path().to_owned();
        fs::write(folder.path().join("kiln.node-config"), DOCUMENT).expect("written");
        let found = find(&endpoints, Rules::IMDS, &Virtual::default(), 1).expect("found");
        assert_eq!(found.source, Source::SystemCredential);
    });
}

#[test]
fn custom_data_of_others_leads_on_to_user_data_and_is_recorded() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok(ENCODED));
        // `#!/bin/sh`, base64.
        let (_folder, endpoints) = with_cd(&host, &ovf("IyEvYmluL3NoCg==", false));
        let found = find(&endpoints, Rules::IMDS, &Virtual::default(), 1).expect("found");
        assert_eq!((found.source, found.document.as_slice()), (Source::UserData, DOCUMENT.as_bytes()));
        assert_eq!(found.lookups.len(), 1);
        assert_eq!(found.lookups[0].source, Source::CustomData);
    });
}

#[test]
fn a_machine_that_was_started_ahead_never_takes_the_placeholder_and_waits_to_be_asked_for() {
    testkit::private().inside(|| {
        let time = Virtual::default();
        let seen = time.clone();
        let real = ovf(ENCODED, false);
        let host = Host::new(move |asked, _| {
            assert!(asked.line.contains("/metadata/reprovisiondata?"), "{}", asked.line);
            // Sixteen minutes in a pool.
            if seen.now() < Duration::from_mins(16) { status(404) } else { ok(&real) }
        });
        let dummy = "eyJkdW1teSI6MX0="; // {"dummy":1}
        let (_folder, endpoints) = with_cd(&host, &ovf(dummy, true));
        let found = find(&endpoints, Rules::IMDS, &time, 1).expect("found");
        assert_eq!(found.document, DOCUMENT.as_bytes());
        assert!(time.now() >= Duration::from_mins(16));
        assert!(found.lookups[0].result.contains("placeholder"), "{:?}", found.lookups);
    });
}

/// A time in which a medium appears after two seconds.
struct Late(Virtual, std::path::PathBuf);

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
fn a_medium_that_comes_late_is_found_when_user_data_is_empty() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok(""));
        let folder = tempfile::tempdir().expect("a folder");
        let late = folder.path().join("cd");
        let endpoints = Endpoints { cd: vec![late.clone()], ..host.endpoints() };
        let found = find(&endpoints, Rules::IMDS, &Late(Virtual::default(), late), 1).expect("found");
        assert_eq!(found.source, Source::CustomData);
    });
}

#[test]
fn a_medium_that_comes_late_is_found_while_the_service_says_that_it_knows_nothing() {
    testkit::private().inside(|| {
        for code in [404, 503] {
            let host = Host::new(move |_, _| status(code));
            let folder = tempfile::tempdir().expect("a folder");
            let late = folder.path().join("cd");
            let endpoints = Endpoints { cd: vec![late.clone()], ..host.endpoints() };
            let time = Virtual::default();
            let found = find(&endpoints, Rules::IMDS, &Late(time.clone(), late), 1).expect("found");
            assert_eq!(found.source, Source::CustomData);
            assert!(time.now() < Duration::from_secs(10), "{:?}", time.now());
        }
    });
}

#[test]
fn without_a_medium_the_service_is_asked_for_as_long_as_ever() {
    testkit::private().inside(|| {
        let time = Virtual::default();
        let seen = time.clone();
        let host = Host::new(move |_, _| if seen.now() < Duration::from_mins(4) { status(503) } else { ok(ENCODED) });
        let found = find(&host.endpoints(), Rules::IMDS, &time, 1).expect("it came back");
        assert_eq!(found.source, Source::UserData);
    });
}

#[test]
fn a_credential_in_custom_data_goes_with_a_document_in_user_data() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok(ENCODED));
        let message = "Content-Type: application/vnd.kiln.credential\n\nabcdef.0123456789abcdef";
        let (_folder, endpoints) = with_cd(&host, &ovf(&BASE64_STANDARD.encode(message), false));
        let found = find(&endpoints, Rules::IMDS, &Virtual::default(), 1).expect("found");
        assert_eq!((found.source, found.document.as_slice()), (Source::UserData, DOCUMENT.as_bytes()));
        assert_eq!(found.credential.as_ref().map(SecretBytes::expose), Some(b"abcdef.0123456789abcdef".as_slice()));
        assert!(!format!("{found:?}").contains("abcdef.0123456789"), "{found:?}");
    });
}

#[test]
fn without_a_document_anywhere_the_error_says_where_it_looked_and_shows_no_content() {
    testkit::private().inside(|| {
        let host = Host::new(|_, _| ok("aHVudGVyMg=="));
        let (_folder, endpoints) = with_cd(&host, &ovf("aHVudGVyMg==", false));
        let error = find(&endpoints, Rules::IMDS, &Virtual::default(), 1).expect_err("none").to_string();
        assert!(error.contains("custom data: ") && error.contains("user data: "), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
    });
}
