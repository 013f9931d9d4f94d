//! Waiting for a node to be ready.

use std::time::Duration;

use kiln_kubernetes::{Error, NodeName, ReadyWhen};
use serde_json::{Value, json};

use crate::fake::{Fake, Fault};

fn name() -> NodeName {
    "node-1".parse().unwrap()
}

fn node(status: &str, reason: &str, boot: &str) -> Value {
    json!({
        "metadata": {"name": "node-1"},
        "status": {
            "conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "message of the kubelet"}],
            "nodeInfo": {"bootID": boot, "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""},
        },
    })
}

async fn wait(fake: &Fake, when: &ReadyWhen, seconds: u64) -> Result<(), Error> {
    fake.cluster().wait_ready(&name(), when, Duration::from_secs(seconds)).await.map(|_| ())
}

/// Makes the node ready after this many requests.
fn ready_after(fake: &Fake, requests: usize, boot: &'static str) {
    let mut count = 0;
    fake.after(move |objects, _| {
        count += 1;
        if count >= requests {
            let mut ready = node("True", "KubeletReady", boot);
            ready["metadata"]["resourceVersion"] = json!("99");
            objects.insert("nodes/node-1".to_owned(), ready);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn watch_sees_the_node_become_ready() {
    let fake = Fake::new();
    fake.put("nodes", node("False", "KubeletNotReady", "b1"));
    ready_after(&fake, 2, "b1");
    wait(&fake, &ReadyWhen::Now, 60).await.unwrap();
    assert!(!fake.requests("watch=true").is_empty());
}

#[tokio::test(start_paused = true)]
async fn timeout_reports_the_last_condition() {
    let fake = Fake::new();
    fake.put("nodes", node("Unknown", "NodeStatusUnknown", "b1"));
    let error = wait(&fake, &ReadyWhen::Now, 60).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "node `node-1` is not ready after 60 s: condition Ready is Unknown: NodeStatusUnknown: message of the kubelet"
    );
    let error = wait(&Fake::new(), &ReadyWhen::Now, 60).await.unwrap_err();
    assert_eq!(error.to_string(), "node `node-1` is not ready after 60 s: there is no such node");
}

#[tokio::test(start_paused = true)]
async fn stale_condition_of_a_stopped_machine_is_not_ready() {
    let fake = Fake::new();
    fake.put("nodes", node("True", "KubeletReady", "b1"));
    let since = ReadyWhen::BootedSince("b1".to_owned());
    let error = wait(&fake, &since, 60).await.unwrap_err();
    assert!(error.to_string().contains("has not reported since the machine was restarted"), "{error}");
    ready_after(&fake, 5, "b2");
    wait(&fake, &since, 60).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_registers_later_is_waited_for() {
    let fake = Fake::new();
    ready_after(&fake, 4, "b1");
    wait(&fake, &ReadyWhen::Now, 60).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn broken_or_expired_watch_is_restarted() {
    let fake = Fake::new();
    fake.put("nodes", node("False", "KubeletNotReady", "b1"));
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}});
    fake.fault(
        "watch=true",
        [Fault::Reset, Fault::Hang, Fault::Respond(200, gone), Fault::Respond(503, json!("starting"))],
    );
    fake.fault("GET /api/v1/nodes/node-1", [Fault::Reset]);
    ready_after(&fake, 7, "b1");
    wait(&fake, &ReadyWhen::Now, 600).await.unwrap();
    assert!(fake.requests("watch=true").len() >= 4);
}

#[tokio::test(start_paused = true)]
async fn missing_permission_fails_at_once() {
    let fake = Fake::new();
    fake.put("nodes", node("False", "KubeletNotReady", "b1"));
    let forbidden =
        json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "forbidden"});
    fake.fault("watch=true", [Fault::Respond(403, forbidden)]);
    let error = wait(&fake, &ReadyWhen::Now, 600).await.unwrap_err();
    assert_eq!(error.to_string(), "watch node `node-1`: 403 forbidden");
}
