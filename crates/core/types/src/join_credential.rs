//! The join credential of a donor, and how a clone of it joins.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the kubelet of a node joined the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum JoinCredential {
    /// A client certificate that all nodes share, written from custom data.
    StaticClientCertificate {
        path: String,
    },
    /// A bootstrap token. It expires.
    BootstrapToken {
        /// The public half.
        token_id: TokenId,
        /// The controller that provides new machines with a fresh token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        renewed_by: Option<String>,
    },
    /// The certificate that the kubelet got for its node, after which the credential that it joined with was deleted, as kubeadm does.
    NodeCertificate {
        /// The kubeconfig that names it.
        path: String,
    },
    /// A program that gets a credential for the machine's identity.
    ExecPlugin {
        command: String,
    },
    Unknown {
        why: String,
    },
}

/// The public half of a bootstrap token, six lower-case letters or digits. A whole token does not parse, so that none can end up here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

/// Not the id of a bootstrap token. The text may be a whole token, so it is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a bootstrap token id: expected six lower-case letters or digits, got {length} characters")]
pub struct BadTokenId {
    /// In characters.
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
    /// The kind, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StaticClientCertificate { .. } => "staticClientCertificate",
            Self::BootstrapToken { .. } => "bootstrapToken",
            Self::NodeCertificate { .. } => "nodeCertificate",
            Self::ExecPlugin { .. } => "execPlugin",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// The treatment of the join credential on a clone's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepOrDrop {
    /// The clone joins with it.
    Keep,
    /// The clone deletes it and gets its own from outside the image.
    Drop { renewed_by: String },
    /// The clone keeps the kubeconfig and deletes the cached certificate.
    KeepDroppingCache,
}

/// Why a clone of this donor could not join with what is in the image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefuseReason {
    /// The token in the image will expire.
    #[error("the donor joined with bootstrap token `{token_id}`, which no controller renews for new nodes")]
    NotRenewed { token_id: TokenId },
    #[error("the donor joined with a credential that was deleted; `{path}` names the certificate of its own node")]
    NodeCertificate { path: String },
    #[error("cannot determine how the donor joined ({why}), so a clone may fail to join")]
    Unknown { why: String },
}

/// Decides what a clone does with its donor's credential. An error means that the image alone does not suffice: the clone has to run the
/// pool's recipe again.
pub fn clone_credential(credential: &JoinCredential) -> Result<KeepOrDrop, RefuseReason> {
    match credential {
        JoinCredential::StaticClientCertificate { .. } => Ok(KeepOrDrop::Keep),
        JoinCredential::BootstrapToken { renewed_by: Some(renewed_by), .. } if !renewed_by.trim().is_empty() => {
            Ok(KeepOrDrop::Drop { renewed_by: renewed_by.clone() })
        }
        JoinCredential::BootstrapToken { token_id, .. } => Err(RefuseReason::NotRenewed { token_id: token_id.clone() }),
        JoinCredential::NodeCertificate { path } => Err(RefuseReason::NodeCertificate { path: path.clone() }),
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
    fn treatment_depends_on_the_kind() {
        let certificate =
            JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".to_owned() };
        let plugin = JoinCredential::ExecPlugin { command: "/usr/bin/azure-credential".to_owned() };
        assert_eq!(clone_credential(&certificate), Ok(KeepOrDrop::Keep));
        assert_eq!(clone_credential(&plugin), Ok(KeepOrDrop::KeepDroppingCache));
        let renewed = clone_credential(&token(Some("token-renewer")));
        assert_eq!(renewed, Ok(KeepOrDrop::Drop { renewed_by: "token-renewer".to_owned() }));
    }

    #[test]
    fn token_without_renewal_is_rejected() {
        for renewed_by in [None, Some(" ")] {
            let reason = clone_credential(&token(renewed_by)).expect_err("not renewed");
            assert!(reason.to_string().contains("`abcdef`"), "{reason}");
        }
    }

    #[test]
    fn certificate_of_the_donors_own_node_is_not_for_clones() {
        let own = JoinCredential::NodeCertificate { path: "/etc/kubernetes/kubelet.conf".to_owned() };
        let reason = clone_credential(&own).expect_err("of one node");
        assert!(reason.to_string().contains("`/etc/kubernetes/kubelet.conf`"), "{reason}");
        assert_eq!(serde_json::to_value(&own).expect("json")["kind"], own.kind());
    }

    #[test]
    fn unknown_credential_is_rejected_with_its_reason() {
        let unknown = JoinCredential::Unknown { why: "no kubeconfig under /etc/kubernetes".to_owned() };
        let reason = clone_credential(&unknown).expect_err("unknown");
        assert!(reason.to_string().contains("no kubeconfig"), "{reason}");
    }

    #[test]
    fn whole_token_is_not_a_token_id_and_not_shown_in_the_error() {
        let error = "abcdef.0123456789abcdef".parse::<TokenId>().expect_err("a whole token");
        assert!(!error.to_string().contains("abcdef"), "{error}");
        for bad in ["", "ABCDEF", "abcde", "abcdefg"] {
            assert!(bad.parse::<TokenId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn credential_round_trips_through_json() {
        let json = serde_json::to_value(token(Some("r"))).expect("json");
        assert_eq!(json, serde_json::json!({"kind": "bootstrapToken", "tokenId": "abcdef", "renewedBy": "r"}));
        assert_eq!(serde_json::from_value::<JoinCredential>(json).expect("read"), token(Some("r")));
    }
}
