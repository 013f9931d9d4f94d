//! Extracts kiln's parts from a MIME message that other programs read too.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use kiln_node_config::media::{CREDENTIAL, NODE_CONFIG};
use kiln_types::SecretBytes;

use super::{DecodeError, unbase64};

/// Limit of parts.
const PARTS: usize = 64;
/// Limit of nested messages.
const DEPTH: usize = 4;

type Headers = Vec<(String, String)>;

/// Whether the bytes start like a MIME message.
pub(super) fn is_message(bytes: &[u8]) -> bool {
    let starts = |name: &str| bytes.len() > name.len() && bytes[..name.len()].eq_ignore_ascii_case(name.as_bytes());
    starts("MIME-Version:") || starts("Content-Type:")
}

/// The parts for kiln.
#[derive(Default)]
struct Parts {
    documents: Vec<Vec<u8>>,
    credentials: Vec<SecretBytes>,
}

/// The document and the credential of a message, if it has them.
pub(super) fn read(bytes: &[u8]) -> Result<(Option<Vec<u8>>, Option<SecretBytes>), DecodeError> {
    let mut found = Parts::default();
    collect(bytes, 0, &mut found)?;
    if found.credentials.len() > 1 {
        return Err(DecodeError::Ambiguous { count: found.credentials.len(), kind: CREDENTIAL });
    }
    match found.documents.len() {
        0 | 1 => Ok((found.documents.pop(), found.credentials.pop())),
        count => Err(DecodeError::Ambiguous { count, kind: NODE_CONFIG }),
    }
}

fn collect(entity: &[u8], depth: usize, found: &mut Parts) -> Result<(), DecodeError> {
    let (headers, body) = split(entity)?;
    let kind = header(&headers, "content-type").unwrap_or("text/plain");
    let name = kind.split(';').next().unwrap_or_default().trim();
    if name.eq_ignore_ascii_case(NODE_CONFIG) {
        found.documents.push(content(&headers, body)?);
    } else if name.eq_ignore_ascii_case(CREDENTIAL) {
        found.credentials.push(SecretBytes::new(content(&headers, body)?));
    } else if name.len() >= 10 && name[..10].eq_ignore_ascii_case("multipart/") {
        if depth == DEPTH {
            return Err(DecodeError::TooDeep);
        }
        let boundary = parameter(kind, "boundary").ok_or(DecodeError::Mime("a multipart message has no boundary"))?;
        for part in parts(body, &boundary)? {
            collect(part, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Splits an entity into its unfolded headers and its body.
fn split(entity: &[u8]) -> Result<(Headers, &[u8]), DecodeError> {
    let mut headers: Headers = Vec::new();
    let mut rest = entity;
    loop {
        let (line, after) = first_line(rest);
        if line.is_empty() {
            return Ok((headers, after));
        }
        let text = std::str::from_utf8(line).map_err(|_| DecodeError::Mime("a header is not UTF-8"))?;
        if text.starts_with([' ', '\t']) {
            let (_, value) = headers.last_mut().ok_or(DecodeError::Mime("the first header is a continuation"))?;
            value.push(' ');
            value.push_str(text.trim());
        } else {
            let (name, value) = text.split_once(':').ok_or(DecodeError::Mime("a header has no colon"))?;
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        rest = after;
    }
}

fn first_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (line, after) = end.map_or((bytes, &bytes[bytes.len()..]), |end| (&bytes[..end], &bytes[end + 1..]));
    (line.strip_suffix(b"\r").unwrap_or(line), after)
}

/// The parts between the boundaries.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<&'a [u8]>, DecodeError> {
    let (open, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts = Vec::new();
    let (mut rest, mut start) = (body, None);
    while !rest.is_empty() {
        let at = body.len() - rest.len();
        let (line, after) = first_line(rest);
        let line = line.trim_ascii_end();
        let closes = line == close.as_bytes();
        if closes || line == open.as_bytes() {
            if let Some(start) = start.replace(body.len() - after.len()) {
                parts.push(without_line_end(&body[start..at]));
            }
            if parts.len() > PARTS {
                return Err(DecodeError::Mime("too many parts"));
            }
            if closes {
                return Ok(parts);
            }
        }
        rest = after;
    }
    // A truncated message may miss the relevant part.
    Err(DecodeError::Mime("the closing boundary is missing"))
}

/// The line end before a boundary belongs to the boundary.
fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn content(headers: &Headers, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let encoding = header(headers, "content-transfer-encoding").unwrap_or("7bit").to_ascii_lowercase();
    let content = match encoding.as_str() {
        "7bit" | "8bit" | "binary" => body.to_vec(),
        "base64" => unbase64(body).ok_or(DecodeError::Mime("a part is not valid base64"))?,
        _ => return Err(DecodeError::Mime("unsupported transfer encoding; expected 7bit, 8bit, binary or base64")),
    };
    if let Some(expected) = header(headers, "content-digest").and_then(sha_256) {
        let actual = BASE64_STANDARD.encode(Sha256::digest(&content));
        if actual != expected {
            return Err(DecodeError::Digest { expected: expected.chars().take(64).collect(), actual });
        }
    }
    Ok(content)
}

/// The `sha-256=:…:` digest of an RFC 9530 header.
fn sha_256(header: &str) -> Option<&str> {
    let value = header.split(',').find_map(|one| one.trim().strip_prefix("sha-256="))?;
    Some(value.trim().trim_matches(':'))
}

fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn parameter(header: &str, name: &str) -> Option<String> {
    let value = header.split(';').skip(1).find_map(|one| {
        let (key, value) = one.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })?;
    // A boundary with an equals sign is quoted.
    let value = value.strip_prefix('"').map_or(value, |quoted| quoted.split('"').next().unwrap_or_default());
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        read(bytes)?.0.ok_or(DecodeError::Foreign)
    }

    fn part(body: &str) -> String {
        format!("--b\r\nContent-Type: {NODE_CONFIG}; charset=\"utf-8\"\r\n\r\n{body}\r\n")
    }

    fn message(parts: &[String]) -> String {
        format!(
            "Content-Type: multipart/mixed;\r\n\tboundary=b\r\nMIME-Version: 1.0\r\n\r\npreamble\r\n{}--b--\r\n",
            parts.concat()
        )
    }

    #[test]
    fn both_line_endings_and_folded_headers_are_supported() {
        let crlf = message(&[part("{\"a\":\r\n1}")]);
        assert_eq!(document(crlf.as_bytes()).as_deref(), Ok(b"{\"a\":\r\n1}".as_slice()));
        assert_eq!(document(crlf.replace("\r\n", "\n").as_bytes()).as_deref(), Ok(b"{\"a\":\n1}".as_slice()));
    }

    #[test]
    fn message_must_have_exactly_one_document() {
        assert_eq!(
            document(message(&[part("{}"), part("{}")]).as_bytes()),
            Err(DecodeError::Ambiguous { count: 2, kind: NODE_CONFIG })
        );
        assert_eq!(document(message(&[]).as_bytes()), Err(DecodeError::Foreign));
    }

    #[test]
    fn credential_part_is_found_and_two_are_rejected() {
        let credential = part("abcdef.0123456789abcdef").replace(NODE_CONFIG, CREDENTIAL);
        let both = message(&[credential.clone(), part("{}")]);
        let (document, found) = read(both.as_bytes()).expect("both");
        assert_eq!(document.as_deref(), Some(b"{}".as_slice()));
        assert_eq!(found.expect("a credential").expose(), b"abcdef.0123456789abcdef");
        assert_eq!(read(message(&[part("{}")]).as_bytes()), Ok((Some(b"{}".to_vec()), None)));
        let two = message(&[credential.clone(), credential.clone(), part("{}")]);
        assert_eq!(read(two.as_bytes()), Err(DecodeError::Ambiguous { count: 2, kind: CREDENTIAL }));
        let (document, found) = read(message(&[credential]).as_bytes()).expect("one");
        assert!(document.is_none() && found.is_some());
    }

    #[test]
    fn nested_message_is_searched() {
        let inner = message(&[part("{}")]).replace("boundary=b", "boundary=\"i=i\"").replace("--b", "--i=i");
        let outer = format!("Content-Type: multipart/mixed; boundary=o\n\n--o\n{inner}\n--o--\n");
        assert_eq!(document(outer.as_bytes()).as_deref(), Ok(b"{}".as_slice()));
    }

    #[test]
    fn truncated_message_has_no_document() {
        let whole = message(&[part("{\"a\":1}")]);
        let body = whole.find("--b\r").expect("a part");
        for length in body..whole.len() - 4 {
            assert!(document(&whole.as_bytes()[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn unsupported_encoding_is_rejected() {
        let text =
            message(&[part("{}").replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n")]);
        assert!(matches!(document(text.as_bytes()), Err(DecodeError::Mime(_))));
    }
}
