//! The join credential of a donor, and what becomes of it in a clone.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the kubelet of a node got in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum JoinCredential {
    /// A client certificate that all nodes share, written by custom data.
    StaticClientCertificate {
        /// Where it is.
        path: String,
    },
    /// A bootstrap token. It expires.
    BootstrapToken {
        /// The half of it that is no secret.
        token_id: TokenId,
        /// Who puts a fresh token where a new machine finds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        renewed_by: Option<String>,
    },
    /// A program that fetches a credential by the machine's own identity.
    ExecPlugin { command: String },
    /// Nothing that this version knows.
    Unknown {
        /// What was looked at and found wanting.
        why: String,
    },
}

/// The public half of a bootstrap token, six lower-case letters or digits. A whole token does not parse, so none can stand here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

/// A text that is no id of a bootstrap token. It may be a whole token, so it is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a bootstrap token: six lower-case letters or digits, got {length} characters")]
pub struct BadTokenId {
    /// How long the refused text was.
    pub length: usize,
}

impl TokenId {
    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = BadTokenId;

    fn from_str(text: &str) -> Result<Self, BadTokenId> {
        let fits = text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if fits { Ok(Self(text.to_owned())) } else { Err(BadTokenId { length: text.chars().count() }) }
    }
}

impl TryFrom<String> for TokenId {
    type Error = BadTokenId;

    fn try_from(text: String) -> Result<Self, BadTokenId> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JoinCredential {
    /// The kind as its JSON names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StaticClientCertificate { .. } => "staticClientCertificate",
            Self::BootstrapToken { .. } => "bootstrapToken",
            Self::ExecPlugin { .. } => "execPlugin",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// What a clone does with the credential on its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepOrDrop {
    /// It stays and the clone joins with it.
    Keep,
    /// It goes; the clone gets its own from outside the image.
    Drop {
        /// Who renews it out there.
        renewed_by: String,
    },
    /// The kubeconfig stays, the certificate that was cached by it goes.
    KeepDroppingCache,
}

/// Why no clone of this donor could join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefuseReason {
    /// The token in the image will expire and no other is in sight.
    #[error(
        "the donor joined with bootstrap token `{token_id}` and nobody renews it for new nodes; \
         put a controller in charge of it, or join by client certificate or exec plugin"
    )]
    NobodyRenews { token_id: TokenId },
    /// Its kind is not known.
    #[error("how the donor joined is unknown ({why}); a clone of it may not join")]
    Unknown {
        /// What was found.
        why: String,
    },
}

/// What becomes of the donor's credential in its clones.
pub fn clone_credential(credential: &JoinCredential) -> Result<KeepOrDrop, RefuseReason> {
    match credential {
        JoinCredential::StaticClientCertificate { .. } => Ok(KeepOrDrop::Keep),
        JoinCredential::BootstrapToken { renewed_by: Some(renewed_by), .. } if !renewed_by.trim().is_empty() => {
            Ok(KeepOrDrop::Drop { renewed_by: renewed_by.clone() })
        }
        JoinCredential::BootstrapToken { token_id, .. } => {
            Err(RefuseReason::NobodyRenews { token_id: token_id.clone() })
        }
        JoinCredential::ExecPlugin { .. } => Ok(KeepOrDrop::KeepDroppingCache),
        JoinCredential::Unknown { why } => Err(RefuseReason::Unknown { why: why.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(renewed_by: Option<&str>) -> JoinCredential {
        JoinCredential::BootstrapToken {
            token_id: "abcdef".parse().expect("an id"),
            renewed_by: renewed_by.map(str::to_owned),
        }
    }

    #[test]
    fn each_kind_of_credential_has_its_own_fate() {
        let certificate =
            JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".to_owned() };
        let plugin = JoinCredential::ExecPlugin { command: "/usr/bin/azure-credential".to_owned() };
        assert_eq!(clone_credential(&certificate), Ok(KeepOrDrop::Keep));
        assert_eq!(clone_credential(&plugin), Ok(KeepOrDrop::KeepDroppingCache));
        let renewed = clone_credential(&token(Some("token-renewer")));
        assert_eq!(renewed, Ok(KeepOrDrop::Drop { renewed_by: "token-renewer".to_owned() }));
    }

    #[test]
    fn a_token_that_nobody_renews_is_refused_by_its_id() {
        for nobody in [None, Some(" ")] {
            let reason = clone_credential(&token(nobody)).expect_err("nobody renews it");
            assert!(reason.to_string().contains("`abcdef`"), "{reason}");
        }
    }

    #[test]
    fn an_unknown_credential_is_refused_with_what_was_found() {
        let unknown = JoinCredential::Unknown { why: "no kubeconfig under /etc/kubernetes".to_owned() };
        let reason = clone_credential(&unknown).expect_err("unknown");
        assert!(reason.to_string().contains("no kubeconfig"), "{reason}");
    }

    #[test]
    fn a_whole_token_is_no_token_id_and_its_error_does_not_show_it() {
        let error = "abcdef.0123456789abcdef".parse::<TokenId>().expect_err("a whole token");
        assert!(!error.to_string().contains("abcdef"), "{error}");
        for bad in ["", "ABCDEF", "abcde", "abcdefg"] {
            assert!(bad.parse::<TokenId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_credential_reads_back_as_it_was_written() {
        let json = serde_json::to_value(token(Some("r"))).expect("json");
        assert_eq!(json, serde_json::json!({"kind": "bootstrapToken", "tokenId": "abcdef", "renewedBy": "r"}));
        assert_eq!(serde_json::from_value::<JoinCredential>(json).expect("read"), token(Some("r")));
    }
}
