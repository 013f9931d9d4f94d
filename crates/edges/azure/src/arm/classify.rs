//! Classification of Azure's errors.

use kiln_types::ErrorClass;

use super::envelope::ErrorDetail;

/// Classifies an error response.
///
/// The error code takes precedence over the status: Azure returns 409 with `OperationNotAllowed` both for an exceeded core quota and for a
/// concurrent operation.
pub(crate) fn classify_answer(status: u16, detail: &ErrorDetail) -> ErrorClass {
    if let Some(class) = classify_code(detail) {
        return class;
    }
    match status {
        401 => ErrorClass::Authentication,
        403 => ErrorClass::Permission,
        404 | 410 => ErrorClass::NotFound,
        409 => classify_conflict(detail),
        412 => ErrorClass::Precondition,
        429 => ErrorClass::Throttled,
        408 | 500..=599 => ErrorClass::Transient,
        400..=499 => ErrorClass::Invalid,
        _ => ErrorClass::Unexpected,
    }
}

/// Classifies an operation that was accepted and then failed. No HTTP status is available for it.
pub(crate) fn classify_failure(detail: &ErrorDetail) -> ErrorClass {
    if let Some(class) = classify_code(detail) {
        return class;
    }
    let coded = |codes: &[&str]| codes.iter().any(|code| detail.has_code(code));
    if coded(&[
        "InternalError",
        "InternalExecutionError",
        "InternalServerError",
        "NetworkingInternalOperationError",
        "OperationTimedOut",
    ]) {
        ErrorClass::Transient
    } else if coded(&["Conflict", "OperationNotAllowed", "AnotherOperationInProgress"]) {
        classify_conflict(detail)
    } else if coded(&["NotFound", "ResourceNotFound"]) {
        ErrorClass::NotFound
    } else {
        ErrorClass::Invalid
    }
}

/// Phrases in messages of conflicts that end by themselves. The codes are ambiguous: `OperationNotAllowed` is also used for an attached
/// disk, and `Conflict` for a name that is already in use.
const BUSY_PHRASES: &[&str] = &[
    "in progress",
    "concurrent",
    "marked for deletion",
    "being ",
    "try again",
    "retry",
    "transition",
    "state creating",
    "state updating",
    "state deleting",
];

/// Classifies a conflict: with a running operation (retry), with an existing resource of the same name, or a permanent one.
fn classify_conflict(detail: &ErrorDetail) -> ErrorClass {
    if detail.mentions("already exists") || detail.mentions("exists already") {
        ErrorClass::Precondition
    } else if detail.has_code("AnotherOperationInProgress") || BUSY_PHRASES.iter().any(|phrase| detail.mentions(phrase))
    {
        ErrorClass::Busy
    } else {
        ErrorClass::Invalid
    }
}

fn classify_code(detail: &ErrorDetail) -> Option<ErrorClass> {
    let coded = |codes: &[&str]| codes.iter().any(|code| detail.has_code(code));
    if coded(&["TooManyRequests", "SubscriptionRequestsThrottled", "RequestRateTooHigh"]) {
        return Some(ErrorClass::Throttled);
    }
    if coded(&["QuotaExceeded"])
        || (coded(&["OperationNotAllowed"])
            && (detail.mentions("quota") || detail.mentions("approved") && detail.mentions("cores")))
    {
        return Some(ErrorClass::Quota);
    }
    if coded(&[
        "AllocationFailed",
        "ZonalAllocationFailed",
        "OverconstrainedAllocationRequest",
        "OverconstrainedZonalAllocationRequest",
        "SkuNotAvailable",
    ]) {
        return Some(ErrorClass::Capacity);
    }
    if detail.mentions("zrs is not supported") || coded(&["ZoneRedundantStorageNotSupported"]) {
        return Some(ErrorClass::StorageUnsupported);
    }
    if coded(&["OperationPreempted", "OperationPreemptedByMoreRecentOperation"]) {
        return Some(ErrorClass::Preempted);
    }
    if coded(&["ScopeLocked"]) {
        return Some(ErrorClass::Locked);
    }
    if coded(&["RequestDisallowedByPolicy"]) {
        return Some(ErrorClass::Policy);
    }
    if coded(&["AuthorizationFailed", "LinkedAuthorizationFailed"]) {
        return Some(ErrorClass::Permission);
    }
    // The resource exists and the conflict is permanent, so retrying does not help.
    if coded(&[
        "PropertyChangeNotAllowed",
        "ImmutableProperty",
        "InUse",
        "ResourceInUse",
        "CannotDeleteResource",
        "NestedResourcesExist",
    ]) {
        return Some(ErrorClass::Invalid);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(code: &str, message: &str) -> ErrorDetail {
        ErrorDetail { code: code.into(), message: message.into(), ..ErrorDetail::default() }
    }

    #[test]
    fn quota_and_concurrent_operation_are_distinguished_by_message() {
        let limit = "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.";
        assert_eq!(classify_answer(409, &detail("OperationNotAllowed", limit)), ErrorClass::Quota);
        assert_eq!(
            classify_answer(409, &detail("OperationNotAllowed", "another operation is in progress")),
            ErrorClass::Busy
        );
    }

    #[test]
    fn only_temporary_conflicts_are_busy() {
        for (code, message, class) in [
            (
                "OperationNotAllowed",
                "Operation is not allowed on resource 'd' since it is marked for deletion.",
                ErrorClass::Busy,
            ),
            ("Conflict", "The request failed due to conflict with a concurrent request.", ErrorClass::Busy),
            ("OperationNotAllowed", "The source 's' is in state Creating; it must be Succeeded.", ErrorClass::Busy),
            ("OperationNotAllowed", "The image version 'v' is in state Failed. Delete it first.", ErrorClass::Invalid),
            ("OperationNotAllowed", "Disk d is attached to VM v.", ErrorClass::Invalid),
            ("Conflict", "A gallery with the name 'g' exists already in resource group 'r'.", ErrorClass::Precondition),
        ] {
            assert_eq!(classify_answer(409, &detail(code, message)), class, "{message}");
        }
    }

    /// The message of a lock asks to "try again", as those of busy resources do.
    #[test]
    fn locks_and_policies_are_permanent() {
        let locked = detail(
            "ScopeLocked",
            "The scope '/s' cannot perform delete operation because following scope(s) are locked: '/g'. Please remove the lock and try again.",
        );
        assert_eq!(classify_answer(409, &locked), ErrorClass::Locked);
        let denied = detail("RequestDisallowedByPolicy", "Resource 'g' was disallowed by policy.");
        assert_eq!(classify_answer(403, &denied), ErrorClass::Policy);
        assert_eq!(classify_failure(&denied), ErrorClass::Policy);
        for class in [ErrorClass::Locked, ErrorClass::Policy] {
            assert!(!class.is_retryable() && class.hint().is_some(), "{class:?}");
        }
    }

    #[test]
    fn arm_and_compute_throttling_have_the_same_class() {
        assert_eq!(classify_answer(429, &detail("SubscriptionRequestsThrottled", "")), ErrorClass::Throttled);
        let mut compute = detail(
            "OperationNotAllowed",
            "The server rejected the request because too many requests have been received",
        );
        compute.details.push(detail("TooManyRequests", "{\"operationGroup\":\"HighCostGetVMScaleSet30Min\"}"));
        assert_eq!(classify_answer(429, &compute), ErrorClass::Throttled);
    }

    #[test]
    fn unsupported_zone_redundancy_is_recognized_by_message() {
        let failed = detail("InvalidParameter", "replication failed, detail:ZRS is not supported in region");
        assert_eq!(classify_failure(&failed), ErrorClass::StorageUnsupported);
    }

    #[test]
    fn unknown_codes_are_classified_by_status() {
        for (status, class) in [
            (401, ErrorClass::Authentication),
            (403, ErrorClass::Permission),
            (404, ErrorClass::NotFound),
            (412, ErrorClass::Precondition),
            (503, ErrorClass::Transient),
            (400, ErrorClass::Invalid),
            (302, ErrorClass::Unexpected),
        ] {
            assert_eq!(classify_answer(status, &detail("X", "")), class, "{status}");
        }
    }

    #[test]
    fn failed_operations_are_classified_by_code() {
        for (code, class) in [
            ("AllocationFailed", ErrorClass::Capacity),
            ("QuotaExceeded", ErrorClass::Quota),
            ("OperationPreempted", ErrorClass::Preempted),
            ("InternalExecutionError", ErrorClass::Transient),
            ("InvalidParameter", ErrorClass::Invalid),
        ] {
            assert_eq!(classify_failure(&detail(code, "")), class, "{code}");
        }
    }
}
