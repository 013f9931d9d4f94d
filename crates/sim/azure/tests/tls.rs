//! Certificates in a state folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use kiln_sim_azure::tls::{Tls, TlsError};

fn now() -> Timestamp {
    "2028-02-29T12:00:00Z".parse().expect("a time")
}

fn open(folder: &Path) -> Result<Tls, TlsError> {
    Tls::open(folder, &[], now())
}

fn refused(folder: &Path, file: &str, words: &str) {
    let error = open(folder).expect_err("damaged").to_string();
    assert!(error.contains(folder.join(file).to_str().expect("UTF-8")) && error.contains(words), "{error}");
}

#[test]
fn certificates_are_created_once_with_private_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = folder.path().join("tls");
    let made = open(&tls).expect("certificates");
    let files = || ["ca.pem", "ca.key", "server.pem", "server.key"].map(|name| fs::read(tls.join(name)).expect(name));
    let before = files();
    assert_eq!(made.ca_file, tls.join("ca.pem"));
    open(&tls).expect("the same again");
    assert_eq!(files(), before);
    for key in ["ca.key", "server.key"] {
        assert_eq!(fs::metadata(tls.join(key)).expect(key).permissions().mode() & 0o777, 0o600, "{key}");
    }
}

#[test]
fn new_name_renews_the_server_certificate_and_keeps_the_ca() {
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path()).expect("certificates");
    let read = |name: &str| fs::read(folder.path().join(name)).expect(name);
    let (ca, server) = (read("ca.pem"), read("server.pem"));
    Tls::open(folder.path(), &["sim.internal".to_owned(), "10.0.0.7".to_owned()], now()).expect("one more name");
    assert_eq!(read("ca.pem"), ca);
    assert_ne!(read("server.pem"), server);
}

#[test]
fn invalid_name_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Tls::open(folder.path(), &["not a name".to_owned()], now()).expect_err("a bad name").to_string();
    assert!(error.contains("`not a name`"), "{error}");
}

#[test]
fn damaged_or_missing_file_is_named() {
    for (file, bytes, words) in [
        ("ca.pem", Some("rubbish"), "not a certificate"),
        ("server.pem", Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "delete the folder"),
        ("server.key", Some(""), "not a private key"),
        ("server.key", None, "missing"),
        ("ca.pem", None, "missing"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path()).expect("certificates");
        match bytes {
            Some(bytes) => fs::write(folder.path().join(file), bytes).expect("written"),
            None => fs::remove_file(folder.path().join(file)).expect("removed"),
        }
        refused(folder.path(), file, words);
    }
}

#[test]
fn mismatched_key_is_detected() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    open(one.path()).expect("certificates");
    open(two.path()).expect("certificates");
    fs::copy(two.path().join("server.key"), one.path().join("server.key")).expect("copied");
    refused(one.path(), "server.key", "delete the folder");
    fs::copy(two.path().join("server.pem"), one.path().join("server.pem")).expect("copied");
    refused(one.path(), "server.pem", "delete the folder");
}

#[test]
fn expired_certificate_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path()).expect("certificates");
    let later = now() + SignedDuration::from_hours(24 * 366 * 10);
    let error = Tls::open(folder.path(), &[], later).expect_err("expired").to_string();
    assert!(error.contains("server.pem") && error.contains("expired"), "{error}");
}
