//! The truth table, beside the real `kubectl drain`.

use std::process::Stdio;
use std::time::Duration;

use control_plane::{ControlPlane, unique};
use futures_util::{StreamExt, stream};
use kiln_kubernetes::NodeName;
use kiln_kubernetes::drain::{DrainOptions, Flags};
use serde_json::json;
use tokio::process::Command;

use crate::common::{Case, Outcome, cases, phase, pod};
use crate::real::{Fate, LONG, Real, quiet};

/// What cannot leave is waited for this long.
const LEFT: Duration = Duration::from_secs(8);

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
            Who::Kiln => kiln(real, &node, &DrainOptions::new(case.flags, within)).await,
        };
        (drained, real.fate("shop", &name).await)
    }

    async fn kubectl(&self, node: &str, case: &Case, within: Duration) -> bool {
        kubectl(self.plane, node, &DrainOptions::new(case.flags, within)).await
    }
}

/// Drains a node by the real `kubectl`.
async fn kubectl(plane: &ControlPlane, node: &str, options: &DrainOptions) -> bool {
    let mut command = Command::from(plane.kubectl().unwrap());
    command.args(["drain", node, &format!("--timeout={}s", options.within.as_secs())]);
    let flags = options.flags;
    let named = [
        (flags.force, "--force"),
        (flags.delete_emptydir_data, "--delete-emptydir-data"),
        (flags.ignore_daemonsets, "--ignore-daemonsets"),
        (flags.disable_eviction, "--disable-eviction"),
    ];
    command.args(named.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag));
    command.args(options.grace.map(|seconds| format!("--grace-period={seconds}")));
    command.stdin(Stdio::null()).output().await.unwrap().status.success()
}

/// Drains a node by kiln.
async fn kiln(real: &Real, node: &NodeName, options: &DrainOptions) -> bool {
    let (owner, never, quiet) = ("run-1".parse().unwrap(), std::future::pending(), &mut |_| {});
    real.cluster.cordon_and_drain(node, &owner, options, never, quiet).await.is_ok()
}

fn expected(case: &Case) -> (bool, Fate) {
    match case.outcome {
        Outcome::Evict { left: false } => (true, Fate::Gone),
        Outcome::Evict { left: true } if case.class == "finalizer" => (false, Fate::Ending),
        Outcome::Evict { left: true } | Outcome::Block => (false, Fate::Untouched),
        Outcome::Skip => (true, Fate::Untouched),
    }
}

/// The `DaemonSet` of those pods that have one.
async fn agents(real: &Real, namespace: &str) {
    let containers = json!([{"name": "c", "image": "example.invalid/c"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    real.create(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": namespace, "name": "agents"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_drain_alike_over_the_whole_table() {
    let plane = quiet();
    let real = Real::of(plane).await;
    real.namespace("shop").await;
    real.namespace("other").await;
    agents(&real, "shop").await;
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

/// Whether a drain succeeded, and of each pod what became of it and the grace that it was given.
type Ending = (bool, Vec<(Fate, Option<i64>)>);

/// Has a node with such pods drained.
async fn one(who: Who, classes: &[&str], options: &DrainOptions, kubelet: bool) -> Ending {
    let plane = quiet();
    let real = Real::of(plane).await;
    let name = unique("both");
    real.namespace(&name).await;
    agents(&real, &name).await;
    let node = real.node(&name).await;
    let pods: Vec<String> = (0..classes.len()).map(|number| format!("p{number}")).collect();
    for (class, of_class) in classes.iter().zip(&pods) {
        real.pod(pod(class, &name, of_class, &name), phase(class)).await;
        if *class == "budget that allows none" {
            real.budget_of_none(&name, of_class, of_class).await;
        }
    }
    let kubelet = kubelet.then(|| real.play_kubelet(&name));
    let drained = match who {
        Who::Kubectl => kubectl(plane, &name, options).await,
        Who::Kiln => kiln(&real, &node, options).await,
    };
    drop(kubelet);
    let mut fates = Vec::new();
    for pod in &pods {
        let found = real.pods(&name).get_opt(pod).await.unwrap();
        let grace = found.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
        fates.push((real.fate(&name, pod).await, grace));
    }
    (drained, fates)
}

/// Has two nodes with the same pods drained, one by each.
async fn both(classes: &[&str], options: &DrainOptions, kubelet: bool) -> (Ending, Ending) {
    tokio::join!(one(Who::Kubectl, classes, options, kubelet), one(Who::Kiln, classes, options, kubelet))
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_take_the_same_pods_from_a_full_node() {
    let classes = [
        "replicated, emptyDir",
        "DaemonSet",
        "mirror",
        "unmanaged",
        "completed",
        "finalizer",
        "budget that allows none",
    ];
    let flags = Flags { force: true, delete_emptydir_data: true, ignore_daemonsets: true, disable_eviction: false };
    let (kubectl, kiln) = both(&classes, &DrainOptions::new(flags, Duration::from_secs(30)), true).await;
    assert_eq!(kubectl, kiln);
    let fates: Vec<Fate> = kiln.1.iter().map(|(fate, _)| *fate).collect();
    let [gone, ending, stays] = [Fate::Gone, Fate::Ending, Fate::Untouched];
    assert_eq!((kiln.0, fates), (false, vec![gone, stays, stays, gone, gone, ending, stays]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_touch_nothing_when_one_pod_may_not_leave() {
    let options = DrainOptions::new(Flags::default(), LONG);
    let (kubectl, kiln) = both(&["replicated", "unmanaged", "completed"], &options, true).await;
    assert_eq!(kubectl, kiln);
    assert_eq!(kiln, (false, vec![(Fate::Untouched, None); 3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_delete_past_budgets_when_eviction_is_disabled() {
    let flags = Flags { disable_eviction: true, ..Flags::default() };
    let (kubectl, kiln) = both(&["budget that allows none", "replicated"], &DrainOptions::new(flags, LONG), true).await;
    assert_eq!(kubectl, kiln);
    assert_eq!(kiln, (true, vec![(Fate::Gone, None); 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_give_pods_the_same_grace() {
    for (grace, given) in [(None, 5), (Some(7), 7)] {
        for disable_eviction in [false, true] {
            let flags = Flags { disable_eviction, ..Flags::default() };
            let options = DrainOptions { grace, ..DrainOptions::new(flags, Duration::from_secs(6)) };
            // Nobody plays kubelet: the pods stay as they were told to end.
            let (kubectl, kiln) = both(&["replicated"], &options, false).await;
            assert_eq!(kubectl, kiln);
            assert_eq!(kiln, (false, vec![(Fate::Ending, Some(given))]));
        }
    }
}
