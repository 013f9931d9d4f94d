//! Objects that a command names. An error about a missing one lists the existing ones.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kiln_fleet_api::{Freeze, Pool, Rollout, RolloutStatus};
use kiln_kubernetes::FleetKind;

use super::{CHANGED_BY, CREATED_BY, Session, failure, time};
use crate::failure::Failure;

/// Reads an object that must exist.
pub(crate) async fn existing<K: FleetKind>(session: &Session, name: &str) -> Result<K, Failure> {
    if let Some(object) = session.fleet.get::<K>(name).await.map_err(failure)? {
        return Ok(object);
    }
    let mut names: Vec<String> =
        session.fleet.list::<K>().await.map_err(failure)?.iter().map(kube::ResourceExt::name_any).collect();
    names.sort();
    let kind = K::kind(&());
    let missing = Failure::input(format_args!("{kind} `{name}` does not exist"));
    Err(match names.as_slice() {
        [] => missing.hint(format_args!("the cluster has no {kind}; docs/guides/fleet.md shows how to create one")),
        names => missing.hint(format_args!("the cluster has {}", list(names))),
    })
}

/// Names in backticks; at most ten.
pub(crate) fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<String> = names.iter().take(10).map(|name| format!("`{}`", name.as_ref())).collect();
    match names.len().saturating_sub(10) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Reads pools that must exist.
pub(crate) async fn pools(session: &Session, names: &[String]) -> Result<Vec<Pool>, Failure> {
    let mut pools = Vec::new();
    for name in names {
        pools.push(existing::<Pool>(session, name).await?);
    }
    Ok(pools)
}

/// The status of a rollout; the default until the operator has written one.
pub(crate) fn status(rollout: &Rollout) -> RolloutStatus {
    rollout.status.clone().unwrap_or_default()
}

/// Whether a rollout has not ended.
pub(crate) fn is_open(rollout: &Rollout) -> bool {
    !status(rollout).phase.is_final()
}

/// Whether two lists of pools have a pool in common.
pub(crate) fn share_pool(a: &[String], b: &[String]) -> bool {
    a.iter().any(|pool| b.contains(pool))
}

/// Whether a freeze still applies. An `until` that is not a time does not end it.
pub(crate) fn is_active(freeze: &Freeze, now: Timestamp) -> bool {
    let until = freeze.spec.until.as_deref().and_then(|until| until.parse::<Timestamp>().ok());
    until.is_none_or(|until| until > now)
}

/// Whether a freeze applies to one of these pools.
pub(crate) fn freezes(freeze: &Freeze, pools: &[String]) -> bool {
    freeze.spec.pools.is_empty() || share_pool(&freeze.spec.pools, pools)
}

/// When an object was created, in RFC 3339.
pub(crate) fn created_at(object: &impl kube::ResourceExt) -> String {
    object.creation_timestamp().map(|at| time(at.0)).unwrap_or_default()
}

/// Who created an object, and the last command on it: by kiln's annotations, or by the name of the client that the API server recorded. Only the audit log of
/// the API server has the authenticated user.
pub(crate) fn owner(object: &impl kube::ResourceExt) -> String {
    let annotations: &BTreeMap<String, String> = object.annotations();
    let manager = object.managed_fields().iter().find(|fields| fields.subresource.as_deref().unwrap_or("").is_empty());
    let manager = manager.and_then(|fields| fields.manager.as_deref());
    let by = match (annotations.get(CREATED_BY), manager) {
        (Some(who), _) => format!("{who}, with kiln"),
        (None, Some(manager)) => format!("the client `{manager}` (the API server's audit log has the user)"),
        (None, None) => "unknown".to_owned(),
    };
    let created = created_at(object);
    let at = if created.is_empty() { String::new() } else { format!(", {created}") };
    let last = annotations.get(CHANGED_BY).map_or(String::new(), |last| format!("; last change: {last}"));
    format!("{by}{at}{last}")
}

#[cfg(test)]
mod tests {
    use kiln_fleet_api::FreezeSpec;

    use super::*;

    fn freeze(pools: &[&str], until: Option<&str>) -> Freeze {
        let pools = pools.iter().map(ToString::to_string).collect();
        Freeze::new("f", FreezeSpec { reason: "r".to_owned(), pools, until: until.map(ToOwned::to_owned) })
    }

    #[test]
    fn freeze_without_pools_applies_to_all() {
        let pools = ["web".to_owned()];
        assert!(freezes(&freeze(&[], None), &pools));
        assert!(freezes(&freeze(&["api", "web"], None), &pools));
        assert!(!freezes(&freeze(&["api"], None), &pools));
    }

    #[test]
    fn freeze_ends_at_its_time_and_not_at_an_unreadable_one() {
        let now: Timestamp = "2026-08-01T12:00:00Z".parse().expect("a time");
        assert!(is_active(&freeze(&[], None), now));
        assert!(is_active(&freeze(&[], Some("2026-08-01T12:00:01Z")), now));
        assert!(!is_active(&freeze(&[], Some("2026-08-01T12:00:00Z")), now));
        assert!(is_active(&freeze(&[], Some("tomorrow")), now));
    }

    #[test]
    fn long_lists_are_shortened() {
        let names: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        assert!(list(&names).ends_with("`9` and 2 more"), "{}", list(&names));
        assert_eq!(list(&names[..2]), "`0`, `1`");
    }
}
