//! Waiting until the volumes of a node are detached.

use std::time::Duration;

use kiln_kubernetes::NodeName;
use kiln_kubernetes::drain::{DrainError, Progress};
use serde_json::{Value, json};

use crate::fake::{Fake, Fault};

fn name() -> NodeName {
    "node-1".parse().unwrap()
}

fn attachment(volume: &str, node: &str) -> Value {
    json!({"metadata": {"name": format!("csi-{volume}")},
        "spec": {"attacher": "disk.csi.azure.com", "nodeName": node, "source": {"persistentVolumeName": volume}}})
}

fn node(in_use: &[&str]) -> Value {
    json!({"metadata": {"name": "node-1"}, "status": {"volumesInUse": in_use}})
}

async fn wait(fake: &Fake, seconds: u64) -> (Result<(), DrainError>, Vec<Progress>) {
    let mut progress = Vec::new();
    let within = Duration::from_secs(seconds);
    let waited = fake.cluster().wait_detached(&name(), within, &mut |event| progress.push(event)).await;
    (waited, progress)
}

#[tokio::test(start_paused = true)]
async fn node_without_volumes_is_ready_to_stop_at_once() {
    let fake = Fake::new();
    fake.put("nodes", node(&[]));
    fake.put("volumeattachments", attachment("pvc-9", "node-2"));
    let (waited, progress) = wait(&fake, 60).await;
    waited.unwrap();
    assert_eq!((progress.len(), fake.requests("GET").len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn attachments_and_mounted_volumes_are_awaited() {
    let fake = Fake::new();
    fake.put("nodes", node(&["kubernetes.io/csi/disk.csi.azure.com^/subscriptions/s/disks/pvc-2"]));
    fake.put("volumeattachments", attachment("pvc-1", "node-1"));
    let mut lists = 0;
    fake.after(move |objects, request| {
        lists += u32::from(request.path.contains("volumeattachments"));
        if lists == 3 {
            objects.remove("volumeattachments/csi-pvc-1");
        }
        if lists == 5 {
            objects.insert("nodes/node-1".to_owned(), node(&[]));
        }
    });
    let (waited, progress) = wait(&fake, 60).await;
    waited.unwrap();
    let text: Vec<String> = progress.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["waiting for volumes to be detached: pvc-1, pvc-2", "waiting for volumes to be detached: pvc-2"]);
}

#[tokio::test(start_paused = true)]
async fn volumes_that_stay_are_named_at_the_deadline() {
    let fake = Fake::new();
    fake.put("volumeattachments", attachment("pvc-1", "node-1"));
    let (waited, _) = wait(&fake, 60).await;
    assert_eq!(waited.unwrap_err().to_string(), "node `node-1` still has volumes attached after 60 s: pvc-1");
}

#[tokio::test(start_paused = true)]
async fn outage_of_the_server_is_waited_out() {
    let fake = Fake::new();
    fake.put("nodes", node(&[]));
    fake.fault("GET /apis/storage.k8s.io", [Fault::Reset, Fault::Reset]);
    wait(&fake, 60).await.0.unwrap();
}
