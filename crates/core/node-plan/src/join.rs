//! The join credential of a node.

use std::fmt;

use kiln_types::SecretBytes;

/// A join credential.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A bootstrap token or a service account token.
    Token(SecretBytes),
    /// A client certificate with its key, PEM, which the kubelet uses directly.
    ClientCertificate(SecretBytes),
    /// A kubeconfig for requesting the first certificate.
    Kubeconfig(SecretBytes),
}

/// Bytes that are not a credential. They may contain a malformed one, so they are not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a join credential ({length} bytes): expected a token, a certificate with its key (PEM) or a kubeconfig")]
pub struct BadCredential {
    pub length: usize,
}

impl Credential {
    /// Detects the kind of a credential.
    pub fn parse(bytes: &SecretBytes) -> Result<Self, BadCredential> {
        let bad = BadCredential { length: bytes.expose().len() };
        let Ok(text) = std::str::from_utf8(bytes.expose()) else { return Err(bad) };
        let text = text.trim();
        if text.contains("-----BEGIN CERTIFICATE-----") && text.contains("PRIVATE KEY-----") {
            return Ok(Self::ClientCertificate(SecretBytes::new(format!("{text}\n"))));
        }
        let squeezed: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
        if squeezed.contains("clusters:") && squeezed.contains("kind:Config") {
            return Ok(Self::Kubeconfig(SecretBytes::new(format!("{text}\n"))));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let parts: Vec<usize> = text.split('.').map(str::len).collect();
        let token = parts == [6, 16] || (parts.len() == 3 && parts.iter().all(|length| *length > 0));
        if token && text.chars().all(plain) { Ok(Self::Token(SecretBytes::new(text))) } else { Err(bad) }
    }

    /// The bytes; parsing them again gives an equal value.
    pub fn bytes(&self) -> &SecretBytes {
        match self {
            Self::Token(bytes) | Self::ClientCertificate(bytes) | Self::Kubeconfig(bytes) => bytes,
        }
    }

    /// Whether it is or contains a token, which a node needs only once.
    pub fn has_token(&self) -> bool {
        match self {
            Self::Token(_) => true,
            Self::ClientCertificate(_) => false,
            Self::Kubeconfig(bytes) => {
                let text = String::from_utf8_lossy(bytes.expose());
                kiln_node_config::secrets::classify(&text) == Some("a bootstrap token")
            }
        }
    }

    /// The name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::ClientCertificate(_) => "clientCertificate",
            Self::Kubeconfig(_) => "kubeconfig",
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Credential, BadCredential> {
        Credential::parse(&SecretBytes::new(text))
    }

    #[test]
    fn kind_is_detected_and_credential_round_trips() {
        for (text, kind) in [
            ("abcdef.0123456789abcdef\n", "token"),
            ("eyJh.eyJz.c2ln", "token"),
            (
                "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMA==\n",
                "clientCertificate",
            ),
            ("apiVersion: v1\nkind: Config\nclusters:\n- name: a\n", "kubeconfig"),
            (r#"{"kind": "Config", "clusters": []}"#, "kubeconfig"),
        ] {
            let credential = parse(text).expect(text);
            assert_eq!(credential.kind(), kind, "{text}");
            assert_eq!(Credential::parse(credential.bytes()), Ok(credential));
        }
    }

    #[test]
    fn other_bytes_are_rejected_without_being_shown() {
        for bad in ["", "hunter2", "abcdef.short", "-----BEGIN PRIVATE KEY-----", "a b.c.d"] {
            let error = parse(bad).expect_err(bad).to_string();
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
        assert_eq!(Credential::parse(&SecretBytes::new([0xff, 0xfe])), Err(BadCredential { length: 2 }));
    }

    #[test]
    fn debug_output_hides_the_credential() {
        let shown = format!("{:?}", parse("abcdef.0123456789abcdef").expect("a token"));
        assert_eq!(shown, "token: ***");
    }
}
