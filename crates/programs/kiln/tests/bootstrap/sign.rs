//! `kiln bootstrap sign`, with OpenSSL as the judge of its signatures.

use std::process::Command;

use kiln_aks_formats::from_base64;
use kiln_node_config::NodeConfig;

use crate::fixture::{Folder, SIGNING_KEY};

const SIGN: [&str; 6] = ["sign", "node-config.json", "--key", "key.pem", "--key-id", "fleet"];

fn folder() -> Folder {
    let folder = Folder::new();
    let config = folder.with_sources(&["render", "--to", "node-config"]).success().stdout;
    folder.write("node-config.json", &config);
    folder.write("key.pem", SIGNING_KEY);
    folder
}

#[test]
fn openssl_accepts_the_signature_and_rejects_a_changed_document() {
    let folder = folder();
    let bound = ["--pool", "a", "--cluster", "prod", "--expires-in", "30d", "--out", "signed.json"];
    let text = folder.run(&[&SIGN[..], &bound].concat()).success().stdout;
    assert!(text.starts_with("signed.json: generation ") && text.contains("signed with `fleet`, until "), "{text}");
    let document = NodeConfig::parse(folder.read("signed.json").as_bytes()).expect("a document");
    let signature = document.signature.clone().expect("signed");
    assert_eq!((signature.pool.as_str(), signature.cluster.as_str()), ("a", "prod"));
    assert!(signature.issued < signature.expires);
    let verify = |document: &NodeConfig| {
        std::fs::write(folder.path("message"), document.signed_bytes()).expect("written");
        std::fs::write(folder.path("value"), from_base64(&signature.value).expect("base64")).expect("written");
        let words = ["pkeyutl", "-verify", "-inkey", "key.pem", "-rawin", "-in", "message", "-sigfile", "value"];
        Command::new("openssl").args(words).current_dir(folder.path("")).output().expect("openssl").status.success()
    };
    assert!(verify(&document));
    let mut changed = document.clone();
    changed.metadata.generation += 1;
    assert!(!verify(&changed));
    let mut longer = document.clone();
    longer.signature.as_mut().expect("signed").expires = "2999-01-01T00:00:00Z".to_owned();
    assert!(!verify(&longer), "the statements are covered");
}

#[test]
fn signing_again_keeps_the_hash() {
    let folder = folder();
    let hash = |name: &str| NodeConfig::parse(folder.read(name).as_bytes()).expect("a document").hash();
    let _ = folder.run(&[&SIGN[..], &["--out", "one.json"]].concat()).success();
    let again =
        ["sign", "one.json", "--key", "key.pem", "--key-id", "other", "--expires-in", "1h", "--out", "two.json"];
    let _ = folder.run(&again).success();
    assert_eq!((hash("one.json"), hash("two.json")), (hash("node-config.json"), hash("node-config.json")));
}

#[test]
fn unusable_input_is_an_error_and_the_key_is_never_shown() {
    let folder = folder();
    folder.write("not-a-key.pem", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXNlY3JldA==\n-----END PRIVATE KEY-----\n");
    folder.write("invalid.json", "{}");
    let with = |more: &[&str]| folder.run(&[&SIGN[..], more].concat());
    for (finished, message) in [
        (with(&["--expires", "2020-01-01T00:00:00Z"]), "would have expired at 2020-01-01T00:00:00Z"),
        (with(&["--pool", " "]), "`--pool` must not be empty"),
        (folder.run(&["sign", "node-config.json", "--key", "key.pem", "--key-id", "a/b"]), "invalid key id `a/b`"),
        (folder.run(&["sign", "node-config.json", "--key", "not-a-key.pem", "--key-id", "a"]), "openssl genpkey"),
        (folder.run(&["sign", "invalid.json", "--key", "key.pem", "--key-id", "a"]), "invalid.json: "),
        (folder.run(&["sign", "none.json", "--key", "key.pem", "--key-id", "a"]), "none.json: "),
    ] {
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(finished.stderr.contains(message), "{message}: {finished}");
        assert!(!finished.stderr.contains("c2VjcmV0") && !finished.stdout.contains("MC4CAQ"), "{finished}");
    }
}
