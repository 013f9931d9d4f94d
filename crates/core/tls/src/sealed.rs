//! Sealed messages: only the process that made the key can open them. The reader creates a key pair for a single message and hands out
//! the public half. Everything that transports or stores the message (a container log, a log collector) sees ciphertext. The primitives
//! are X25519, HKDF-SHA256 and ChaCha20-Poly1305 from `ring`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SecureRandom;

/// The HKDF context. It keeps keys that were derived for another purpose from opening a message. Writer and reader are always the same
/// version of kiln, so it may change with any release.
const PURPOSE: &[u8] = b"kiln sealed message 1";
const PUBLIC: usize = 32;

/// An error of sealing or opening a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("cannot create a key pair: the random number generator failed")]
    NoKey,
    #[error("the public key is not 32 bytes in base64, or is not a valid X25519 key")]
    BadKey,
    #[error("the sealed message was made for another reader or was modified")]
    NotForReader,
}

/// The reader of a single sealed message.
#[derive(Debug)]
pub struct Reader {
    private: EphemeralPrivateKey,
    public: [u8; PUBLIC],
}

impl Reader {
    /// Creates a key pair. The private half cannot be exported.
    pub fn new(random: &dyn SecureRandom) -> Result<Self, SealError> {
        let (private, public) = generate_pair(random)?;
        Ok(Self { private, public })
    }

    /// Returns the public key, in base64, to pass to [`seal`].
    pub fn key(&self) -> String {
        BASE64_STANDARD.encode(self.public)
    }

    /// Opens the message. Consumes the reader, because a key pair is valid for one message.
    pub fn open(self, message: &str) -> Result<Vec<u8>, SealError> {
        let mut bytes = BASE64_STANDARD.decode(message).map_err(|_| SealError::NotForReader)?;
        let Some(&writer) = bytes.first_chunk::<PUBLIC>() else { return Err(SealError::NotForReader) };
        let key = derive_key(self.private, &writer, &writer, &self.public).map_err(|_| SealError::NotForReader)?;
        let plain =
            key.open_in_place(nonce(), Aad::empty(), &mut bytes[PUBLIC..]).map_err(|_| SealError::NotForReader)?;
        Ok(plain.to_vec())
    }
}

/// Seals a message for the reader with this public key.
pub fn seal(random: &dyn SecureRandom, key: &str, plain: &[u8]) -> Result<String, SealError> {
    let reader: [u8; PUBLIC] =
        BASE64_STANDARD.decode(key).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(SealError::BadKey)?;
    let (private, public) = generate_pair(random)?;
    let key = derive_key(private, &reader, &public, &reader)?;
    let mut sealed = plain.to_vec();
    key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed).map_err(|_| SealError::BadKey)?;
    Ok(BASE64_STANDARD.encode([&public[..], &sealed].concat()))
}

fn generate_pair(random: &dyn SecureRandom) -> Result<(EphemeralPrivateKey, [u8; PUBLIC]), SealError> {
    let private = EphemeralPrivateKey::generate(&X25519, random).map_err(|_| SealError::NoKey)?;
    let public = private.compute_public_key().map_err(|_| SealError::NoKey)?;
    let public = public.as_ref().try_into().map_err(|_| SealError::NoKey)?;
    Ok((private, public))
}

/// Derives the key of one message. The salt binds it to the public keys of both ends.
fn derive_key(
    private: EphemeralPrivateKey,
    peer: &[u8; PUBLIC],
    writer: &[u8; PUBLIC],
    reader: &[u8; PUBLIC],
) -> Result<LessSafeKey, SealError> {
    agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, peer), |secret| {
        let salt = Salt::new(HKDF_SHA256, &[&writer[..], &reader[..]].concat()).extract(secret);
        let material = salt.expand(&[PURPOSE], &CHACHA20_POLY1305).map_err(|_| SealError::BadKey)?;
        Ok(LessSafeKey::new(UnboundKey::from(material)))
    })
    .map_err(|_| SealError::BadKey)?
}

/// A constant nonce is safe because each key seals a single message.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;

    fn new_reader() -> Reader {
        Reader::new(&SystemRandom::new()).unwrap()
    }

    fn seal(key: &str, plain: &[u8]) -> Result<String, SealError> {
        super::seal(&SystemRandom::new(), key, plain)
    }

    #[test]
    fn message_opens_for_its_reader_and_is_unreadable_in_transit() {
        let reader = new_reader();
        let message = seal(&reader.key(), b"#cloud-config hunter2").unwrap();
        let carried = BASE64_STANDARD.decode(&message).unwrap();
        assert!(!carried.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(reader.open(&message).unwrap(), b"#cloud-config hunter2");
    }

    #[test]
    fn other_readers_and_modified_messages_are_rejected() {
        let (reader, other) = (new_reader(), new_reader());
        let message = seal(&reader.key(), b"secret").unwrap();
        assert_eq!(other.open(&message), Err(SealError::NotForReader));
        let mut changed = BASE64_STANDARD.decode(&message).unwrap();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(reader.open(&BASE64_STANDARD.encode(changed)), Err(SealError::NotForReader));
        for short in ["", "AAAA", "not base64!"] {
            assert_eq!(new_reader().open(short), Err(SealError::NotForReader), "{short}");
        }
    }

    #[test]
    fn sealing_the_same_text_twice_gives_different_messages() {
        let key = new_reader().key();
        assert_ne!(seal(&key, b"a").unwrap(), seal(&key, b"a").unwrap());
    }

    #[test]
    fn invalid_public_keys_are_rejected() {
        for key in ["", "AAAA", "not base64 at all", &BASE64_STANDARD.encode([0; 32])] {
            assert_eq!(seal(key, b"a"), Err(SealError::BadKey), "{key}");
        }
    }
}
