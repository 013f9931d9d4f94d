//! A document, taken out of what was wrapped round it on its way: base64, gzip, a MIME message, and these in one another.

mod gzip;
mod mime;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use kiln_node_config::media::NODE_CONFIG;
use kiln_types::SecretBytes;

/// Azure takes 64 KiB before base64, which are 88 KiB after; a little air for line breaks.
const ENCODED: usize = 96 << 10;
/// What a document may grow to. The largest that people write is some tens of KiB; a bomb of 96 KiB would be 100 MiB.
pub(crate) const DECODED: usize = 1 << 20;
/// base64 by Azure, gzip, a message, base64 of its part, gzip in that: nobody wraps more.
const WRAPPINGS: usize = 6;

/// Lines and missing padding come from shells.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes that hold no document, or a broken one. What they hold is not shown: custom data may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It is somebody else's: a script, a cloud-config, a message without our part.
    #[error("it holds no NodeConfig: neither JSON nor a part of the type `{NODE_CONFIG}`")]
    Foreign,
    /// It is too long before anything is unwrapped.
    #[error("it has {size} bytes, at most {ENCODED} are read")]
    TooLong { size: usize },
    /// It grows too much.
    #[error("it grows beyond {DECODED} bytes")]
    Grows,
    /// It is wrapped too often.
    #[error("it is wrapped more than {WRAPPINGS} times")]
    TooDeep,
    /// Its gzip is cut off or damaged.
    #[error("its gzip is broken: {0}")]
    Gzip(String),
    /// Its message is no message.
    #[error("its MIME message is broken: {0}")]
    Mime(&'static str),
    /// It holds two documents or credentials, and nothing says which one counts.
    #[error("it holds {count} parts of the type `{kind}`, and nothing says which one counts")]
    Ambiguous {
        count: usize,
        /// Of which type.
        kind: &'static str,
    },
    /// It holds a credential, and others read it.
    #[error("it holds a credential: only custom data may, which no pod reads; renew the credential and put it there")]
    Credential,
    /// Its checksum is another one.
    #[error("the part's checksum is sha-256 {found}, its header says {said}")]
    Digest {
        /// What its header says.
        said: String,
        /// What it is.
        found: String,
    },
}

/// What was unwrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub document: Vec<u8>,
    /// The credential beside it.
    pub credential: Option<SecretBytes>,
}

impl Decoded {
    /// The document of bytes that others may read, so that no credential may be beside it.
    pub fn public(self) -> Result<Vec<u8>, DecodeError> {
        if self.credential.is_some() { Err(DecodeError::Credential) } else { Ok(self.document) }
    }
}

/// Unwraps a document.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    match unwrap(bytes)? {
        (Some(document), credential) => Ok(Decoded { document, credential }),
        (None, _) => Err(DecodeError::Foreign),
    }
}

/// The credential in custom data, whether a document is beside it or not.
pub(crate) fn credential(bytes: &[u8]) -> Option<SecretBytes> {
    unwrap(bytes).ok()?.1
}

fn unwrap(bytes: &[u8]) -> Result<(Option<Vec<u8>>, Option<SecretBytes>), DecodeError> {
    if bytes.len() > ENCODED {
        return Err(DecodeError::TooLong { size: bytes.len() });
    }
    let mut held = bytes.to_vec();
    let mut credential = None;
    for _ in 0..=WRAPPINGS {
        let inner = plain(&held);
        if inner.is_empty() {
            return Err(DecodeError::Empty);
        }
        if inner[0] == b'{' {
            return Ok((Some(inner.to_vec()), credential));
        }
        held = if inner.starts_with(&gzip::MAGIC) {
            gzip::inflate(inner)?
        } else if mime::is_message(inner) {
            let (document, beside) = mime::read(inner)?;
            // A message in a part of a message: the outermost word counts.
            credential = credential.or(beside);
            match document {
                Some(document) => document,
                None => return Ok((None, credential)),
            }
        } else {
            unbase64(inner).ok_or(DecodeError::Foreign)?
        };
    }
    Err(DecodeError::TooDeep)
}

/// Without what editors put round a text.
fn plain(bytes: &[u8]) -> &[u8] {
    if bytes.starts_with(&gzip::MAGIC) {
        return bytes;
    }
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii()
}

/// The bytes of base64, with the line breaks and without the padding that shells make. Nothing where it is none.
pub fn unbase64(text: &[u8]) -> Option<Vec<u8>> {
    let packed: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(packed).ok()
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::gzip::tests::deflate;
    use super::*;

    /// The document alone.
    fn decode(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        super::decode(bytes)?.public()
    }

    const DOCUMENT: &[u8] = br#"{"apiVersion":"kiln.dev/v1alpha1"}"#;

    fn encode(bytes: &[u8]) -> Vec<u8> {
        BASE64_STANDARD.encode(bytes).into_bytes()
    }

    fn message(body: &[u8], headers: &str) -> Vec<u8> {
        let mut out = b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==b==\"\n\n--==b==\nContent-Type: text/cloud-config\n\n#cloud-config\n".to_vec();
        out.extend_from_slice(format!("--==b==\nContent-Type: {NODE_CONFIG}\n{headers}\n").as_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(b"\n--==b==--\n");
        out
    }

    #[test]
    fn every_wrapping_and_those_in_one_another_give_the_document() {
        let b64 = "Content-Transfer-Encoding: base64\n";
        for wrapped in [
            DOCUMENT.to_vec(),
            [b"\xef\xbb\xbf \n", DOCUMENT, b"\r\n"].concat(),
            encode(DOCUMENT),
            encode(&encode(DOCUMENT)),
            deflate(DOCUMENT),
            encode(&deflate(DOCUMENT)),
            message(DOCUMENT, ""),
            encode(&message(DOCUMENT, "")),
            encode(&deflate(&message(&encode(DOCUMENT), b64))),
            message(&encode(&deflate(DOCUMENT)), b64),
            message(&deflate(DOCUMENT), "Content-Transfer-Encoding: binary\n"),
        ] {
            let text = String::from_utf8_lossy(&wrapped).into_owned();
            assert_eq!(decode(&wrapped).as_deref(), Ok(DOCUMENT), "{text}");
        }
    }

    #[test]
    fn base64_with_lines_and_without_padding_is_read() {
        let text = BASE64_STANDARD.encode(DOCUMENT);
        let lines: Vec<&str> =
            text.as_bytes().chunks(20).map(|line| std::str::from_utf8(line).expect("ascii")).collect();
        assert_eq!(decode(lines.join("\r\n").as_bytes()).as_deref(), Ok(DOCUMENT));
        assert_eq!(decode(text.trim_end_matches('=').as_bytes()).as_deref(), Ok(DOCUMENT));
    }

    #[test]
    fn what_belongs_to_others_is_told_from_what_is_broken() {
        for foreign in ["#!/bin/bash\necho hi\n", "#cloud-config\n{}", "hello", "Content-Type: text/plain\n\nx\n"] {
            assert_eq!(decode(foreign.as_bytes()), Err(DecodeError::Foreign), "{foreign}");
        }
        assert_eq!(decode(b" \n"), Err(DecodeError::Empty));
        let mut cut = deflate(DOCUMENT);
        cut.truncate(cut.len() - 9);
        assert!(matches!(decode(&cut), Err(DecodeError::Gzip(_))));
    }

    #[test]
    fn lengths_growth_and_depth_have_limits() {
        assert_eq!(decode(&vec![b'A'; ENCODED + 1]), Err(DecodeError::TooLong { size: ENCODED + 1 }));
        let bomb = deflate(&vec![b' '; 16 << 20]);
        assert!(bomb.len() < ENCODED, "{} bytes would be refused for their length", bomb.len());
        assert_eq!(decode(&bomb), Err(DecodeError::Grows));
        let mut deep = DOCUMENT.to_vec();
        for _ in 0..=WRAPPINGS {
            deep = encode(&deep);
        }
        assert_eq!(decode(&deep), Err(DecodeError::TooDeep));
    }

    #[test]
    fn a_checksum_in_the_part_is_held_to() {
        use sha2::{Digest as _, Sha256};
        let right = BASE64_STANDARD.encode(Sha256::digest(DOCUMENT));
        let wrong = BASE64_STANDARD.encode(Sha256::digest(b"other"));
        let header = |digest: &str| format!("Content-Digest: sha-256=:{digest}:\n");
        assert_eq!(decode(&message(DOCUMENT, &header(&right))).as_deref(), Ok(DOCUMENT));
        assert!(matches!(decode(&message(DOCUMENT, &header(&wrong))), Err(DecodeError::Digest { .. })));
    }
}
