//! The signature of a document, and what else the signer stated: for which pool and cluster the document is, and how long it may be accepted.

use serde::{Deserialize, Serialize};

/// Signature of a document.
///
/// The statements are optional. They are covered by the signature: removing or changing one invalidates it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    pub key_id: String,
    /// `ed25519`.
    pub algorithm: String,
    /// The pool that the document is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// The cluster that the document is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// When it was signed, such as `2026-11-17T10:00:00Z`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub issued: String,
    /// When nodes stop accepting it, such as `2026-12-17T10:00:00Z`. A generation that is in force then stays in force.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expires: String,
    /// Signature of [`crate::NodeConfig::signed_bytes`] in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// The pool and the cluster of a node. Empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Binding {
    pub pool: String,
    pub cluster: String,
}

/// A statement of a signature that does not fit this node or this time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    #[error("the document is signed for {}, but this node belongs to {what} `{expected}`", shown(.what, .found))]
    Other {
        /// `pool` or `cluster`.
        what: &'static str,
        found: String,
        expected: String,
    },
    #[error("the signature expired at {expires}; it is {now} now")]
    Expired { expires: String, now: String },
    #[error("the document was signed at {issued}, but the clock of this machine shows {now}")]
    Future { issued: String, now: String },
    #[error("`signature.{field}` is `{value}`; expected a time such as `2026-12-17T10:00:00Z`")]
    Time { field: &'static str, value: String },
}

fn shown(what: &str, found: &str) -> String {
    if found.is_empty() { format!("no {what}") } else { format!("{what} `{found}`") }
}

impl Signature {
    /// Whether the signer stated anything.
    pub fn has_statements(&self) -> bool {
        [&self.pool, &self.cluster, &self.issued, &self.expires].iter().any(|text| !text.is_empty())
    }

    /// Checks the statements. A node that knows its pool or cluster accepts only documents for it. `now` and `latest` are times in the form
    /// of [`Self::expires`]; a document that was signed after `latest` shows that the clock of the machine is wrong.
    pub fn check_statements(&self, node: &Binding, now: &str, latest: &str) -> Result<(), StatementError> {
        for (what, found, expected) in [("pool", &self.pool, &node.pool), ("cluster", &self.cluster, &node.cluster)] {
            if !expected.is_empty() && found != expected {
                return Err(StatementError::Other { what, found: found.clone(), expected: expected.clone() });
            }
        }
        for (field, value) in [("issued", &self.issued), ("expires", &self.expires)] {
            if !value.is_empty() && !is_time(value) {
                return Err(StatementError::Time { field, value: value.clone() });
            }
        }
        if !self.issued.is_empty() && self.issued.as_str() > latest {
            return Err(StatementError::Future { issued: self.issued.clone(), now: now.to_owned() });
        }
        if !self.expires.is_empty() && self.expires.as_str() <= now {
            return Err(StatementError::Expired { expires: self.expires.clone(), now: now.to_owned() });
        }
        Ok(())
    }
}

/// Whether a text is a time in UTC without a fraction. Such times can be compared as texts.
pub fn is_time(text: &str) -> bool {
    let pattern = b"0000-00-00T00:00:00Z";
    text.len() == pattern.len()
        && text.bytes().zip(pattern).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            wanted => byte == *wanted,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-17T10:00:00Z";
    const LATEST: &str = "2026-11-17T10:10:00Z";

    fn signature() -> Signature {
        Signature {
            pool: "a".to_owned(),
            cluster: "prod".to_owned(),
            issued: "2026-11-17T09:00:00Z".to_owned(),
            expires: "2026-12-17T09:00:00Z".to_owned(),
            ..Signature::default()
        }
    }

    fn node(pool: &str, cluster: &str) -> Binding {
        Binding { pool: pool.to_owned(), cluster: cluster.to_owned() }
    }

    #[test]
    fn document_for_another_pool_or_cluster_is_rejected() {
        let check = |node: &Binding| signature().check_statements(node, NOW, LATEST);
        assert_eq!(check(&node("a", "prod")), Ok(()));
        assert_eq!(check(&node("", "")), Ok(()), "the node does not know");
        assert!(matches!(check(&node("b", "prod")), Err(StatementError::Other { what: "pool", .. })));
        assert!(matches!(check(&node("a", "test")), Err(StatementError::Other { what: "cluster", .. })));
        let unbound = Signature::default().check_statements(&node("a", ""), NOW, LATEST).expect_err("not bound");
        assert_eq!(unbound.to_string(), "the document is signed for no pool, but this node belongs to pool `a`");
    }

    #[test]
    fn times_are_compared_with_the_clock() {
        let at = |now: &str, latest: &str| signature().check_statements(&Binding::default(), now, latest);
        assert_eq!(at(NOW, LATEST), Ok(()));
        assert_eq!(at("2026-12-17T08:59:59Z", "2026-12-17T09:09:59Z"), Ok(()));
        assert!(matches!(at("2026-12-17T09:00:00Z", "2026-12-17T09:10:00Z"), Err(StatementError::Expired { .. })));
        assert_eq!(at("2026-11-17T08:55:00Z", "2026-11-17T09:05:00Z"), Ok(()), "a clock may be a few minutes slow");
        assert!(matches!(at("1970-01-01T00:00:09Z", "1970-01-01T00:10:09Z"), Err(StatementError::Future { .. })));
        for bad in ["soon", "2026-12-17", "2026-12-17T09:00:00+01:00", "2026-12-17T09:00:00.5Z"] {
            let signature = Signature { expires: bad.to_owned(), ..signature() };
            let error = signature.check_statements(&Binding::default(), NOW, LATEST).expect_err("no time");
            assert!(matches!(error, StatementError::Time { field: "expires", .. }), "{error}");
        }
    }
}
