//! The API versions that a resource type accepts.

use jiff::civil::Date;

use super::call::Call;
use super::error::ArmError;
use super::id::Target;
use super::kind::ARM;
use crate::sim::State;

/// The lists in `kind` have every stable version up to this date. Newer SDKs send versions that are not listed, so a later version is
/// accepted and answered like the newest known one.
const LISTED_UNTIL: Date = Date::constant(2024, 12, 31);

/// Rejects a missing, malformed or unknown API version.
pub(super) fn check(state: &State, call: &Call, target: &Target) -> Result<(), ArmError> {
    let given = call.api_version();
    if given.is_empty() {
        return Err(ArmError::bad(
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        ));
    }
    // ARM's own types have another error than those of resource providers.
    let (provider_type, known) = match target {
        Target::Subscriptions
        | Target::Subscription(_)
        | Target::Locations(_)
        | Target::Tenants
        | Target::Groups(_)
        | Target::Group { .. }
        | Target::Resources { .. }
        | Target::Provider { .. } => (None, ARM),
        Target::Collection { kind, .. } => (Some(kind.types()), kind.api_versions()),
        Target::Resource(id) | Target::Action { id, .. } => (Some(id.kind.types()), id.kind.api_versions()),
        // Status URLs carry the version of the request that started the operation, and lists per provider have other versions.
        Target::Operation { .. }
        | Target::ProviderList { .. }
        | Target::CommunityVersions { .. }
        | Target::SharedGallery { .. }
        | Target::NodeImages { .. }
        | Target::Permissions { .. }
        | Target::Locks { .. }
        | Target::Endpoints
        | Target::UnknownType { .. } => {
            return Ok(());
        }
    };
    if is_accepted(given, known) {
        return Ok(());
    }
    Err(match provider_type {
        None => ArmError::bad(
            "InvalidApiVersionParameter",
            format!("The api-version '{given}' is invalid. The supported versions are '{}'.", known.join(",")),
        ),
        Some(provider_type) => {
            let spec = &state.world.spec;
            let message = format!(
                "No registered resource provider found for location '{}' and API version '{given}' for type '{provider_type}'. The supported api-versions are '{}'. The supported locations are '{}'.",
                spec.location,
                known.join(", "),
                spec.regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>().join(", ")
            );
            ArmError::bad("NoRegisteredProviderFound", message)
        }
    })
}

fn is_accepted(given: &str, known: &[&str]) -> bool {
    known.contains(&given) || date(given).is_some_and(|date| date > LISTED_UNTIL)
}

/// The date of a version such as `2024-03-01` or `2024-03-01-preview`.
fn date(version: &str) -> Option<Date> {
    let date = version.strip_suffix("-preview").unwrap_or(version);
    // jiff also reads forms that Azure does not, such as `20240301`.
    let is_dashed = date.len() == 10 && [4, 7].iter().all(|&at| date.as_bytes()[at] == b'-');
    is_dashed.then(|| date.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::kind::ResourceKind;
    use super::*;

    #[test]
    fn listed_versions_are_well_formed_and_in_order() {
        let lists = ResourceKind::ALL.iter().map(|kind| kind.api_versions()).chain([ARM]);
        for list in lists {
            assert!(list.is_sorted(), "{list:?}");
            for version in list {
                assert!(date(version).is_some(), "{version}");
            }
        }
    }

    #[test]
    fn newer_version_is_accepted_and_an_older_or_malformed_one_is_not() {
        let known = &["2021-07-01", "2024-03-01"];
        for version in ["2021-07-01", "2025-01-01", "2026-03-01", "2099-12-31", "2099-12-31-preview"] {
            assert!(is_accepted(version, known), "{version}");
        }
        for version in
            ["2015-06-15", "2022-01-01", "2024-12-31", "2026-02-29", "2026-3-1", "20260301", "2026-03-01-beta", "9", ""]
        {
            assert!(!is_accepted(version, known), "{version}");
        }
    }
}
