//! Signatures of documents.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kiln_node_config::NodeConfig;
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::sources::decode::unbase64;

/// The prefix of an ed25519 key in the format of `openssl pkey -pubout` (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The extension of key files; the stem is the key id.
const EXTENSION: &str = "pub";

/// The public keys of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(BTreeMap<String, [u8; 32]>);

/// An unreadable key. kilnd then accepts no document at all: if it ignored the key, it might accept unsigned documents.
#[derive(Debug, thiserror::Error)]
pub enum BadKey {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` contains no ed25519 public key; expected PEM, or 32 bytes in base64", path.display())]
    Form { path: PathBuf },
}

/// A missing or invalid signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the document is not signed, but this image requires a signature")]
    Missing,
    #[error("unsupported signature algorithm `{algorithm}`; expected `ed25519`")]
    Algorithm { algorithm: String },
    #[error("the document is signed with key `{key_id}`, which is not in this image")]
    UnknownKey { key_id: String },
    #[error("the signature with key `{key_id}` does not match the document")]
    Wrong { key_id: String },
}

impl Keys {
    /// Reads the keys in a folder, `<key id>.pub`; none if the folder does not exist.
    pub fn read(folder: &Path) -> Result<Self, BadKey> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| BadKey::Read { path, source }
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(BadKey::Read { path: folder.to_owned(), source }),
        };
        let mut keys = BTreeMap::new();
        for entry in entries {
            let path = entry.map_err(unreadable(folder))?.path();
            if path.extension().is_some_and(|ending| ending == EXTENSION) {
                let text = fs::read(&path).map_err(unreadable(&path))?;
                let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let key = key(&text).ok_or(BadKey::Form { path })?;
                keys.insert(id, key);
            }
        }
        Ok(Self(keys))
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, id: &str, key: [u8; 32]) -> Self {
        self.0.insert(id.to_owned(), key);
        self
    }

    /// Whether documents must be signed, which is the case if there is a key.
    pub fn is_signature_required(&self) -> bool {
        !self.0.is_empty()
    }

    /// Verifies a document and returns the id of its key. Without keys signatures are not checked.
    pub fn check(&self, document: &NodeConfig) -> Result<Option<String>, SignatureError> {
        if !self.is_signature_required() {
            return Ok(None);
        }
        let signature = document.signature.as_ref().ok_or(SignatureError::Missing)?;
        if signature.algorithm != "ed25519" {
            return Err(SignatureError::Algorithm { algorithm: signature.algorithm.clone() });
        }
        let key_id = signature.key_id.clone();
        let Some(key) = self.0.get(&key_id) else { return Err(SignatureError::UnknownKey { key_id }) };
        let value = unbase64(signature.value.as_bytes()).unwrap_or_default();
        match UnparsedPublicKey::new(&ED25519, key).verify(&document.signed_bytes(), &value) {
            Ok(()) => Ok(Some(key_id)),
            Err(_) => Err(SignatureError::Wrong { key_id }),
        }
    }
}

fn key(file: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(file).ok()?;
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    let bytes = unbase64(body.as_bytes())?;
    bytes.strip_prefix(&SPKI).unwrap_or(&bytes).try_into().ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use kiln_node_config::Signature;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn pair(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("32 bytes")
    }

    fn public(pair: &Ed25519KeyPair) -> [u8; 32] {
        pair.public_key().as_ref().try_into().expect("32 bytes")
    }

    fn signed(by: &Ed25519KeyPair, key_id: &str) -> NodeConfig {
        signed_as(by, Signature { key_id: key_id.to_owned(), ..Signature::default() })
    }

    fn signed_as(by: &Ed25519KeyPair, statements: Signature) -> NodeConfig {
        let mut document = NodeConfig::default();
        document.metadata.generation = 7;
        document.signature = Some(Signature { algorithm: "ed25519".to_owned(), ..statements });
        let value = BASE64_STANDARD.encode(by.sign(&document.signed_bytes()));
        document.signature.as_mut().expect("signed").value = value;
        document
    }

    #[test]
    fn signature_of_an_earlier_version_covers_the_document_alone() {
        let mut document = NodeConfig::default();
        document.metadata.generation = 7;
        let value = BASE64_STANDARD.encode(pair(1).sign(&document.signed_bytes()));
        let (key_id, algorithm) = ("fleet".to_owned(), "ed25519".to_owned());
        document.signature = Some(Signature { key_id, algorithm, value, ..Signature::default() });
        assert_eq!(Keys::default().with("fleet", public(&pair(1))).check(&document), Ok(Some("fleet".to_owned())));
    }

    #[test]
    fn two_keys_are_valid_at_once_while_keys_are_rotated() {
        let both = Keys::default().with("old", public(&pair(1))).with("new", public(&pair(2)));
        let new = Keys::default().with("new", public(&pair(2)));
        assert_eq!(both.check(&signed(&pair(1), "old")), Ok(Some("old".to_owned())));
        assert_eq!(both.check(&signed(&pair(2), "new")), Ok(Some("new".to_owned())));
        assert!(new.check(&signed(&pair(1), "old")).is_err(), "after the rotation");
        assert!(both.check(&signed(&pair(1), "new")).is_err(), "a key is only valid under its own name");
    }

    #[test]
    fn statements_cannot_be_changed_removed_or_added() {
        let keys = Keys::default().with("fleet", public(&pair(1)));
        let text = |text: &str| text.to_owned();
        let bound = Signature {
            key_id: text("fleet"),
            pool: text("a"),
            cluster: text("prod"),
            issued: text("2026-11-17T10:00:00Z"),
            expires: text("2026-12-17T10:00:00Z"),
            ..Signature::default()
        };
        let good = signed_as(&pair(1), bound);
        assert!(keys.check(&good).is_ok());
        let fields: [fn(&mut Signature) -> &mut String; 4] =
            [|s| &mut s.pool, |s| &mut s.cluster, |s| &mut s.issued, |s| &mut s.expires];
        for field in fields {
            for value in ["", "2999-01-01T00:00:00Z"] {
                let mut changed = good.clone();
                value.clone_into(field(changed.signature.as_mut().expect("signed")));
                assert!(keys.check(&changed).is_err(), "{:?}", changed.signature);
            }
            let mut added = signed(&pair(1), "fleet");
            "a".clone_into(field(added.signature.as_mut().expect("signed")));
            assert!(keys.check(&added).is_err(), "{:?}", added.signature);
        }
    }

    #[test]
    fn valid_signature_is_accepted() {
        let keys = Keys::default().with("fleet", public(&pair(1)));
        assert_eq!(keys.check(&signed(&pair(1), "fleet")), Ok(Some("fleet".to_owned())));
    }

    #[test]
    fn invalid_signatures_are_rejected() {
        let keys = Keys::default().with("fleet", public(&pair(1)));
        let wrong = Err(SignatureError::Wrong { key_id: "fleet".to_owned() });
        assert_eq!(keys.check(&signed(&pair(2), "fleet")), wrong);
        let mut changed = signed(&pair(1), "fleet");
        changed.metadata.generation += 1;
        assert_eq!(keys.check(&changed), wrong);
        let unknown = Err(SignatureError::UnknownKey { key_id: "mine".to_owned() });
        assert_eq!(keys.check(&signed(&pair(1), "mine")), unknown);
        assert_eq!(keys.check(&NodeConfig::default()), Err(SignatureError::Missing));
        let mut other = signed(&pair(1), "fleet");
        other.signature.as_mut().expect("signed").algorithm = "none".to_owned();
        assert!(matches!(keys.check(&other), Err(SignatureError::Algorithm { .. })));
    }

    #[test]
    fn without_keys_signatures_are_not_checked() {
        assert_eq!(Keys::default().check(&NodeConfig::default()), Ok(None));
        assert_eq!(Keys::default().check(&signed(&pair(1), "x")), Ok(None));
    }

    #[test]
    fn keys_are_read_in_both_formats_and_a_broken_one_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Keys::read(&folder.path().join("none")).expect("none"), Keys::default());
        let pem = BASE64_STANDARD.encode([SPKI.as_slice(), &public(&pair(1))].concat());
        let write = |name: &str, text: String| fs::write(folder.path().join(name), text).expect("written");
        write("a.pub", format!("-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----\n"));
        write("b.pub", BASE64_STANDARD.encode(public(&pair(2))) + "\n");
        write("README", "not a key".to_owned());
        let expected = Keys::default().with("a", public(&pair(1))).with("b", public(&pair(2)));
        assert_eq!(Keys::read(folder.path()).expect("read"), expected);
        write("c.pub", "oops".to_owned());
        let error = Keys::read(folder.path()).expect_err("broken");
        assert!(error.to_string().contains("c.pub"), "{error}");
    }
}
