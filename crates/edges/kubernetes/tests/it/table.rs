//! The truth table, cell by cell.

use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, LeftBecause};
use serde_json::json;

use crate::common::{Case, Outcome, cases, phase, pod};
use crate::fake::{Fake, Fault, budget_says_no};

async fn play(case: &Case) -> Outcome {
    let fake = Fake::new();
    fake.put("daemonsets", json!({"metadata": {"namespace": "shop", "name": "agents"}}));
    let mut object = pod(&case.class, "shop", "p", "node-1");
    object["status"] = json!({"phase": phase(&case.class)});
    fake.put("pods", object);
    match case.class.as_str() {
        "budget that allows none" => fake.fault("/eviction", std::iter::repeat_n(budget_says_no(), 100)),
        "two budgets" => {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": message});
            fake.fault("/eviction", [Fault::Answer(500, status)]);
        }
        _ => {}
    }
    let options = DrainOptions::new(case.flags, Duration::from_mins(1));
    let drained = fake.cluster().drain(&"node-1".parse().unwrap(), &options, &mut |_| {}).await;
    let here = fake.get("pods/shop/p").is_some();
    let asked = !fake.asked("/eviction").is_empty();
    match drained {
        Ok(drained) if here => {
            assert!(!asked && drained.gone.is_empty() && drained.stay.len() == 1, "{case:?}: {drained:?}");
            Outcome::Skip
        }
        Ok(drained) => {
            assert_eq!(drained.gone.iter().map(ToString::to_string).collect::<Vec<_>>(), ["shop/p"], "{case:?}");
            Outcome::Evict { left: false }
        }
        Err(DrainError::Blocked { pods, .. }) => {
            assert!(here && !asked && pods[0].0.to_string() == "shop/p", "{case:?}: {pods:?}");
            Outcome::Block
        }
        Err(DrainError::Left { pods, .. }) => {
            assert_eq!(pods[0].pod.to_string(), "shop/p", "{case:?}");
            let fits = match (&pods[0].because, case.class.as_str()) {
                (LeftBecause::Terminating { finalizers }, "finalizer") => finalizers == &["example.invalid/keep"],
                (LeftBecause::Budget(words), "budget that allows none") => words.contains("needs 3 healthy pods"),
                (LeftBecause::Refused(words), "two budgets") => words.contains("more than one PodDisruptionBudget"),
                _ => false,
            };
            assert!(fits, "{case:?}: {pods:?}");
            Outcome::Evict { left: true }
        }
        Err(error) => panic!("{case:?}: {error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_cell_of_the_truth_table_holds() {
    for case in cases() {
        assert_eq!(play(&case).await, case.outcome, "{} with `{}`", case.class, case.letters);
    }
}
