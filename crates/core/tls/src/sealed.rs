//! A letter that one process alone can open. The reader makes a key for one letter and gives its public half away; whoever carries or
//! keeps the letter (a container's log, a collector of logs) reads nothing. X25519, HKDF-SHA256 and ChaCha20-Poly1305, all of `ring`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;

/// What the keys are for: a key that was agreed on for another purpose opens nothing here.
const PURPOSE: &[u8] = b"kiln sealed letter 1";
const PUBLIC: usize = 32;

/// Why a letter was not closed or not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system gives no random numbers.
    #[error("no key can be made: the system gives no random numbers")]
    NoKey,
    /// No public key of ours.
    #[error("the key is not 32 bytes in base64")]
    BadKey,
    /// Not for this reader, or changed on its way.
    #[error("the letter is not for this reader, or was changed on its way")]
    NotOurs,
}

/// The reader of one letter.
#[derive(Debug)]
pub struct Reader {
    private: EphemeralPrivateKey,
    public: [u8; PUBLIC],
}

impl Reader {
    /// With a key of its own, which exists in this process alone.
    pub fn new() -> Result<Self, SealError> {
        let (private, public) = pair()?;
        Ok(Self { private, public })
    }

    /// What to close the letter with. It is no secret.
    pub fn key(&self) -> String {
        BASE64_STANDARD.encode(self.public)
    }

    /// Opens the letter; there is no second one.
    pub fn open(self, letter: &str) -> Result<Vec<u8>, SealError> {
        let mut bytes = BASE64_STANDARD.decode(letter).map_err(|_| SealError::NotOurs)?;
        let Some((theirs, _)) = bytes.split_first_chunk::<PUBLIC>() else { return Err(SealError::NotOurs) };
        let theirs = *theirs;
        let key = agreed(self.private, &theirs, &theirs, &self.public).map_err(|_| SealError::NotOurs)?;
        let plain = key.open_in_place(nonce(), Aad::empty(), &mut bytes[PUBLIC..]).map_err(|_| SealError::NotOurs)?;
        Ok(plain.to_vec())
    }
}

/// Closes a letter for the reader with this key.
pub fn seal(key: &str, plain: &[u8]) -> Result<String, SealError> {
    let reader: [u8; PUBLIC] =
        BASE64_STANDARD.decode(key).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(SealError::BadKey)?;
    let (private, public) = pair()?;
    let key = agreed(private, &reader, &public, &reader)?;
    let mut closed = plain.to_vec();
    key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut closed).map_err(|_| SealError::BadKey)?;
    Ok(BASE64_STANDARD.encode([&public[..], &closed].concat()))
}

fn pair() -> Result<(EphemeralPrivateKey, [u8; PUBLIC]), SealError> {
    let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(|_| SealError::NoKey)?;
    let public = private.compute_public_key().map_err(|_| SealError::NoKey)?;
    let public = public.as_ref().try_into().map_err(|_| SealError::NoKey)?;
    Ok((private, public))
}

/// The key of one letter, bound to both of its ends.
fn agreed(
    private: EphemeralPrivateKey,
    theirs: &[u8; PUBLIC],
    writer: &[u8; PUBLIC],
    reader: &[u8; PUBLIC],
) -> Result<LessSafeKey, SealError> {
    agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, theirs), |secret| {
        let salt = Salt::new(HKDF_SHA256, &[&writer[..], &reader[..]].concat()).extract(secret);
        let material = salt.expand(&[PURPOSE], &CHACHA20_POLY1305).map_err(|_| SealError::BadKey)?;
        Ok(LessSafeKey::new(UnboundKey::from(material)))
    })
    .map_err(|_| SealError::BadKey)?
}

/// Each key closes one letter and no more, so that any number will do.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_read_by_its_reader_and_shows_nothing_on_its_way() {
        let reader = Reader::new().unwrap();
        let letter = seal(&reader.key(), b"#cloud-config hunter2").unwrap();
        let carried = BASE64_STANDARD.decode(&letter).unwrap();
        assert!(!carried.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(reader.open(&letter).unwrap(), b"#cloud-config hunter2");
    }

    #[test]
    fn nobody_else_reads_a_letter_and_a_changed_one_is_not_read() {
        let (reader, other) = (Reader::new().unwrap(), Reader::new().unwrap());
        let letter = seal(&reader.key(), b"secret").unwrap();
        assert_eq!(other.open(&letter), Err(SealError::NotOurs));
        let mut changed = BASE64_STANDARD.decode(&letter).unwrap();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(reader.open(&BASE64_STANDARD.encode(changed)), Err(SealError::NotOurs));
        for short in ["", "AAAA", "no base64!"] {
            assert_eq!(Reader::new().unwrap().open(short), Err(SealError::NotOurs), "{short}");
        }
    }

    #[test]
    fn the_same_text_for_the_same_reader_is_another_letter_each_time() {
        let key = Reader::new().unwrap().key();
        assert_ne!(seal(&key, b"a").unwrap(), seal(&key, b"a").unwrap());
    }

    #[test]
    fn what_is_no_key_closes_nothing() {
        for key in ["", "AAAA", "not base64 at all", &BASE64_STANDARD.encode([0; 32])] {
            assert_eq!(seal(key, b"a"), Err(SealError::BadKey), "{key}");
        }
    }
}
