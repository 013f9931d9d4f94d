//! The node of a canary is cordoned before any pod can be scheduled onto it.

use std::time::Duration;

use kiln_kubernetes::{Error, NodeHold, NodeName, Owner};
use serde_json::json;

use crate::fake::{Fake, Fault};

fn names() -> (NodeName, Owner) {
    ("canary".parse().unwrap(), "run-1".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn node_is_cordoned_as_soon_as_it_registers() {
    let fake = Fake::new();
    let (name, owner) = names();
    let server = fake.clone();
    let joins = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(90)).await;
        server.put("nodes", json!({"metadata": {"name": "canary"}, "spec": {}}));
    });
    fake.fault("GET", [Fault::Reset, Fault::Hang]);
    let seen = fake.cluster().cordon_on_registration(&name, &owner, Duration::from_mins(5)).await.unwrap();
    assert!(seen.cordoned && NodeHold::read(&seen).unwrap().unwrap().owner == owner);
    let patched = &fake.requests("PATCH")[0];
    assert!(patched.at < Duration::from_secs(92), "{:?}", patched.at);
    joins.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_never_registers_is_reported() {
    let (name, owner) = names();
    let error = Fake::new().cluster().cordon_on_registration(&name, &owner, Duration::from_mins(5)).await.unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error:?}");
    assert_eq!(error.to_string(), "node `canary` is not ready after 300 s: it has not registered");
}
