//! Signed documents on a node whose root is a folder: for which node and how long they are valid, replays, and tampering.

mod support;

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kiln_node_config::{NodeConfig, Signature};
use kiln_tls::SigningKey;
use kilnd::sources::Keys;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::documents::document;
use support::program::kilnd_on;
use support::world::{folder, image};

/// From RFC 8410, section 10.3.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";

fn statements(pool: &str, cluster: &str, expires: &str) -> Signature {
    Signature {
        key_id: "fleet".to_owned(),
        algorithm: "ed25519".to_owned(),
        pool: pool.to_owned(),
        cluster: cluster.to_owned(),
        issued: "2026-01-01T00:00:00Z".to_owned(),
        expires: expires.to_owned(),
        value: String::new(),
    }
}

fn signed(mut document: NodeConfig, statements: Signature) -> NodeConfig {
    document.signature = Some(statements);
    let value = SigningKey::from_pem(KEY).expect("a key").sign(&document.signed_bytes());
    document.signature.as_mut().expect("signed").value = BASE64_STANDARD.encode(value);
    document
}

fn pods(generation: u64, number: u32) -> NodeConfig {
    document(generation, &json!({"kubelet": {"configuration": {"maxPods": number}}}))
}

/// A node whose image has the key.
struct Signing(tempfile::TempDir);

impl Signing {
    fn new(settings: Option<Value>) -> Self {
        let root = folder();
        image(root.path());
        let node = Self(root);
        node.write("etc/kiln/keys.d/fleet.pub", &SigningKey::from_pem(KEY).expect("a key").public_pem());
        if let Some(settings) = settings {
            node.write("etc/kiln/kilnd.json", &settings.to_string());
        }
        node
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("written");
    }

    /// Runs a command and returns its exit code and standard error.
    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = kilnd_on(self.path()).args(words).output().expect("kilnd");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn apply(&self, document: &NodeConfig, more: &[&str]) -> (Option<i32>, String) {
        self.write("document.json", &document.to_json());
        let file = self.path().join("document.json");
        self.run(&[&["apply", "--config", &file.to_string_lossy()], more].concat())
    }

    #[track_caller]
    fn accepts(&self, document: &NodeConfig) {
        let (code, error) = self.apply(document, &[]);
        assert_eq!(code, Some(0), "{error}");
    }

    #[track_caller]
    fn rejects(&self, document: &NodeConfig, why: &str) {
        let before = fs::read_link(self.path().join("etc/kiln/current")).ok();
        let (code, error) = self.apply(document, &[]);
        assert!(code == Some(1) && error.contains(why), "{code:?} {error}");
        assert_eq!(fs::read_link(self.path().join("etc/kiln/current")).ok(), before, "the generation in force stays");
    }
}

#[test]
fn document_for_another_pool_or_cluster_is_rejected() {
    let node = Signing::new(Some(json!({"pool": "a", "cluster": "prod"})));
    let to = |pool, cluster| signed(pods(1, 30), statements(pool, cluster, ""));
    node.rejects(&to("b", "prod"), "signed for pool `b`, but this node belongs to pool `a`");
    node.rejects(&to("a", "test"), "signed for cluster `test`, but this node belongs to cluster `prod`");
    node.rejects(&to("", ""), "signed for no pool");
    node.accepts(&to("a", "prod"));
}

#[test]
fn first_accepted_document_binds_a_node_whose_image_names_no_pool() {
    let node = Signing::new(None);
    node.accepts(&signed(pods(1, 30), statements("a", "", "")));
    node.rejects(&signed(pods(2, 31), statements("b", "", "")), "this node belongs to pool `a`");
    node.accepts(&signed(pods(2, 31), statements("a", "prod", "")));
    node.rejects(&signed(pods(3, 32), statements("a", "test", "")), "this node belongs to cluster `prod`");
}

#[test]
fn expired_document_is_not_accepted_and_a_generation_in_force_stays() {
    let node = Signing::new(None);
    let late = signed(pods(1, 30), statements("", "", "2026-01-02T00:00:00Z"));
    node.rejects(&late, "the signature expired at 2026-01-02T00:00:00Z");
    assert_eq!(node.apply(&late, &["--force"]).0, Some(1), "not even with --force");
    node.accepts(&signed(pods(1, 30), statements("", "", "2999-01-01T00:00:00Z")));
    // Signed again for longer, it is the same document.
    node.accepts(&signed(pods(1, 30), statements("", "", "3999-01-01T00:00:00Z")));
    let future = Signature { issued: "2999-01-01T00:00:00Z".to_owned(), ..statements("", "", "") };
    node.rejects(&signed(pods(2, 30), future), "the clock of this machine shows");
}

#[test]
fn older_signed_document_is_rejected_after_a_rollback_and_a_reboot() {
    let node = Signing::new(None);
    let numbered =
        |number: u64| signed(pods(number, 30 + u32::try_from(number).expect("small")), statements("", "", ""));
    node.accepts(&numbered(1));
    node.accepts(&numbered(5));
    assert_eq!(node.run(&["rollback"]).0, Some(0));
    // Generation 4 was signed before 5 and never applied here. It has a higher number than the generation in force.
    node.rejects(&numbered(4), "generation 4 is older than the signed generation 5");
    fs::remove_dir_all(node.path().join("run")).expect("a reboot clears /run");
    node.rejects(&numbered(4), "generation 4 is older than the signed generation 5");
    let (code, error) = node.apply(&numbered(4), &["--force"]);
    assert_eq!(code, Some(0), "a person on the node may: {error}");
    node.accepts(&numbered(6));
}

#[test]
fn interrupted_first_boot_does_not_accept_an_older_document() {
    let node = Signing::new(None);
    node.write("credentials/kiln.node-config", &signed(pods(5, 35), statements("", "", "")).to_json());
    assert_eq!(node.run(&["boot"]).0, Some(0));
    // The VM id is written last, so without it the next boot is a first boot again.
    fs::remove_file(node.path().join("var/lib/kiln/vm-id")).expect("recorded");
    fs::remove_dir_all(node.path().join("run")).expect("a reboot clears /run");
    node.write("credentials/kiln.node-config", &signed(pods(4, 34), statements("", "", "")).to_json());
    let (code, error) = node.run(&["boot"]);
    assert!(code == Some(1) && error.contains("generation 4 is older than the signed generation 5"), "{error}");
    assert!(!node.path().join("run/kiln/ready").exists());
}

/// The paths of all values in a document that are not objects or lists.
fn leaves(value: &Value, path: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| {
                leaves(value, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            });
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| leaves(value, &format!("{path}/{index}"), all));
        }
        _ => all.push(path.to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is changed in a signed document, it is rejected, or it still means the same.
    #[test]
    fn tampered_document_is_rejected(
        parts in support::documents::parts(),
        bound in any::<bool>(),
        which in any::<prop::sample::Index>(),
        how in 0..4_u8,
        text in "[a-z0-9:./-]{0,12}",
    ) {
        let statements = if bound { statements("a", "prod", "2999-01-01T00:00:00Z") } else { statements("", "", "") };
        let good = signed(document(7, &parts), statements);
        let root = folder();
        fs::write(root.path().join("fleet.pub"), SigningKey::from_pem(KEY).expect("a key").public_pem()).expect("written");
        let keys = Keys::read(root.path()).expect("keys");
        prop_assert!(keys.check(&good).is_ok());
        let original: Value = serde_json::from_str(&good.to_json()).expect("json");
        let mut all = Vec::new();
        leaves(&original, "", &mut all);
        let path = which.get(&all);
        let mut changed = original.clone();
        match how {
            0 => *changed.pointer_mut(path).expect("a leaf") = json!(text),
            1 => {
                let (parent, name) = path.rsplit_once('/').expect("a path");
                let name = name.replace("~1", "/").replace("~0", "~");
                if let Some(Value::Object(fields)) = changed.pointer_mut(parent) {
                    fields.remove(&name);
                }
            }
            2 => {
                let (parent, _) = path.rsplit_once('/').expect("a path");
                if let Some(Value::Object(fields)) = changed.pointer_mut(parent) {
                    fields.insert(format!("x{text}"), json!(text));
                }
            }
            _ => {
                let leaf = changed.pointer_mut(path).expect("a leaf");
                *leaf = match &*leaf {
                    Value::Number(number) => json!(number.as_u64().unwrap_or(0) + 1),
                    Value::Bool(value) => json!(!value),
                    Value::String(value) => json!(format!("{value} ")),
                    _ => json!(0),
                };
            }
        }
        let Ok(read) = NodeConfig::parse(changed.to_string().as_bytes()) else { return Ok(()) };
        let is_same = read.signed_bytes() == good.signed_bytes()
            && read.signature.as_ref().map(|signature| &signature.key_id) == good.signature.as_ref().map(|signature| &signature.key_id);
        let same_value = read.signature.as_ref().and_then(|signature| BASE64_STANDARD.decode(signature.value.trim()).ok())
            == good.signature.as_ref().and_then(|signature| BASE64_STANDARD.decode(&signature.value).ok());
        prop_assert_eq!(keys.check(&read).is_ok(), is_same && same_value, "{} {}", path, how);
    }
}
