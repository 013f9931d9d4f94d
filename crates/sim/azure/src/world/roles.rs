//! Callers and their permissions.

use serde::{Deserialize, Serialize};

/// The caller of a request.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Principal {
    pub(crate) client_id: String,
    pub(crate) object_id: String,
    pub(crate) tenant: String,
    /// Action patterns that its roles grant.
    pub(crate) actions: Vec<String>,
    /// Action patterns that its roles exclude.
    pub(crate) not_actions: Vec<String>,
}

impl Principal {
    /// Returns whether its roles grant `action`.
    pub(crate) fn is_allowed(&self, action: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, action));
        any(&self.actions) && !any(&self.not_actions)
    }
}

/// Matches Azure's action patterns: `*` matches any characters, case is ignored.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_azure_roles_do() {
        assert!(matches("*", "Microsoft.Compute/disks/read"));
        assert!(matches("Microsoft.Compute/*/read", "microsoft.compute/galleries/images/READ"));
        assert!(matches("Microsoft.Compute/disks/read", "Microsoft.Compute/disks/read"));
        assert!(!matches("Microsoft.Compute/disks/read", "Microsoft.Compute/disks/write"));
        assert!(!matches("Microsoft.Compute/*/read", "Microsoft.Compute/disks/write"));
        assert!(!matches("*/read", "Microsoft.Compute/disks/write"));
    }

    #[test]
    fn not_actions_are_not_granted() {
        let caller =
            Principal { actions: vec!["*".into()], not_actions: vec!["*/delete".into()], ..Principal::default() };
        assert!(caller.is_allowed("Microsoft.Compute/disks/write"));
        assert!(!caller.is_allowed("Microsoft.Compute/disks/delete"));
    }
}
