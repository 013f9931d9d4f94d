//! What a failure means for who asked.

use kiln_types::ErrorClass;

use super::envelope::ErrorDetail;

/// The class of an error answer.
///
/// The code counts before the status: Azure says 409 and `OperationNotAllowed` for a core limit as well as for an operation under way.
pub(crate) fn of_answer(status: u16, detail: &ErrorDetail) -> ErrorClass {
    if let Some(class) = of_words(detail) {
        return class;
    }
    match status {
        401 => ErrorClass::Authentication,
        403 => ErrorClass::Permission,
        404 | 410 => ErrorClass::NotFound,
        409 => of_conflict(detail),
        412 => ErrorClass::Precondition,
        429 => ErrorClass::Throttled,
        408 | 500..=599 => ErrorClass::Transient,
        400..=499 => ErrorClass::Invalid,
        _ => ErrorClass::Unexpected,
    }
}

/// The class of an operation that was accepted and then failed. There is no status to go by.
pub(crate) fn of_failure(detail: &ErrorDetail) -> ErrorClass {
    if let Some(class) = of_words(detail) {
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
        of_conflict(detail)
    } else if coded(&["NotFound", "ResourceNotFound"]) {
        ErrorClass::NotFound
    } else {
        ErrorClass::Invalid
    }
}

/// What Azure says where waiting helps. Its codes do not tell: `OperationNotAllowed` is also a disk that is attached, and `Conflict` a name
/// that is taken.
const BUSY_WORDS: &[&str] = &[
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

/// A conflict with what is there: with an operation that will end, with something that has the name, or for good.
fn of_conflict(detail: &ErrorDetail) -> ErrorClass {
    if detail.says("already exists") || detail.says("exists already") {
        ErrorClass::Precondition
    } else if detail.has_code("AnotherOperationInProgress") || BUSY_WORDS.iter().any(|words| detail.says(words)) {
        ErrorClass::Busy
    } else {
        ErrorClass::Invalid
    }
}

fn of_words(detail: &ErrorDetail) -> Option<ErrorClass> {
    let coded = |codes: &[&str]| codes.iter().any(|code| detail.has_code(code));
    if coded(&["TooManyRequests", "SubscriptionRequestsThrottled", "RequestRateTooHigh"]) {
        return Some(ErrorClass::Throttled);
    }
    if coded(&["QuotaExceeded"])
        || (coded(&["OperationNotAllowed"])
            && (detail.says("quota") || detail.says("approved") && detail.says("cores")))
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
    if detail.says("zrs is not supported") || coded(&["ZoneRedundantStorageNotSupported"]) {
        return Some(ErrorClass::StorageUnsupported);
    }
    if coded(&["OperationPreempted", "OperationPreemptedByMoreRecentOperation"]) {
        return Some(ErrorClass::Preempted);
    }
    if coded(&["AuthorizationFailed", "LinkedAuthorizationFailed"]) {
        return Some(ErrorClass::Permission);
    }
    // The resource exists and says no for good: waiting does not help.
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
    fn one_code_means_a_limit_or_an_operation_under_way_by_its_words() {
        let limit = "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.";
        assert_eq!(of_answer(409, &detail("OperationNotAllowed", limit)), ErrorClass::Quota);
        assert_eq!(
            of_answer(409, &detail("OperationNotAllowed", "another operation is in progress")),
            ErrorClass::Busy
        );
    }

    #[test]
    fn a_conflict_is_waited_for_only_where_it_will_end() {
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
            assert_eq!(of_answer(409, &detail(code, message)), class, "{message}");
        }
    }

    #[test]
    fn throttling_of_arm_and_of_compute_are_the_same_to_a_caller() {
        assert_eq!(of_answer(429, &detail("SubscriptionRequestsThrottled", "")), ErrorClass::Throttled);
        let mut compute = detail(
            "OperationNotAllowed",
            "The server rejected the request because too many requests have been received",
        );
        compute.details.push(detail("TooManyRequests", "{\"operationGroup\":\"HighCostGetVMScaleSet30Min\"}"));
        assert_eq!(of_answer(429, &compute), ErrorClass::Throttled);
    }

    #[test]
    fn a_failed_replication_for_want_of_zones_is_told_by_its_words() {
        let failed = detail("InvalidParameter", "replication failed, detail:ZRS is not supported in region");
        assert_eq!(of_failure(&failed), ErrorClass::StorageUnsupported);
    }

    #[test]
    fn statuses_speak_where_codes_do_not() {
        for (status, class) in [
            (401, ErrorClass::Authentication),
            (403, ErrorClass::Permission),
            (404, ErrorClass::NotFound),
            (412, ErrorClass::Precondition),
            (503, ErrorClass::Transient),
            (400, ErrorClass::Invalid),
            (302, ErrorClass::Unexpected),
        ] {
            assert_eq!(of_answer(status, &detail("X", "")), class, "{status}");
        }
    }

    #[test]
    fn failures_of_an_operation_know_their_class() {
        for (code, class) in [
            ("AllocationFailed", ErrorClass::Capacity),
            ("QuotaExceeded", ErrorClass::Quota),
            ("OperationPreempted", ErrorClass::Preempted),
            ("InternalExecutionError", ErrorClass::Transient),
            ("InvalidParameter", ErrorClass::Invalid),
        ] {
            assert_eq!(of_failure(&detail(code, "")), class, "{code}");
        }
    }
}
