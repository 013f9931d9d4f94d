//! An ed25519 host key for sshd. Generating it takes no time; RSA would take up to half a second on a small machine.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::os::error::Error;
use crate::os::random;

/// The path that sshd reads.
pub const HOST_KEY: &str = "/etc/ssh/ssh_host_ed25519_key";

const KIND: &str = "ssh-ed25519";

/// A key pair in the format of sshd.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey {
    /// PEM.
    private: String,
    public: String,
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.public.trim_end())
    }
}

impl HostKey {
    /// Generates a key.
    pub fn random(comment: &str) -> Result<Self, Error> {
        let check = u32::from_le_bytes(random::bytes()?);
        Self::from_seed(&random::bytes()?, check, comment)
    }

    /// The text of the private file.
    pub fn expose_private(&self) -> &str {
        &self.private
    }

    /// The text of the public file.
    pub fn public(&self) -> &str {
        &self.public
    }

    fn from_seed(seed: &[u8; 32], check: u32, comment: &str) -> Result<Self, Error> {
        let wrong = |_| Error::Path { path: HOST_KEY.to_owned(), why: "cannot derive a key from this seed" };
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(wrong)?;
        let public = pair.public_key().as_ref();
        let mut blob = Vec::new();
        text(&mut blob, KIND.as_bytes());
        text(&mut blob, public);

        // The same number twice: readers of encrypted keys use it to verify the passphrase.
        let mut secret = [check.to_be_bytes(), check.to_be_bytes()].concat();
        text(&mut secret, KIND.as_bytes());
        text(&mut secret, public);
        text(&mut secret, &[seed.as_slice(), public].concat());
        text(&mut secret, comment.as_bytes());
        let missing = secret.len().next_multiple_of(8) - secret.len();
        secret.extend((1..=8_u8).take(missing));

        let mut file = b"openssh-key-v1\0".to_vec();
        // No cipher, no KDF, no KDF options, one key.
        text(&mut file, b"none");
        text(&mut file, b"none");
        text(&mut file, b"");
        file.extend(1_u32.to_be_bytes());
        text(&mut file, &blob);
        text(&mut file, &secret);
        let encoded = STANDARD.encode(&file);
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(70).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        Ok(Self {
            private: format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
                lines.join("\n")
            ),
            public: format!("{KIND} {} {comment}\n", STANDARD.encode(&blob)),
        })
    }
}

/// Appends a length-prefixed string.
fn text(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    into.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seed_gives_the_known_public_key() {
        // RFC 8032, 7.1, test 1.
        let seed: [u8; 32] = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let key = HostKey::from_seed(&seed, 7, "root@node").expect("a key");
        let blob = STANDARD.decode(key.public().split(' ').nth(1).expect("a blob")).expect("base64");
        assert_eq!(blob[..19], *b"\0\0\0\x0bssh-ed25519\0\0\0\x20");
        assert_eq!(blob[19..23], [0xd7, 0x5a, 0x98, 0x01]);
        assert!(key.public().ends_with(" root@node\n"));
        let body: String = key.expose_private().lines().filter(|line| !line.starts_with('-')).collect();
        let file = STANDARD.decode(body).expect("base64");
        assert!(file.starts_with(b"openssh-key-v1\0\0\0\0\x04none\0\0\0\x04none\0\0\0\0\0\0\0\x01\0\0\0\x33"));
        assert!(file.windows(32).any(|window| window == seed));
    }

    #[test]
    fn keys_differ_and_debug_output_hides_the_private_half() {
        let (one, other) = (HostKey::random("a").expect("a key"), HostKey::random("a").expect("a key"));
        assert_ne!(one.public(), other.public());
        assert!(format!("{one:?}").starts_with("ssh-ed25519 ") && !format!("{one:?}").contains("PRIVATE"));
    }
}
