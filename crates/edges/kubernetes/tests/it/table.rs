//! The decision table of `docs/reference/drain.md`, cell by cell.

use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, RemainReason};
use serde_json::json;

use crate::common::{Case, Outcome, cases, phase, pod};
use crate::fake::{Fake, Fault, budget_exhausted};

async fn play(case: &Case) -> Outcome {
    let fake = Fake::new();
    fake.put("daemonsets", json!({"metadata": {"namespace": "shop", "name": "agents"}}));
    let mut object = pod(&case.class, "shop", "p", "node-1");
    object["status"] = json!({"phase": phase(&case.class)});
    fake.put("pods", object);
    match case.class.as_str() {
        "exhausted budget" => fake.fault("/eviction", std::iter::repeat_n(budget_exhausted(), 100)),
        "two budgets" => {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": message});
            fake.fault("/eviction", [Fault::Respond(500, status)]);
        }
        _ => {}
    }
    let options = DrainOptions::new(case.flags, Duration::from_mins(1));
    let drained = fake.cluster().drain(&"node-1".parse().unwrap(), &options, &mut |_| {}).await;
    let present = fake.get("pods/shop/p").is_some();
    let evicted = !fake.requests("/eviction").is_empty();
    match drained {
        Ok(drained) if present => {
            assert!(!evicted && drained.evicted.is_empty() && drained.skipped.len() == 1, "{case:?}: {drained:?}");
            Outcome::Skip
        }
        Ok(drained) => {
            assert_eq!(drained.evicted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["shop/p"], "{case:?}");
            Outcome::Evict { remains: false }
        }
        Err(DrainError::Blocked { pods, .. }) => {
            assert!(present && !evicted && pods[0].0.to_string() == "shop/p", "{case:?}: {pods:?}");
            Outcome::Block
        }
        Err(DrainError::Remaining { pods, .. }) => {
            assert_eq!(pods[0].pod.to_string(), "shop/p", "{case:?}");
            let fits = match (&pods[0].reason, case.class.as_str()) {
                (RemainReason::Terminating { finalizers }, "finalizer") => finalizers == &["example.invalid/keep"],
                (RemainReason::Budget(message), "exhausted budget") => message.contains("needs 3 healthy pods"),
                (RemainReason::Refused(message), "two budgets") => {
                    message.contains("more than one PodDisruptionBudget")
                }
                _ => false,
            };
            assert!(fits, "{case:?}: {pods:?}");
            Outcome::Evict { remains: true }
        }
        Err(error) => panic!("{case:?}: {error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_cell_of_the_decision_table_is_correct() {
    for case in cases() {
        assert_eq!(play(&case).await, case.outcome, "{} with `{}`", case.class, case.letters);
    }
}
