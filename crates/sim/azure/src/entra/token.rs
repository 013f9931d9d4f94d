//! Access tokens: the claims that clients read, and a signature.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use kiln_sim_store::Ids;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Azure signs with RSA. An Ed25519 key can be derived from a seed, so tokens survive a restart without a key file.
pub(super) const ALGORITHM: &str = "EdDSA";

/// The PKCS #8 prefix of an Ed25519 key, up to its 32 bytes.
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The key that signs tokens. It is derived from the seed and therefore guessable: the signatures satisfy clients and detect damaged
/// tokens, but the embedded Azure is not a security boundary.
pub(crate) struct Key {
    pair: KeyPair,
    id: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Key {
    pub(crate) fn new(seed: u64) -> Self {
        let mut ids = Ids::new(seed ^ 0x656e_7472_612d_6b65);
        let der: Vec<u8> = PKCS8.into_iter().chain((0..4).flat_map(|_| ids.number().to_be_bytes())).collect();
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der), &PKCS_ED25519)
            .expect("any 32 bytes are an Ed25519 key");
        let id = URL_SAFE_NO_PAD.encode(pair.public_key_raw().get(..20).unwrap_or_default());
        Self { pair, id }
    }

    /// `kid` of the tokens.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The public key.
    pub(super) fn public(&self) -> &[u8] {
        self.pair.public_key_raw()
    }

    /// Signs these claims.
    pub(super) fn sign(&self, claims: &Claims) -> String {
        let header = json!({"typ": "JWT", "alg": ALGORITHM, "kid": self.id});
        let claims = serde_json::to_vec(claims).expect("claims have string keys");
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
        format!("{signed}.{}", self.signature(&signed))
    }

    /// Returns the claims of a token if this key signed it.
    pub(super) fn read(&self, token: &str) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        // Ed25519 signatures are deterministic, so signing again must give the same signature.
        if self.signature(signed) != signature {
            return None;
        }
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    fn signature(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.sign(text.as_bytes()).expect("signing needs no randomness"))
    }
}

/// The claims of a token. ARM's tokens are of version 1.0, whichever endpoint issues them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) aud: String,
    pub(super) iss: String,
    pub(super) iat: i64,
    pub(super) nbf: i64,
    pub(super) exp: i64,
    pub(super) appid: String,
    /// Authentication method of the application: 1 for a secret, 2 for an assertion or the platform.
    pub(super) appidacr: String,
    pub(super) idp: String,
    pub(super) idtyp: String,
    pub(super) oid: String,
    pub(super) sub: String,
    pub(super) tid: String,
    pub(super) uti: String,
    pub(super) ver: String,
    /// The resource of a managed identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) xms_mirid: Option<String>,
    /// The resource that requested the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) xms_az_rid: Option<String>,
    /// The fraction of the second of `iat`, in nanoseconds. It distinguishes tokens that were issued before and after all others were
    /// expired by a fault.
    pub(super) kiln_iat_ns: i32,
}

impl Claims {
    pub(super) fn issued(&self) -> Timestamp {
        Timestamp::new(self.iat, self.kiln_iat_ns).unwrap_or(Timestamp::MIN)
    }
}

/// The issuer of version 1.0 tokens.
pub(super) fn issuer(tenant: &str) -> String {
    format!("https://sts.windows.net/{tenant}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            aud: "https://localhost".into(),
            iss: issuer("t"),
            iat: 10,
            nbf: 10,
            exp: 20,
            appid: "a".into(),
            appidacr: "1".into(),
            idp: issuer("t"),
            idtyp: "app".into(),
            oid: "o".into(),
            sub: "o".into(),
            tid: "t".into(),
            uti: "u".into(),
            ver: "1.0".into(),
            xms_mirid: None,
            xms_az_rid: None,
            kiln_iat_ns: 5,
        }
    }

    #[test]
    fn token_is_valid_for_the_key_of_the_same_seed_only() {
        let token = Key::new(1).sign(&claims());
        assert_eq!(Key::new(1).read(&token).expect("the same key").oid, "o");
        assert!(Key::new(2).read(&token).is_none());
    }

    #[test]
    fn modified_tokens_are_rejected() {
        let key = Key::new(1);
        let token = key.sign(&claims());
        let other = key.sign(&Claims { oid: "x".into(), ..claims() });
        let parts: Vec<&str> = token.split('.').collect();
        let mixed = format!("{}.{}.{}", parts[0], other.split('.').nth(1).expect("claims"), parts[2]);
        for bad in [mixed.as_str(), "", ".", "a.b.c", &token[..token.len() - 2], parts[1]] {
            assert!(key.read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn debug_output_does_not_contain_the_key() {
        let text = format!("{:?}", Key::new(1));
        assert!(text.starts_with("Key { id: \"") && text.ends_with("\", .. }"), "{text}");
    }
}
