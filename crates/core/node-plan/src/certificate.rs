//! Whether the kubelet's client certificate can still be used. Only the validity of a certificate is read; the API server checks the rest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Tags of DER values.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Why a node does not count as joined although the file with its certificate exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableCertificate {
    #[error("the kubelet's certificate file is empty")]
    Empty,
    #[error("the kubelet's certificate file contains no certificate with a key")]
    Incomplete,
    #[error("the kubelet's certificate expired at {0}")]
    Expired(String),
}

/// Checks a file with certificate and key (PEM), as the kubelet writes it. `now` is in RFC 3339, in UTC and without a fraction.
pub fn check_certificate(pem: &[u8], now: &str) -> Result<(), UnusableCertificate> {
    let text = String::from_utf8_lossy(pem);
    if text.trim().is_empty() {
        return Err(UnusableCertificate::Empty);
    }
    let leaf = block(&text, "CERTIFICATE").and_then(|der| not_after(&der));
    let has_key = text.contains("PRIVATE KEY-----");
    match leaf {
        Some(end) if has_key && end.as_str() > now => Ok(()),
        Some(end) if has_key => Err(UnusableCertificate::Expired(end)),
        _ => Err(UnusableCertificate::Incomplete),
    }
}

/// The bytes of the first PEM block with this label.
fn block(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}

/// The end of the validity of an X.509 certificate, in RFC 3339.
fn not_after(der: &[u8]) -> Option<String> {
    let (certificate, _) = value(der, SEQUENCE)?;
    let (mut rest, _) = value(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = next(rest)?.2;
    }
    // Serial number, algorithm and issuer.
    for _ in 0..3 {
        rest = next(rest)?.2;
    }
    let (validity, _) = value(rest, SEQUENCE)?;
    let (tag, end, _) = next(next(validity)?.2)?;
    let digits = std::str::from_utf8(end).ok()?.strip_suffix('Z')?;
    let digits = match (tag, digits.len()) {
        // Years of two digits are 1950 to 2049.
        (UTC_TIME, 12) if digits < "50" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| digits.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    Some(format!("{year}-{month}-{day}T{}:{}:{}Z", part(8, 10)?, part(10, 12)?, part(12, 14)?))
}

/// The content of a value that must have this tag, and what follows it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    next(der).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Tag and content of a DER value, and what follows it.
fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl req -x509 -newkey ed25519 -days 36500`.
    const LONG: &str = "-----BEGIN CERTIFICATE-----\nMIIBOjCB7aADAgECAhROv2Ywc8rqHyEEqB72oIL24WxitTAFBgMrZXAwEjEQMA4G\nA1UEAwwHZXhhbXBsZTAgFw0yNjExMTYxMDIyNDRaGA8yMTI2MTAyMzEwMjI0NFow\nEjEQMA4GA1UEAwwHZXhhbXBsZTAqMAUGAytlcAMhAPfLYx1Jjm7+bNzIbjUOCHIK\n5+n/3Oecs5ISDRTle6Kro1MwUTAdBgNVHQ4EFgQUD8GdIHm8n/PuSjB1LwIUnMQj\ncuEwHwYDVR0jBBgwFoAUD8GdIHm8n/PuSjB1LwIUnMQjcuEwDwYDVR0TAQH/BAUw\nAwEB/zAFBgMrZXADQQAQeM6CtEQNdEvDarNAmJGs1ltIHUkeMMBBSCoZfmgopfN8\n9aNcPzAY2eBQii/Xuc6P9nXqPnkSJuoUh2F6CMwO\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nMA==\n-----END EC PRIVATE KEY-----\n";

    #[test]
    fn validity_is_compared_with_the_clock() {
        let pem = format!("{LONG}{KEY}");
        assert_eq!(check_certificate(pem.as_bytes(), "2126-10-23T10:22:43Z"), Ok(()));
        let expired = UnusableCertificate::Expired("2126-10-23T10:22:44Z".to_owned());
        assert_eq!(check_certificate(pem.as_bytes(), "2126-10-23T10:22:44Z"), Err(expired));
    }

    #[test]
    fn empty_and_incomplete_files_are_not_usable() {
        let now = "2026-11-17T00:00:00Z";
        for empty in ["", "\n \n"] {
            assert_eq!(check_certificate(empty.as_bytes(), now), Err(UnusableCertificate::Empty));
        }
        let cut = &LONG[..LONG.len() / 2];
        for text in ["pem", KEY, LONG, cut, &format!("{cut}{KEY}")] {
            assert_eq!(check_certificate(text.as_bytes(), now), Err(UnusableCertificate::Incomplete), "{text}");
        }
    }

    #[test]
    fn every_truncation_of_a_certificate_is_rejected_without_a_panic() {
        let der = block(LONG, "CERTIFICATE").expect("a certificate");
        assert_eq!(not_after(&der).as_deref(), Some("2126-10-23T10:22:44Z"));
        for end in 0..der.len() {
            assert_eq!(not_after(&der[..end]), None, "{end}");
        }
    }
}
