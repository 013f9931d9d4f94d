//! The root certificates of the image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The path of Debian's OpenSSL, which programs that read the system's root certificates try first.
pub(crate) const PATH: &str = "etc/ssl/certs/ca-certificates.crt";

/// Mozilla's root certificates in one PEM file. They come from a locked crate and not from the build machine, so that all machines build
/// the same image. Users add their own certificates at run time (`SSL_CERT_DIR`).
pub fn bundle() -> String {
    let mut certificates: Vec<&[u8]> = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(AsRef::as_ref).collect();
    certificates.sort_unstable();
    let mut pem = String::new();
    for certificate in certificates {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().copied().map(char::from));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_contains_every_root_certificate() {
        let bundle = bundle();
        let mut decoded = Vec::new();
        for part in bundle.split_terminator("-----END CERTIFICATE-----\n") {
            let text = part.strip_prefix("-----BEGIN CERTIFICATE-----\n").unwrap();
            assert!(text.lines().all(|line| line.len() <= 64));
            decoded.push(STANDARD.decode(text.replace('\n', "")).unwrap());
        }
        assert!(decoded.len() > 100, "{} roots", decoded.len());
        for root in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
            assert!(decoded.iter().any(|one| one.as_slice() == root.as_ref()));
        }
    }
}
