//! The truth table, beside the real `kubectl drain`.

use std::process::Stdio;
use std::time::Duration;

use control_plane::ControlPlane;
use futures_util::{StreamExt, stream};
use kiln_cluster::drain::DrainOptions;
use serde_json::json;
use tokio::process::Command;

use crate::common::{Case, Outcome, cases, phase, pod};
use crate::real::{Fate, LONG, Real, quiet};

/// What cannot leave is waited for this long.
const LEFT: Duration = Duration::from_secs(5);

/// Drains so many nodes at once: `kubectl` mostly waits.
const AT_ONCE: usize = 12;

#[derive(Debug, Clone, Copy)]
enum Who {
    Kubectl,
    Kiln,
}

struct Table<'a> {
    plane: &'a ControlPlane,
    real: Real,
}

impl Table<'_> {
    /// Puts a pod of the class on a node of its own, has the node drained, and says whether that succeeded and what became of the pod.
    async fn play(&self, number: usize, case: &Case, who: Who) -> (bool, Fate) {
        let name = format!("{who:?}-{number}").to_ascii_lowercase();
        let real = &self.real;
        let node = real.node(&name).await;
        real.pod(pod(&case.class, "shop", &name, &name), phase(&case.class)).await;
        match case.class.as_str() {
            "other namespace's budget" => real.budget_of_none("other", &name, &name).await,
            "budget that allows none" => real.budget_of_none("shop", &name, &name).await,
            "two budgets" => {
                real.budget_of_none("shop", &name, &name).await;
                real.budget_of_none("shop", &format!("{name}-too"), &name).await;
            }
            _ => {}
        }
        let within = if case.outcome == (Outcome::Evict { left: true }) { LEFT } else { LONG };
        let drained = match who {
            Who::Kubectl => self.kubectl(&name, case, within).await,
            Who::Kiln => {
                let owner = "run-1".parse().unwrap();
                let options = DrainOptions::new(case.flags, within);
                let quiet = &mut |_| {};
                let never = std::future::pending();
                real.cluster.cordon_and_drain(&node, &owner, &options, never, quiet).await.is_ok()
            }
        };
        (drained, real.fate("shop", &name).await)
    }

    async fn kubectl(&self, node: &str, case: &Case, within: Duration) -> bool {
        let mut command = Command::from(self.plane.kubectl().unwrap());
        command.args(["drain", node, &format!("--timeout={}s", within.as_secs())]);
        let flags = case.flags;
        let named = [
            (flags.force, "--force"),
            (flags.delete_emptydir_data, "--delete-emptydir-data"),
            (flags.ignore_daemonsets, "--ignore-daemonsets"),
        ];
        command.args(named.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag));
        command.stdin(Stdio::null()).output().await.unwrap().status.success()
    }
}

fn expected(case: &Case) -> (bool, Fate) {
    match case.outcome {
        Outcome::Evict { left: false } => (true, Fate::Gone),
        Outcome::Evict { left: true } if case.class == "finalizer" => (false, Fate::Ending),
        Outcome::Evict { left: true } | Outcome::Block => (false, Fate::Untouched),
        Outcome::Skip => (true, Fate::Untouched),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_drain_alike_over_the_whole_table() {
    let plane = quiet();
    let real = Real::of(plane).await;
    real.namespace("shop").await;
    real.namespace("other").await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}]}});
    let agents = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "shop", "name": "agents"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    real.create(agents).await;
    let kubelet = real.play_kubelet("shop");
    let table = Table { plane, real };
    let cases = cases();
    let runs =
        cases.iter().enumerate().flat_map(|(number, case)| [(number, case, Who::Kubectl), (number, case, Who::Kiln)]);
    let differences: Vec<String> = stream::iter(runs)
        .map(|(number, case, who)| {
            let table = &table;
            async move {
                let found = table.play(number, case, who).await;
                (found != expected(case)).then(|| {
                    format!("{} with `{}`: {who:?} {found:?}, the table {:?}", case.class, case.letters, expected(case))
                })
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    drop(kubelet);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
