//! Who calls, and what a role lets them do.

use serde::{Deserialize, Serialize};

/// A caller, known by its token.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Principal {
    pub(crate) client_id: String,
    pub(crate) object_id: String,
    pub(crate) tenant: String,
    /// Action patterns that its roles grant.
    pub(crate) actions: Vec<String>,
    /// Action patterns that are taken away again.
    pub(crate) not_actions: Vec<String>,
}

impl Principal {
    /// Whether its roles grant `action`.
    pub(crate) fn may(&self, action: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, action));
        any(&self.actions) && !any(&self.not_actions)
    }
}

/// Azure's action patterns: `*` stands for any run of characters, case does not matter.
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
    fn what_is_taken_away_is_not_granted() {
        let caller =
            Principal { actions: vec!["*".into()], not_actions: vec!["*/delete".into()], ..Principal::default() };
        assert!(caller.may("Microsoft.Compute/disks/write"));
        assert!(!caller.may("Microsoft.Compute/disks/delete"));
    }
}
