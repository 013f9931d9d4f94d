//! Release: brings a node back whose run no longer exists.
//!
//! An open run releases its own holds when it is resumed. Without its journal no run does, and the node stays cordoned or stopped.

use std::fmt;
use std::time::Duration;

use kiln_kubernetes::{HoldScope, NodeHold, ReadyWhen};
use kiln_types::{Factory, Node, NodeName, PoolName, PowerState, Protection};
use serde::Serialize;

use crate::run::{InstanceRef, PoolSession};
use crate::{Context, Error};

/// How long a started node may take to become Ready. kamino's nodes took three and a half minutes.
const READY_WITHIN: Duration = Duration::from_mins(15);

/// The result of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReport {
    pub node: NodeName,
    pub pool: PoolName,
    /// The run or the refresh that held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub released: Vec<String>,
    /// Things that a person should check.
    pub notes: Vec<String>,
}

/// Releases the hold of a run that no longer exists on a node.
pub async fn release<F: Factory>(context: &Context<F>, name: &NodeName) -> Result<ReleaseReport, Error> {
    let node = context.cluster.node(name).await?;
    let donor = InstanceRef::of(&node)?;
    let session = PoolSession::new(context, &donor.pool);
    session.with_lease(Box::pin(release_held(context, name, &donor))).await
}

async fn release_held<F: Factory>(
    context: &Context<F>,
    name: &NodeName,
    donor: &InstanceRef,
) -> Result<ReleaseReport, Error> {
    let InstanceRef { pool, instance } = donor;
    let node: Node = context.cluster.node(name).await?;
    let mut report =
        ReleaseReport { node: name.clone(), pool: pool.clone(), owner: None, released: Vec::new(), notes: Vec::new() };
    let Some(NodeHold { owner, .. }) = NodeHold::read(&node)? else { return Ok(report) };
    let runs = context.runs(pool).await?;
    let run = runs.iter().find(|run| run.id.as_str() == owner.as_str());
    if run.is_some_and(|run| run.closed.is_none()) {
        return Err(Error::HeldByOpenRun { node: name.clone(), run: owner.to_string() });
    }
    report.owner = Some(owner.to_string());
    let what = format!("read instance {instance} of `{pool}`");
    let machine = context.factory.describe_instance(pool, instance).await.map_err(Error::cloud(what))?;
    if matches!(machine.power, PowerState::Stopped | PowerState::Deallocated) {
        start(context, donor, name).await?;
        report.released.push("started the machine".to_owned());
    }
    match run.and_then(kiln_prototype::journal::Run::protection_before) {
        Some(before) if before != machine.protection => {
            restore_protection(context, donor, before).await?;
            report.released.push("restored the instance's protection".to_owned());
        }
        None if machine.protection != Protection::default() => report.notes.push(format!(
            "instance {instance} of `{pool}` is protected; whether kiln or a person did that is not known, so it stays protected"
        )),
        _ => {}
    }
    context.cluster.release(name, &owner, HoldScope::ALL).await?;
    report.released.push("restored the node's cordon and annotations".to_owned());
    Ok(report)
}

async fn start<F: Factory>(context: &Context<F>, donor: &InstanceRef, name: &NodeName) -> Result<(), Error> {
    let what = format!("start instance {} of `{}`", donor.instance, donor.pool);
    let handle = context.factory.start(&donor.pool, &donor.instance).await.map_err(Error::cloud(what.clone()))?;
    context.await_operation(&what, &handle).await?;
    context.cluster.wait_ready(name, &ReadyWhen::Now, READY_WITHIN).await?;
    Ok(())
}

async fn restore_protection<F: Factory>(
    context: &Context<F>,
    donor: &InstanceRef,
    before: Protection,
) -> Result<(), Error> {
    let InstanceRef { pool, instance } = donor;
    // A start changes the revision of the instance.
    let what = format!("read instance {instance} of `{pool}`");
    let current = context.factory.describe_instance(pool, instance).await.map_err(Error::cloud(what))?;
    let what = format!("restore the protection of instance {instance} of `{pool}`");
    context.factory.set_protection(pool, &current, before).await.map_err(Error::cloud(what))?;
    Ok(())
}

impl fmt::Display for ReleaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, owner, released, notes, .. } = self;
        let Some(owner) = owner else { return writeln!(f, "node `{node}` is not held by kiln; nothing was changed") };
        writeln!(f, "node `{node}` was held by {owner}")?;
        released.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
