//! What the server's answer to an eviction means.

use std::time::Duration;

use crate::Answer;

/// What the server's answer to an eviction means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictAnswer {
    /// The pod is told to end.
    Accepted,
    /// There is no such pod any more, or another one of the same name. The next list shows.
    Gone,
    /// A budget allows no disruption now.
    Budget {
        /// What the budget says.
        message: String,
    },
    /// The server has too much to do. No budget was asked.
    Throttled {
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// More than one budget selects the pod: no waiting helps, a person must change one of them.
    TwoBudgets {
        /// What the server says.
        message: String,
    },
    /// The namespace is being deleted, and its pods with it.
    NamespaceEnds,
    /// The server, or what it stands on, is away.
    Away {
        /// What the server says.
        message: String,
    },
    /// The server refuses.
    Refused {
        /// What the server says.
        message: String,
    },
}

/// What the server's answer to an eviction means.
pub fn judge(answer: &Answer) -> EvictAnswer {
    let message = answer.to_string();
    match answer.code {
        404 | 409 => EvictAnswer::Gone,
        // Priority and fairness answers 429 too, without this cause.
        429 if answer.has_cause("DisruptionBudget") => EvictAnswer::Budget {
            message: answer.causes.iter().map(|(_, m)| m.as_str()).collect::<Vec<_>>().join("; "),
        },
        429 => EvictAnswer::Throttled { retry_after: answer.retry_after },
        // The server has no word of its own for it; the sentence is the same since 1.5.
        500 if answer.message.contains("more than one PodDisruptionBudget") => EvictAnswer::TwoBudgets { message },
        403 if answer.has_cause("NamespaceTerminating") => EvictAnswer::NamespaceEnds,
        500 | 502 | 503 | 504 => EvictAnswer::Away { message },
        _ => EvictAnswer::Refused { message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str, cause: Option<&str>) -> Answer {
        let causes = cause.map(|reason| (reason.to_owned(), "the budget `b` needs 3 and has 3".to_owned()));
        Answer {
            code,
            reason: String::new(),
            message: message.to_owned(),
            causes: causes.into_iter().collect(),
            retry_after: None,
        }
    }

    #[test]
    fn a_budget_is_told_apart_from_a_busy_server() {
        let budget = judge(&answer(429, "Cannot evict pod", Some("DisruptionBudget")));
        assert_eq!(budget, EvictAnswer::Budget { message: "the budget `b` needs 3 and has 3".to_owned() });
        let busy = Answer { retry_after: Some(Duration::from_secs(3)), ..answer(429, "Too many requests", None) };
        assert_eq!(judge(&busy), EvictAnswer::Throttled { retry_after: Some(Duration::from_secs(3)) });
    }

    #[test]
    fn two_budgets_are_told_apart_from_a_failing_server() {
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert!(matches!(judge(&answer(500, two, None)), EvictAnswer::TwoBudgets { .. }));
        assert!(matches!(judge(&answer(500, "etcdserver: request timed out", None)), EvictAnswer::Away { .. }));
    }

    #[test]
    fn a_pod_that_is_gone_or_another_one_is_looked_for_again() {
        assert_eq!(judge(&answer(404, "pods \"p\" not found", None)), EvictAnswer::Gone);
        assert_eq!(judge(&answer(409, "the UID in the precondition does not match", None)), EvictAnswer::Gone);
    }

    #[test]
    fn a_namespace_that_ends_takes_its_pods_along_and_any_other_refusal_is_one() {
        assert_eq!(judge(&answer(403, "being terminated", Some("NamespaceTerminating"))), EvictAnswer::NamespaceEnds);
        assert!(matches!(judge(&answer(403, "forbidden", None)), EvictAnswer::Refused { .. }));
        assert!(matches!(judge(&answer(422, "invalid", None)), EvictAnswer::Refused { .. }));
    }
}
