//! Which certificates a cluster is trusted by. One that was merely shown in a handshake is trusted with a pin alone: whoever answers
//! first could show any.

use std::fmt::Write as _;

use kiln_aks_formats::{from_base64, to_base64};
use sha2::{Digest as _, Sha256};

use crate::kind::Place;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The certificates of a kubeconfig, base64 of PEM: it already trusts them.
    pub kubeconfig: Option<String>,
    /// The certificates that the API server showed, PEM each, the last of the chain last.
    pub shown: Vec<String>,
}

/// No certificate that can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Nothing was found.
    #[error("no certificate of the API server was found: give a kubeconfig, or `caBundle`")]
    Nothing,
    /// What was shown is not pinned.
    #[error("the API server showed a certificate that nobody vouches for: give its pin, a kubeconfig, or `caBundle`")]
    NotPinned,
    /// No certificate that was shown or trusted before has the pin.
    #[error("no certificate that the API server showed, or that the kubeconfig trusts, has the pin `{0}`")]
    OtherPin(String),
    /// The pin is none.
    #[error("`{0}` is no pin: `sha256:` and 64 hexadecimal digits")]
    BadPin(String),
}

/// The certificates to trust, base64 of PEM, and where they came from.
pub fn certificates(offered: &Offered, pin: Option<&str>) -> Result<(String, Place), TrustError> {
    if let Some(pin) = pin {
        let digits = pin
            .strip_prefix("sha256:")
            .filter(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| TrustError::BadPin(pin.to_owned()))?.to_ascii_lowercase();
        let pinned = offered.shown.iter().find(|pem| has_pin(pem, &digits));
        if let Some(pem) = pinned {
            return Ok((to_base64(pem), Place::Call(format!("TLS handshake, pin {pin}"))));
        }
        // A pin that a kubeconfig's certificates do not have is one of another cluster.
        if !offered.kubeconfig.as_deref().is_some_and(|data| holds(data, &digits)) {
            return Err(TrustError::OtherPin(pin.to_owned()));
        }
    }
    match (&offered.kubeconfig, offered.shown.is_empty()) {
        (Some(data), _) => Ok((data.clone(), Place::Call("kubeconfig certificate-authority-data".to_owned()))),
        (None, true) => Err(TrustError::Nothing),
        (None, false) => Err(TrustError::NotPinned),
    }
}

/// Whether one of these certificates, base64 of PEM, has the digest.
fn holds(data: &str, digits: &str) -> bool {
    let pem = from_base64(data).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    pem.split_inclusive("-----END CERTIFICATE-----").any(|one| has_pin(one, digits))
}

/// Whether a certificate has the digest, or its key does: kubeadm pins keys (`--discovery-token-ca-cert-hash`).
fn has_pin(pem: &str, digits: &str) -> bool {
    fingerprint(pem).as_deref() == Some(digits) || key_fingerprint(pem).as_deref() == Some(digits)
}

/// SHA-256 of a PEM certificate's content, in hexadecimal.
pub fn fingerprint(pem: &str) -> Option<String> {
    Some(digest(&content(pem)?))
}

/// SHA-256 of a PEM certificate's public key, in hexadecimal, as kubeadm prints it.
pub fn key_fingerprint(pem: &str) -> Option<String> {
    let certificate = content(pem)?;
    let (_, outer) = element(&certificate)?.inside?;
    let (_, mut rest) = element(outer)?.inside?;
    // Version where there is one, number, algorithm, issuer, dates, subject; then the key.
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

/// An element of DER: with its head and without, and what follows it.
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

    fn shown() -> Offered {
        Offered { kubeconfig: None, shown: vec![PEM.to_owned()] }
    }

    #[test]
    fn a_certificate_that_was_only_shown_needs_its_pin() {
        assert_eq!(certificates(&shown(), None), Err(TrustError::NotPinned));
        let pin = format!("sha256:{}", fingerprint(PEM).unwrap().to_uppercase());
        let (data, place) = certificates(&shown(), Some(&pin)).unwrap();
        assert_eq!(data, to_base64(PEM));
        assert!(place.to_string().starts_with("TLS handshake, pin"));
        let other = format!("sha256:{}", "0".repeat(64));
        assert_eq!(certificates(&shown(), Some(&other)), Err(TrustError::OtherPin(other)));
        assert_eq!(certificates(&shown(), Some("x")), Err(TrustError::BadPin("x".to_owned())));
    }

    #[test]
    fn a_kubeconfig_already_trusts_its_own() {
        let offered = Offered { kubeconfig: Some("Q0E=".to_owned()), ..shown() };
        assert_eq!(certificates(&offered, None).unwrap().0, "Q0E=");
        assert_eq!(certificates(&Offered::default(), None), Err(TrustError::Nothing));
    }

    #[test]
    fn a_pin_beside_a_kubeconfig_must_fit_one_of_the_two() {
        let other = "-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n";
        let trusted = Offered { kubeconfig: Some(to_base64(format!("{other}{PEM}"))), shown: vec![other.to_owned()] };
        let pin = format!("sha256:{}", fingerprint(PEM).unwrap());
        assert_eq!(certificates(&trusted, Some(&pin)).unwrap().0, trusted.kubeconfig.clone().unwrap());
        let wrong = format!("sha256:{}", "0".repeat(64));
        assert_eq!(certificates(&trusted, Some(&wrong)), Err(TrustError::OtherPin(wrong)));
    }

    /// Made by OpenSSL, as its key's digest is.
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
    fn a_pin_may_be_that_of_the_key_as_kubeadm_prints_it() {
        assert_eq!(key_fingerprint(KEYED).as_deref(), Some(KEY_DIGEST));
        let shown = Offered { kubeconfig: None, shown: vec![PEM.to_owned(), KEYED.to_owned()] };
        assert_eq!(certificates(&shown, Some(&format!("sha256:{KEY_DIGEST}"))).unwrap().0, to_base64(KEYED));
        for cut in 0..KEYED.len() {
            // Whatever a server shows, nothing breaks.
            let _ = key_fingerprint(&format!("{}\n-----END CERTIFICATE-----\n", &KEYED[..cut]));
        }
    }

    #[test]
    fn the_fingerprint_is_that_of_the_bytes_inside() {
        // SHA-256 of the single byte 0x30.
        assert_eq!(fingerprint(PEM).unwrap(), "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9");
        assert_eq!(fingerprint("x"), None);
    }
}
