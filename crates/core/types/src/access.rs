//! Permissions: the actions that an operation needs, compared with what roles grant.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where permissions are checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessScope {
    /// The resource group of the pools.
    Home,
    /// The resource group of the galleries, which may be another one.
    Galleries,
    /// One resource, by its id. It may be in another resource group, as a subnet often is.
    Resource(String),
}

/// The actions that one role grants to the caller at a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Patterns of allowed actions; `*` matches any characters.
    pub actions: Vec<String>,
    /// Patterns of actions that this role does not allow. Another role may still allow them.
    pub not_actions: Vec<String>,
}

impl Grant {
    /// Whether this role allows an action.
    pub fn allows(&self, action: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| covers(pattern, action));
        any(&self.actions) && !any(&self.not_actions)
    }
}

/// Whether a pattern matches an action, ignoring case.
fn covers(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_ascii_lowercase(), action.to_ascii_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == action };
    let Some(mut left) = action.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(last)
}

/// Which runs need an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NeededFor {
    EveryRun,
    /// Every run on a pool whose recipe refers to such a resource. It is checked at that resource.
    Linked,
    /// One command or option.
    Only(&'static str),
}

/// An action that kiln performs, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    /// As the cloud writes it.
    pub action: &'static str,
    /// The consequence if it is missing.
    pub needed_to: &'static str,
    pub needed_for: NeededFor,
}

/// A resource that a pool's recipe refers to, and the action that using it requires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Linked {
    pub action: String,
    pub resource: String,
}

/// A lock on a resource or on something above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    /// As the cloud writes it: `CanNotDelete`, `ReadOnly`.
    pub level: String,
    /// The id of what is locked.
    pub scope: String,
}

/// Whether a needed action is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    #[serde(flatten)]
    pub need: Need,
    pub allowed: bool,
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need { action, needed_to, needed_for } = self.need;
        let state = if self.allowed { "allowed" } else { "missing" };
        write!(f, "{state}  {action}  {needed_to}")?;
        match needed_for {
            NeededFor::Only(what) => write!(f, " ({what} only)"),
            NeededFor::EveryRun | NeededFor::Linked => Ok(()),
        }
    }
}

/// Compares what roles grant with what is needed: one row for each need.
pub fn allowances(needs: &[Need], grants: &[Grant]) -> Vec<Allowance> {
    let allowed = |need: &Need| grants.iter().any(|grant| grant.allows(need.action));
    needs.iter().map(|need| Allowance { need: *need, allowed: allowed(need) }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grant(actions: &[&str], not_actions: &[&str]) -> Grant {
        let owned = |patterns: &[&str]| patterns.iter().map(|&p| p.to_owned()).collect();
        Grant { actions: owned(actions), not_actions: owned(not_actions) }
    }

    #[test]
    fn star_matches_any_characters_and_case_is_ignored() {
        for (pattern, action, covered) in [
            ("*", "Microsoft.Compute/disks/read", true),
            ("*/read", "Microsoft.Compute/disks/read", true),
            ("*/read", "Microsoft.Compute/disks/write", false),
            ("microsoft.compute/*", "Microsoft.Compute/disks/READ", true),
            ("Microsoft.Compute/*/read", "Microsoft.Compute/galleries/images/read", true),
            ("Microsoft.Compute/*/write", "Microsoft.Network/x/write", false),
            ("Microsoft.Compute/disks/read", "Microsoft.Compute/disks/readAll", false),
            ("Microsoft.Compute/*/images/*/read", "Microsoft.Compute/galleries/images/versions/read", true),
            ("Microsoft.Compute/*/images/*/read", "Microsoft.Compute/galleries/images/read", false),
            ("", "Microsoft.Compute/disks/read", false),
        ] {
            assert_eq!(covers(pattern, action), covered, "{pattern} {action}");
        }
    }

    #[test]
    fn another_role_may_grant_what_one_excludes() {
        let need = Need { action: "a/b/delete", needed_to: "delete", needed_for: NeededFor::EveryRun };
        let without = grant(&["*"], &["*/delete"]);
        let allowed = |grants: &[Grant]| allowances(&[need], grants)[0].allowed;
        assert!(!allowed(std::slice::from_ref(&without)));
        assert!(allowed(&[without, grant(&["a/b/*"], &[])]));
        assert!(!allowed(&[]));
    }

    proptest! {
        /// Replacing parts of an action by stars gives a pattern that matches it; appending a letter gives one that does not.
        #[test]
        fn action_is_matched_by_itself_with_parts_starred(parts in prop::collection::vec("[a-c]{1,3}", 1..6), stars in prop::collection::vec(any::<bool>(), 6)) {
            let action = parts.join("/");
            let starred: Vec<&str> = parts.iter().zip(&stars).map(|(part, star)| if *star { "*" } else { part.as_str() }).collect();
            let pattern = starred.join("/");
            prop_assert!(covers(&pattern, &action), "{pattern} {action}");
            let longer = format!("{pattern}z");
            prop_assert!(!covers(&longer, &action));
        }
    }
}
