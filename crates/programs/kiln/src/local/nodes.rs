//! `kiln local nodes`: the node controller of a cloud. It sets the provider id of nodes, and deletes nodes whose machine was deleted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Node;
use kiln_local::ids;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;

use super::factory::{Local, State, failed};
use crate::failure::{Failure, chain};
use crate::prototype::connect::{self, Now};
use crate::stop::Stop;

/// Poll interval. Local machines start in seconds, and listing a few dozen nodes is cheap.
const PERIOD: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "Example:
  kiln local nodes --kubeconfig admin.kubeconfig &

`kiln prototype` finds the machine of a node by the node's provider id, which the controller of a cloud sets. Stop it with Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Nodes {
    #[command(flatten)]
    state: State,
    /// Kubeconfig of the cluster [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub(crate) async fn run(Nodes { state, kubeconfig }: &Nodes, now: &Now) -> Result<(), Failure> {
    let stop = Stop::new()?;
    let local = state.open(now)?;
    let config = connect::config_of(kubeconfig.as_deref(), None).await?;
    let client = kiln_kubernetes::connect(config).map_err(|error| Failure::chain(2, &error))?;
    let reconciling = async {
        loop {
            // The API server may be unavailable for a while.
            if let Err(error) = reconcile(&local, &client).await {
                eprintln!("warning: {}", error.message);
            }
            tokio::time::sleep(PERIOD).await;
        }
    };
    tokio::select! {
        () = reconciling => {}
        () = stop.received() => {}
    }
    Ok(())
}

async fn reconcile(local: &Local, client: &Client) -> Result<(), Failure> {
    let machines = local.machines().await.map_err(|error| failed(&error))?;
    let by_node: BTreeMap<&str, String> =
        machines.iter().map(|machine| (machine.computer_name.as_str(), ids::provider_id(&machine.name))).collect();
    let api: Api<Node> = Api::all(client.clone());
    // The prefix of the provider ids of local machines.
    let local_prefix = ids::provider_id(&"any".parse().map_err(Failure::failed)?).replace("/virtualMachines/any", "/");
    let refused = |error: kube::Error| Failure::failed(chain(&error));
    for node in api.list(&ListParams::default()).await.map_err(refused)? {
        let (Some(name), spec) = (node.metadata.name.as_deref(), node.spec.unwrap_or_default()) else { continue };
        match (by_node.get(name), spec.provider_id) {
            (Some(machine), None) => {
                let patch = json!({"spec": {"providerID": machine}});
                api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map_err(refused)?;
            }
            (None, Some(machine)) if machine.starts_with(&local_prefix) => {
                let one = Preconditions { uid: node.metadata.uid.clone(), resource_version: None };
                match api.delete(name, &DeleteParams::default().preconditions(one)).await {
                    Err(error) if !is_gone(&error) => return Err(refused(error)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Another client deleted or replaced the node.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
