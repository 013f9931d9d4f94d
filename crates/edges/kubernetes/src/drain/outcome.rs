//! The meaning of the server's response to an eviction.

use std::time::Duration;

use crate::ApiStatus;

/// The meaning of the server's response to an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod is terminating.
    Accepted,
    /// The pod does not exist any more, or another pod has its name. The next list shows which.
    Gone,
    /// A budget does not allow a disruption now.
    Budget { message: String },
    /// Priority and fairness throttled the request. No budget was evaluated.
    Throttled { retry_after: Option<Duration> },
    /// More than one budget selects the pod. Retrying does not help: a person must change one of them.
    MultipleBudgets { message: String },
    /// The namespace is being deleted, and its pods with it.
    NamespaceTerminating,
    /// The server or its storage is unavailable.
    Unavailable { message: String },
    /// The server rejected the eviction.
    Refused { message: String },
}

/// Interprets the server's response to an eviction.
pub fn classify(status: &ApiStatus) -> EvictionOutcome {
    let message = status.to_string();
    match status.code {
        404 | 409 => EvictionOutcome::Gone,
        // Priority and fairness also answers 429, without this cause.
        429 if status.has_cause("DisruptionBudget") => EvictionOutcome::Budget {
            message: status.causes.iter().map(|(_, m)| m.as_str()).collect::<Vec<_>>().join("; "),
        },
        429 => EvictionOutcome::Throttled { retry_after: status.retry_after },
        // There is no machine-readable reason for it; the message has not changed since Kubernetes 1.5.
        500 if status.message.contains("more than one PodDisruptionBudget") => {
            EvictionOutcome::MultipleBudgets { message }
        }
        403 if status.has_cause("NamespaceTerminating") => EvictionOutcome::NamespaceTerminating,
        500 | 502 | 503 | 504 => EvictionOutcome::Unavailable { message },
        _ => EvictionOutcome::Refused { message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str, cause: Option<&str>) -> ApiStatus {
        let causes = cause.map(|reason| (reason.to_owned(), "the budget `b` needs 3 and has 3".to_owned()));
        ApiStatus {
            code,
            reason: String::new(),
            message: message.to_owned(),
            causes: causes.into_iter().collect(),
            retry_after: None,
        }
    }

    #[test]
    fn budget_is_distinguished_from_throttling() {
        let budget = classify(&status(429, "Cannot evict pod", Some("DisruptionBudget")));
        assert_eq!(budget, EvictionOutcome::Budget { message: "the budget `b` needs 3 and has 3".to_owned() });
        let busy = ApiStatus { retry_after: Some(Duration::from_secs(3)), ..status(429, "Too many requests", None) };
        assert_eq!(classify(&busy), EvictionOutcome::Throttled { retry_after: Some(Duration::from_secs(3)) });
    }

    #[test]
    fn multiple_budgets_are_distinguished_from_a_failing_server() {
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert!(matches!(classify(&status(500, two, None)), EvictionOutcome::MultipleBudgets { .. }));
        assert!(matches!(
            classify(&status(500, "etcdserver: request timed out", None)),
            EvictionOutcome::Unavailable { .. }
        ));
    }

    #[test]
    fn missing_or_replaced_pod_is_listed_again() {
        assert_eq!(classify(&status(404, "pods \"p\" not found", None)), EvictionOutcome::Gone);
        assert_eq!(classify(&status(409, "the UID in the precondition does not match", None)), EvictionOutcome::Gone);
    }

    #[test]
    fn terminating_namespace_is_distinguished_from_other_rejections() {
        assert_eq!(
            classify(&status(403, "being terminated", Some("NamespaceTerminating"))),
            EvictionOutcome::NamespaceTerminating
        );
        assert!(matches!(classify(&status(403, "forbidden", None)), EvictionOutcome::Refused { .. }));
        assert!(matches!(classify(&status(422, "invalid", None)), EvictionOutcome::Refused { .. }));
    }
}
