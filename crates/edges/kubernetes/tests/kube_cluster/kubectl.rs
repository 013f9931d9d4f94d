//! Compares the decision table with the real `kubectl drain`.

use std::process::Stdio;
use std::time::Duration;

use control_plane::{ControlPlane, unique};
use futures_util::{StreamExt, stream};
use kiln_kubernetes::NodeName;
use kiln_kubernetes::drain::{DrainOptions, Flags};
use serde_json::json;
use tokio::process::Command;

use crate::common::{Case, Outcome, cases, phase, pod};
use crate::real::{LONG, PodState, RealCluster, bare_plane};

/// The timeout of drains that cannot succeed.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(8);

/// The number of concurrent drains: `kubectl` mostly waits.
const AT_ONCE: usize = 12;

#[derive(Debug, Clone, Copy)]
enum Tool {
    Kubectl,
    Kiln,
}

struct Table<'a> {
    plane: &'a ControlPlane,
    real: RealCluster,
}

impl Table<'_> {
    /// Creates a pod of the class on its own node, drains the node, and returns whether that succeeded and the pod's final state.
    async fn play(&self, number: usize, case: &Case, tool: Tool) -> (bool, PodState) {
        let name = format!("{tool:?}-{number}").to_ascii_lowercase();
        let real = &self.real;
        let node = real.node(&name).await;
        real.pod(pod(&case.class, "shop", &name, &name), phase(&case.class)).await;
        match case.class.as_str() {
            "other namespace's budget" => real.exhausted_budget("other", &name, &name).await,
            "exhausted budget" => real.exhausted_budget("shop", &name, &name).await,
            "two budgets" => {
                real.exhausted_budget("shop", &name, &name).await;
                real.exhausted_budget("shop", &format!("{name}-too"), &name).await;
            }
            _ => {}
        }
        let within = if case.outcome == (Outcome::Evict { remains: true }) { BLOCKED_TIMEOUT } else { LONG };
        let drained = match tool {
            Tool::Kubectl => self.kubectl(&name, case, within).await,
            Tool::Kiln => kiln(real, &node, &DrainOptions::new(case.flags, within)).await,
        };
        (drained, real.pod_state("shop", &name).await)
    }

    async fn kubectl(&self, node: &str, case: &Case, within: Duration) -> bool {
        kubectl(self.plane, node, &DrainOptions::new(case.flags, within)).await
    }
}

/// Drains a node with the real `kubectl`.
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

/// Drains a node with kiln.
async fn kiln(real: &RealCluster, node: &NodeName, options: &DrainOptions) -> bool {
    let (owner, never, quiet) = ("run-1".parse().unwrap(), std::future::pending(), &mut |_| {});
    real.cluster.cordon_and_drain(node, &owner, options, never, quiet).await.is_ok()
}

fn expected(case: &Case) -> (bool, PodState) {
    match case.outcome {
        Outcome::Evict { remains: false } => (true, PodState::Gone),
        Outcome::Evict { remains: true } if case.class == "finalizer" => (false, PodState::Terminating),
        Outcome::Evict { remains: true } | Outcome::Block => (false, PodState::Untouched),
        Outcome::Skip => (true, PodState::Untouched),
    }
}

/// Creates the `DaemonSet` of the pods that have one.
async fn agents(real: &RealCluster, namespace: &str) {
    let containers = json!([{"name": "c", "image": "example.invalid/c"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    real.create(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": namespace, "name": "agents"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_agree_on_the_whole_table() {
    let plane = bare_plane();
    let real = RealCluster::connect(plane).await;
    real.namespace("shop").await;
    real.namespace("other").await;
    agents(&real, "shop").await;
    let kubelet = real.play_kubelet("shop");
    let table = Table { plane, real };
    let cases = cases();
    let runs =
        cases.iter().enumerate().flat_map(|(number, case)| [(number, case, Tool::Kubectl), (number, case, Tool::Kiln)]);
    let differences: Vec<String> = stream::iter(runs)
        .map(|(number, case, tool)| {
            let table = &table;
            async move {
                let result = table.play(number, case, tool).await;
                (result != expected(case)).then(|| {
                    format!(
                        "{} with `{}`: {tool:?} {result:?}, the table {:?}",
                        case.class,
                        case.letters,
                        expected(case)
                    )
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

/// Whether a drain succeeded, and the final state and grace period of each pod.
type DrainResult = (bool, Vec<(PodState, Option<i64>)>);

/// Drains a node with pods of these classes.
async fn one(tool: Tool, classes: &[&str], options: &DrainOptions, kubelet: bool) -> DrainResult {
    let plane = bare_plane();
    let real = RealCluster::connect(plane).await;
    let name = unique("both");
    real.namespace(&name).await;
    agents(&real, &name).await;
    let node = real.node(&name).await;
    let pods: Vec<String> = (0..classes.len()).map(|number| format!("p{number}")).collect();
    for (class, of_class) in classes.iter().zip(&pods) {
        real.pod(pod(class, &name, of_class, &name), phase(class)).await;
        if *class == "exhausted budget" {
            real.exhausted_budget(&name, of_class, of_class).await;
        }
    }
    let kubelet = kubelet.then(|| real.play_kubelet(&name));
    let drained = match tool {
        Tool::Kubectl => kubectl(plane, &name, options).await,
        Tool::Kiln => kiln(&real, &node, options).await,
    };
    drop(kubelet);
    let mut states = Vec::new();
    for pod in &pods {
        let found = real.pods(&name).get_opt(pod).await.unwrap();
        let grace = found.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
        states.push((real.pod_state(&name, pod).await, grace));
    }
    (drained, states)
}

/// Drains two nodes with the same pods, one with each tool.
async fn both(classes: &[&str], options: &DrainOptions, kubelet: bool) -> (DrainResult, DrainResult) {
    tokio::join!(one(Tool::Kubectl, classes, options, kubelet), one(Tool::Kiln, classes, options, kubelet))
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_evict_the_same_pods_from_a_full_node() {
    let classes =
        ["replicated, emptyDir", "DaemonSet", "mirror", "unmanaged", "completed", "finalizer", "exhausted budget"];
    let flags = Flags { force: true, delete_emptydir_data: true, ignore_daemonsets: true, disable_eviction: false };
    let (kubectl, kiln) = both(&classes, &DrainOptions::new(flags, Duration::from_secs(30)), true).await;
    assert_eq!(kubectl, kiln);
    let states: Vec<PodState> = kiln.1.iter().map(|(pod_state, _)| *pod_state).collect();
    let [gone, ending, stays] = [PodState::Gone, PodState::Terminating, PodState::Untouched];
    assert_eq!((kiln.0, states), (false, vec![gone, stays, stays, gone, gone, ending, stays]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_change_nothing_when_one_pod_blocks() {
    let options = DrainOptions::new(Flags::default(), LONG);
    let (kubectl, kiln) = both(&["replicated", "unmanaged", "completed"], &options, true).await;
    assert_eq!(kubectl, kiln);
    assert_eq!(kiln, (false, vec![(PodState::Untouched, None); 3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_bypass_budgets_when_eviction_is_disabled() {
    let flags = Flags { disable_eviction: true, ..Flags::default() };
    let (kubectl, kiln) = both(&["exhausted budget", "replicated"], &DrainOptions::new(flags, LONG), true).await;
    assert_eq!(kubectl, kiln);
    assert_eq!(kiln, (true, vec![(PodState::Gone, None); 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kiln_and_kubectl_use_the_same_grace_period() {
    for (grace, given) in [(None, 5), (Some(7), 7)] {
        for disable_eviction in [false, true] {
            let flags = Flags { disable_eviction, ..Flags::default() };
            let options = DrainOptions { grace, ..DrainOptions::new(flags, Duration::from_secs(6)) };
            // Without a kubelet the pods stay terminating.
            let (kubectl, kiln) = both(&["replicated"], &options, false).await;
            assert_eq!(kubectl, kiln);
            assert_eq!(kiln, (false, vec![(PodState::Terminating, Some(given))]));
        }
    }
}
