//! Who may do what: what roles grant, held against what is needed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where permissions are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessScope {
    /// Where the pools are.
    Home,
    /// One resource, by its id. It may be somewhere else: a subnet often is.
    Resource(String),
}

/// What one role grants to the caller at a scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Patterns of what it allows; `*` stands for any run of characters.
    pub actions: Vec<String>,
    /// Patterns of what it leaves out. Another role may still allow it.
    pub not_actions: Vec<String>,
}

impl Grant {
    /// Whether this role allows an action.
    pub fn allows(&self, action: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| covers(pattern, action));
        any(&self.actions) && !any(&self.not_actions)
    }
}

/// Whether a pattern covers an action. Case does not count.
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

/// When an action is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NeededFor {
    /// By every run.
    EveryRun,
    /// By every run on a pool whose recipe names such a resource; it is asked for there.
    Linked,
    /// By one command or option alone.
    Only(&'static str),
}

/// An action that the operation takes, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    /// The action, in the cloud's words.
    pub action: &'static str,
    /// What fails without it.
    pub needed_to: &'static str,
    pub needed_for: NeededFor,
}

/// A resource that a pool's recipe names, and the action that using it takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Linked {
    pub action: String,
    pub resource: String,
}

/// Whether an action that is needed is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    /// What is needed.
    #[serde(flatten)]
    pub need: Need,
    /// Whether some role allows it.
    pub allowed: bool,
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need { action, needed_to, needed_for } = self.need;
        let word = if self.allowed { "allowed" } else { "missing" };
        write!(f, "{word}  {action}  {needed_to}")?;
        match needed_for {
            NeededFor::Only(what) => write!(f, " ({what} only)"),
            NeededFor::EveryRun | NeededFor::Linked => Ok(()),
        }
    }
}

/// Holds what roles grant against what is needed: one row for each need.
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
    fn a_star_stands_for_any_run_of_characters_and_case_does_not_count() {
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
    fn what_one_role_leaves_out_another_may_give() {
        let need = Need { action: "a/b/delete", needed_to: "delete", needed_for: NeededFor::EveryRun };
        let without = grant(&["*"], &["*/delete"]);
        let allowed = |grants: &[Grant]| allowances(&[need], grants)[0].allowed;
        assert!(!allowed(std::slice::from_ref(&without)));
        assert!(allowed(&[without, grant(&["a/b/*"], &[])]));
        assert!(!allowed(&[]));
    }

    proptest! {
        /// A pattern made of an action by putting stars for pieces of it covers it; one with a letter that it lacks does not.
        #[test]
        fn an_action_is_covered_by_itself_with_pieces_starred(parts in prop::collection::vec("[a-c]{1,3}", 1..6), stars in prop::collection::vec(any::<bool>(), 6)) {
            let action = parts.join("/");
            let starred: Vec<&str> = parts.iter().zip(&stars).map(|(part, star)| if *star { "*" } else { part.as_str() }).collect();
            let pattern = starred.join("/");
            prop_assert!(covers(&pattern, &action), "{pattern} {action}");
            let longer = format!("{pattern}z");
            prop_assert!(!covers(&longer, &action));
        }
    }
}
