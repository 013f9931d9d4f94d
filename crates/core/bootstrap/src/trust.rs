//! Selection of the certificate authority of a cluster. A certificate from a TLS handshake is trusted only with a pin, because an
//! attacker in the network could present any certificate.

use std::fmt::Write as _;

use kiln_aks_formats::{from_base64, to_base64};
use sha2::{Digest as _, Sha256};

use crate::provenance::SourcePosition;

/// Certificates that were detected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedCertificates {
    /// Certificate authorities of a kubeconfig, as base64-encoded PEM. They are trusted already.
    pub kubeconfig: Option<String>,
    /// Certificates that the API server presented in the TLS handshake, as PEM, leaf first.
    pub presented: Vec<String>,
}

/// No certificate can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error("no certificate of the API server was found; pass a kubeconfig or set `caBundle`")]
    NotFound,
    #[error("the certificate of the API server is not trusted; pass its pin or a kubeconfig, or set `caBundle`")]
    NotPinned,
    #[error("no certificate of the API server or the kubeconfig matches the pin `{0}`")]
    PinMismatch(String),
    #[error("invalid pin `{0}`; expected `sha256:` and 64 hexadecimal digits")]
    InvalidPin(String),
}

/// Returns the certificate authorities to trust, as base64-encoded PEM, and their position.
pub fn certificates(
    detected: &DetectedCertificates,
    pin: Option<&str>,
) -> Result<(String, SourcePosition), TrustError> {
    if let Some(pin) = pin {
        let digits = pin
            .strip_prefix("sha256:")
            .filter(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| TrustError::InvalidPin(pin.to_owned()))?.to_ascii_lowercase();
        let pinned = detected.presented.iter().find(|pem| matches_pin(pem, &digits));
        if let Some(pem) = pinned {
            return Ok((to_base64(pem), SourcePosition::Call(format!("TLS handshake, pin {pin}"))));
        }
        // A pin that matches no certificate of the kubeconfig belongs to a different cluster.
        if !detected.kubeconfig.as_deref().is_some_and(|data| bundle_matches(data, &digits)) {
            return Err(TrustError::PinMismatch(pin.to_owned()));
        }
    }
    match (&detected.kubeconfig, detected.presented.is_empty()) {
        (Some(data), _) => Ok((data.clone(), SourcePosition::Call("kubeconfig certificate-authority-data".to_owned()))),
        (None, true) => Err(TrustError::NotFound),
        (None, false) => Err(TrustError::NotPinned),
    }
}

/// Whether a certificate of a base64-encoded PEM bundle matches the pin.
fn bundle_matches(data: &str, digits: &str) -> bool {
    let pem = from_base64(data).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    pem.split_inclusive("-----END CERTIFICATE-----").any(|one| matches_pin(one, digits))
}

/// Whether the digest of a certificate or of its public key matches the pin. kubeadm pins keys (`--discovery-token-ca-cert-hash`).
fn matches_pin(pem: &str, digits: &str) -> bool {
    fingerprint(pem).as_deref() == Some(digits) || key_fingerprint(pem).as_deref() == Some(digits)
}

/// Returns the SHA-256 digest of a PEM certificate in hexadecimal.
pub fn fingerprint(pem: &str) -> Option<String> {
    Some(digest(&content(pem)?))
}

/// Returns the SHA-256 digest of the public key of a PEM certificate in hexadecimal, as kubeadm prints it.
pub fn key_fingerprint(pem: &str) -> Option<String> {
    let certificate = content(pem)?;
    let (_, outer) = element(&certificate)?.inside?;
    let (_, mut rest) = element(outer)?.inside?;
    // Optional version, serial number, algorithm, issuer, validity and subject precede the key.
    let before = if rest.first() == Some(&0xa0) { 6 } else { 5 };
    for _ in 0..before {
        rest = element(rest)?.after;
    }
    let (whole, _) = element(rest)?.inside?;
    Some(digest(whole))
}

fn content(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    from_base64(&body).ok()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A DER element with and without its header, and the bytes after it.
struct Element<'a> {
    inside: Option<(&'a [u8], &'a [u8])>,
    after: &'a [u8],
}

fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let first = usize::from(*bytes.get(1)?);
    let (head, length) = if first < 0x80 {
        (2, first)
    } else {
        let count = first - 0x80;
        let digits = bytes.get(2..2 + count).filter(|_| (1..=4).contains(&count))?;
        (2 + count, digits.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let end = head.checked_add(length)?;
    let inside = bytes.get(..end).map(|whole| (whole, &whole[head..]));
    Some(Element { inside, after: bytes.get(end..)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

    fn presented() -> DetectedCertificates {
        DetectedCertificates { kubeconfig: None, presented: vec![PEM.to_owned()] }
    }

    #[test]
    fn presented_certificate_needs_a_pin() {
        assert_eq!(certificates(&presented(), None), Err(TrustError::NotPinned));
        let pin = format!("sha256:{}", fingerprint(PEM).unwrap().to_uppercase());
        let (data, position) = certificates(&presented(), Some(&pin)).unwrap();
        assert_eq!(data, to_base64(PEM));
        assert!(position.to_string().starts_with("TLS handshake, pin"));
        let other = format!("sha256:{}", "0".repeat(64));
        assert_eq!(certificates(&presented(), Some(&other)), Err(TrustError::PinMismatch(other)));
        assert_eq!(certificates(&presented(), Some("x")), Err(TrustError::InvalidPin("x".to_owned())));
    }

    #[test]
    fn kubeconfig_certificates_are_trusted() {
        let detected = DetectedCertificates { kubeconfig: Some("Q0E=".to_owned()), ..presented() };
        assert_eq!(certificates(&detected, None).unwrap().0, "Q0E=");
        assert_eq!(certificates(&DetectedCertificates::default(), None), Err(TrustError::NotFound));
    }

    #[test]
    fn pin_must_match_the_presented_or_the_kubeconfig_certificate() {
        let other = "-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n";
        let trusted = DetectedCertificates {
            kubeconfig: Some(to_base64(format!("{other}{PEM}"))),
            presented: vec![other.to_owned()],
        };
        let pin = format!("sha256:{}", fingerprint(PEM).unwrap());
        assert_eq!(certificates(&trusted, Some(&pin)).unwrap().0, trusted.kubeconfig.clone().unwrap());
        let wrong = format!("sha256:{}", "0".repeat(64));
        assert_eq!(certificates(&trusted, Some(&wrong)), Err(TrustError::PinMismatch(wrong)));
    }

    /// Certificate and key digest were created with OpenSSL.
    const KEYED: &str = "\
-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUa2MXrhQ9gbNsgZCG7hYHHHUSB2QwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEa2lsbjAgFw0yNjExMTYwMzMzMDVaGA8yMTI2MTAyMzAzMzMw
NVowDzENMAsGA1UEAwwEa2lsbjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABASA
WSEAR1Kl9kTChlH7txe9LP1zrfRi0daDLCmwc1rmhLh6aaMi6WOAOTrIB6Vu8T0b
7Yosgk2qMuvMzvX3YeSjUzBRMB0GA1UdDgQWBBSoseO1nbzpwss2j1a2F+us61mb
ODAfBgNVHSMEGDAWgBSoseO1nbzpwss2j1a2F+us61mbODAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCICth+41GabZEGpK0EsA/es6M+8Tf4nOedkCB
S9L2BHzDAiEAxHJ/sG01n2UhGSe0kgJh0uSspxrWhqVhMnfS642zLwM=
-----END CERTIFICATE-----
";
    const KEY_DIGEST: &str = "159e14ba4b572c18e5650d57c6b3a943c1c340d90faf59635cfcd4bc0b274319";

    #[test]
    fn pin_can_be_the_key_digest_that_kubeadm_prints() {
        assert_eq!(key_fingerprint(KEYED).as_deref(), Some(KEY_DIGEST));
        let presented = DetectedCertificates { kubeconfig: None, presented: vec![PEM.to_owned(), KEYED.to_owned()] };
        assert_eq!(certificates(&presented, Some(&format!("sha256:{KEY_DIGEST}"))).unwrap().0, to_base64(KEYED));
        for cut in 0..KEYED.len() {
            // Truncated certificates must not panic.
            let _ = key_fingerprint(&format!("{}\n-----END CERTIFICATE-----\n", &KEYED[..cut]));
        }
    }

    #[test]
    fn fingerprint_is_computed_over_the_der_bytes() {
        // SHA-256 of the single byte 0x30.
        assert_eq!(fingerprint(PEM).unwrap(), "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9");
        assert_eq!(fingerprint("x"), None);
    }
}
