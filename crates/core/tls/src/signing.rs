//! ed25519 signatures of documents.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// The prefix of an ed25519 public key in the format of `openssl pkey -pubout` (RFC 8410).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A file that is not an ed25519 private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an unencrypted ed25519 private key in PEM, as `openssl genpkey -algorithm ed25519` writes it")]
pub struct BadSigningKey;

/// A private key. It does not print itself.
pub struct SigningKey(Ed25519KeyPair);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

impl SigningKey {
    /// Reads a key in PEM (PKCS #8).
    pub fn from_pem(pem: &str) -> Result<Self, BadSigningKey> {
        let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----").ok_or(BadSigningKey)?;
        let (body, _) = rest.split_once("-----END PRIVATE KEY-----").ok_or(BadSigningKey)?;
        let der = BASE64_STANDARD.decode(body.split_whitespace().collect::<String>()).map_err(|_| BadSigningKey)?;
        // OpenSSL leaves the public key out.
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Self).map_err(|_| BadSigningKey)
    }

    /// Signs a message. The same message always has the same signature.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }

    /// The public key in PEM, as `openssl pkey -pubout` writes it.
    pub fn public_pem(&self) -> String {
        let der = [&PUBLIC_PREFIX[..], self.0.public_key().as_ref()].concat();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", BASE64_STANDARD.encode(der))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From RFC 8410, section 10.3.
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn key_of_the_standard_is_read_and_does_not_print_itself() {
        let key = SigningKey::from_pem(KEY).expect("a key");
        assert_eq!(key.public_pem(), PUBLIC);
        assert_eq!(format!("{key:?}"), "SigningKey(***)");
        assert_eq!(key.sign(b"x"), key.sign(b"x"));
    }

    #[test]
    fn other_files_are_rejected() {
        for text in ["", PUBLIC, "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n", &KEY[..60]] {
            assert_eq!(SigningKey::from_pem(text).err(), Some(BadSigningKey));
        }
    }
}
