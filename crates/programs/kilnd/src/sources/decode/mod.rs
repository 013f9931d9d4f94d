//! Decodes a document from base64, gzip and MIME, in any nesting.

mod gzip;
mod mime;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use kiln_node_config::media::NODE_CONFIG;
use kiln_types::SecretBytes;

/// Azure accepts 64 KiB before base64, which is 88 KiB after it; the rest is for line breaks.
const ENCODED: usize = 96 << 10;
/// The size limit after decompression. Large documents have some tens of KiB; a gzip bomb of 96 KiB would have 100 MiB.
pub(crate) const DECODED: usize = 1 << 20;
/// The limit of encodings: base64 by Azure, gzip, MIME, base64 of a part, gzip in it, and one more.
const LAYERS: usize = 6;

/// Accepts missing padding, which shell scripts produce.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes without a valid document. Their content is not shown, because custom data may contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("empty")]
    Empty,
    /// A script, a cloud-config, or a message without a part for kiln.
    #[error("contains no NodeConfig: neither JSON nor a MIME part of type `{NODE_CONFIG}`")]
    Foreign,
    #[error("{size} bytes, more than the limit of {ENCODED} bytes")]
    TooLong { size: usize },
    #[error("more than {DECODED} bytes after decompression")]
    TooLarge,
    #[error("encoded more than {LAYERS} times")]
    TooDeep,
    #[error("invalid gzip data: {0}")]
    Gzip(String),
    #[error("invalid MIME message: {0}")]
    Mime(&'static str),
    #[error("contains {count} parts of type `{kind}`; expected one")]
    Ambiguous { count: usize, kind: &'static str },
    /// Pods can read everything except custom data.
    #[error(
        "contains a credential, which is only allowed in custom data because pods can read other sources\nhint: replace the credential and put it into custom data"
    )]
    Credential,
    #[error("the checksum of the part is sha-256 {actual}, but its header has {expected}")]
    Digest { expected: String, actual: String },
}

/// A decoded document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub document: Vec<u8>,
    /// The credential in another part of the same message.
    pub credential: Option<SecretBytes>,
}

impl Decoded {
    /// The document of a source that others can read. Fails if there is a credential.
    pub fn public(self) -> Result<Vec<u8>, DecodeError> {
        if self.credential.is_some() { Err(DecodeError::Credential) } else { Ok(self.document) }
    }
}

/// Decodes a document.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    match decode_parts(bytes)? {
        (Some(document), credential) => Ok(Decoded { document, credential }),
        (None, _) => Err(DecodeError::Foreign),
    }
}

/// The credential in custom data, with or without a document.
pub(crate) fn credential(bytes: &[u8]) -> Option<SecretBytes> {
    decode_parts(bytes).ok()?.1
}

fn decode_parts(bytes: &[u8]) -> Result<(Option<Vec<u8>>, Option<SecretBytes>), DecodeError> {
    if bytes.len() > ENCODED {
        return Err(DecodeError::TooLong { size: bytes.len() });
    }
    let mut current = bytes.to_vec();
    let mut credential = None;
    for _ in 0..=LAYERS {
        let inner = trimmed(&current);
        if inner.is_empty() {
            return Err(DecodeError::Empty);
        }
        if inner[0] == b'{' {
            return Ok((Some(inner.to_vec()), credential));
        }
        current = if inner.starts_with(&gzip::MAGIC) {
            gzip::inflate(inner)?
        } else if mime::is_message(inner) {
            let (document, found) = mime::read(inner)?;
            // In nested messages the outermost credential counts.
            credential = credential.or(found);
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

/// Removes a byte order mark and white space.
fn trimmed(bytes: &[u8]) -> &[u8] {
    if bytes.starts_with(&gzip::MAGIC) {
        return bytes;
    }
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii()
}

/// Decodes base64 with line breaks and optional padding; none if it is invalid.
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
    fn all_encodings_and_nestings_are_decoded() {
        let b64 = "Content-Transfer-Encoding: base64\n";
        for encoded in [
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
            let text = String::from_utf8_lossy(&encoded).into_owned();
            assert_eq!(decode(&encoded).as_deref(), Ok(DOCUMENT), "{text}");
        }
    }

    #[test]
    fn base64_with_line_breaks_or_without_padding_is_decoded() {
        let text = BASE64_STANDARD.encode(DOCUMENT);
        let lines: Vec<&str> =
            text.as_bytes().chunks(20).map(|line| std::str::from_utf8(line).expect("ascii")).collect();
        assert_eq!(decode(lines.join("\r\n").as_bytes()).as_deref(), Ok(DOCUMENT));
        assert_eq!(decode(text.trim_end_matches('=').as_bytes()).as_deref(), Ok(DOCUMENT));
    }

    #[test]
    fn foreign_data_and_broken_data_are_distinguished() {
        for foreign in ["#!/bin/bash\necho hi\n", "#cloud-config\n{}", "hello", "Content-Type: text/plain\n\nx\n"] {
            assert_eq!(decode(foreign.as_bytes()), Err(DecodeError::Foreign), "{foreign}");
        }
        assert_eq!(decode(b" \n"), Err(DecodeError::Empty));
        let mut cut = deflate(DOCUMENT);
        cut.truncate(cut.len() - 9);
        assert!(matches!(decode(&cut), Err(DecodeError::Gzip(_))));
    }

    #[test]
    fn size_and_depth_are_limited() {
        assert_eq!(decode(&vec![b'A'; ENCODED + 1]), Err(DecodeError::TooLong { size: ENCODED + 1 }));
        let bomb = deflate(&vec![b' '; 16 << 20]);
        assert!(bomb.len() < ENCODED, "{} bytes exceed the input limit", bomb.len());
        assert_eq!(decode(&bomb), Err(DecodeError::TooLarge));
        let mut deep = DOCUMENT.to_vec();
        for _ in 0..=LAYERS {
            deep = encode(&deep);
        }
        assert_eq!(decode(&deep), Err(DecodeError::TooDeep));
    }

    #[test]
    fn checksum_header_is_verified() {
        use sha2::{Digest as _, Sha256};
        let right = BASE64_STANDARD.encode(Sha256::digest(DOCUMENT));
        let wrong = BASE64_STANDARD.encode(Sha256::digest(b"other"));
        let header = |digest: &str| format!("Content-Digest: sha-256=:{digest}:\n");
        assert_eq!(decode(&message(DOCUMENT, &header(&right))).as_deref(), Ok(DOCUMENT));
        assert!(matches!(decode(&message(DOCUMENT, &header(&wrong))), Err(DecodeError::Digest { .. })));
    }
}
