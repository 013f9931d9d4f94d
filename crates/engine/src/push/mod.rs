//! Push: delivers a NodeConfig by user data, in the waves that [`kiln_rollout::next`] decides, to nodes that follow no NodeState.
//!
//! ```text
//! lease        the pool's, as for a run and a refresh
//!   check      check.rs    refuses before anything is written
//!   observe    observe.rs  Nodes with kilnd's annotations and condition, as a rollout sees them
//!   decide     kiln_rollout::next    pure
//!   record     record.rs   what was assigned, and what each node had before: written before the acts
//!   act        act.rs      user data of instances; at last of the model
//!   restore    restore.rs after a failure: the earlier user data, newest node first
//! ```
//!
//! New instances get the user data of the model, so the model is written only after the last wave passed.

mod act;
mod check;
mod observe;
mod plan;
mod record;
mod report;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kiln_fleet_api::{OnFailure, Replacement, RolloutPhase, RolloutSpec, WaitReason};
use kiln_kubernetes::PoolLease;
use kiln_node_config::NodeConfig;
use kiln_rollout::{Decision, Policy, Rollout, next};
use kiln_types::{Factory, Instance, Node, PoolName, UpgradeMode};
use tokio::time::Instant;

pub use check::PushRefusal;
pub use report::{PushOutcome, PushReport, PushRequest};

use crate::event::RunEventKind;
use crate::run::LEASE;
use crate::{Context, Error};
use record::{PushRecord, Stored};

/// How long a decision may be old, even if no node changes.
const DECIDE_AGAIN: Duration = Duration::from_secs(30);
/// Azure allows about 900 lists of instances in 30 minutes to all clients of a subscription.
const LIST_AGAIN: Duration = Duration::from_secs(30);

/// Delivers a document to the nodes of a pool.
pub async fn push<F: Factory>(context: &Context<F>, request: &PushRequest) -> Result<PushReport, Error> {
    let text = request.document.to_json();
    check::check_request(&request.policy, &text)?;
    let policy = Policy::parse(&request.policy).map_err(PushRefusal::from)?;
    let read = context.one_pool(Some(&request.pool)).await?;
    let pool = read.name;
    // The model is changed at the end. Other changes of it, such as an image, must not reach running instances with that.
    if read.upgrade_mode != UpgradeMode::Manual {
        return Err(PushRefusal::UpgradePolicy(pool.to_string()).into());
    }
    let owner = context.new_owner();
    let lease = PoolLease::new(&context.cluster, &context.namespace, &pool, owner.clone(), LEASE);
    let digest = request.document.hash();
    let spec = RolloutSpec {
        pools: vec![pool.to_string()],
        target: kiln_fleet_api::Target::document(name(&request.document), Some(digest.clone())),
        replacement: Replacement::Never,
        // The push restores the earlier user data of each instance itself.
        on_failure: OnFailure::Halt,
        ..RolloutSpec::default()
    };
    let pusher = Pusher {
        context,
        pool: &pool,
        document: &request.document,
        text,
        name: format!("push-{}", digest.get(..12).unwrap_or(&digest)),
        digest,
        spec,
        policy: &policy,
        lease: &lease,
    };
    if request.dry_run {
        let stored = Stored::load(context, &pool, owner).await?;
        return pusher.preview(&stored).await;
    }
    match lease.acquire(LEASE + LEASE / 4).await {
        Ok(_) => {}
        Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => return Err(Error::Busy { pool, by }),
        Err(error) => return Err(error.into()),
    }
    let work = async {
        let stored = Stored::load(context, &pool, owner).await?;
        pusher.run(stored).await
    };
    let done = tokio::select! {
        lost = lease.keep_renewing() => Err(lost.into()),
        done = Box::pin(work) => done,
    };
    if let Err(error) = lease.release().await {
        pusher.note(format!("the pool's lease could not be given up and will expire: {error}")).await;
    }
    done
}

fn name(document: &NodeConfig) -> String {
    let name = &document.metadata.name;
    if name.is_empty() { "node-config".to_owned() } else { name.clone() }
}

/// A push with everything that does not change.
struct Pusher<'a, F> {
    context: &'a Context<F>,
    pool: &'a PoolName,
    document: &'a NodeConfig,
    /// The document, as user data has it.
    text: String,
    digest: String,
    /// The name of the push in decisions.
    name: String,
    spec: RolloutSpec,
    policy: &'a Policy,
    lease: &'a PoolLease,
}

/// The last reading of the pool.
struct Reading {
    instances: Vec<Instance>,
    listed: Instant,
    /// The nodes of the pool with their instances.
    nodes: Vec<(Node, Instance)>,
    /// All nodes with a provider ID of the pool, to notice a change.
    seen: Vec<Node>,
    /// Effects on nodes whose document is known.
    effects: BTreeMap<String, kiln_node_config::Effect>,
    /// Nodes whose instance has the document, as far as this process knows.
    written: BTreeSet<String>,
}

impl<F: Factory> Pusher<'_, F> {
    async fn note(&self, text: String) {
        self.context.emit(self.pool, None, RunEventKind::Note(text)).await;
    }

    fn decide(&self, record: &PushRecord, observed: &kiln_rollout::Observed, now: Timestamp) -> Decision {
        let rollout = Rollout {
            name: &self.name,
            generation: None,
            spec: &self.spec,
            status: &record.status,
            policy: self.policy,
        };
        next(&rollout, observed, now)
    }

    async fn run(&self, mut stored: Stored) -> Result<PushReport, Error> {
        let mut record = self.begin(&stored)?;
        let mut reading = self.read().await?;
        if !record.status.phase.is_final() {
            self.check(&mut reading).await?;
        }
        if record.status.phase != RolloutPhase::Pending {
            self.note(format!("continuing the push of generation {}", record.generation)).await;
        }
        let mut awaited = String::new();
        while !record.status.phase.is_final() {
            if self.context.stop.is_requested() {
                return Err(Error::Stopped("repeat the command to continue the push".to_owned()));
            }
            self.refresh(&mut reading).await?;
            let now = self.context.now();
            let observed = self.observed(&record, &reading, now).await?;
            let decision = self.decide(&record, &observed, now);
            for notice in &decision.notices {
                self.note(notice.message.clone()).await;
            }
            let is_complete = self.act(&decision, &mut record, &mut stored, &mut reading).await?;
            if is_complete {
                record.status.phase = RolloutPhase::Complete;
                break;
            }
            self.write_missing(&record, &mut reading).await?;
            if !decision.acts.is_empty() || record.status.phase.is_final() {
                continue;
            }
            if let Some(wait) = &record.status.waiting_for {
                if matches!(wait.reason, WaitReason::Reference | WaitReason::Replacement | WaitReason::NoNodes) {
                    return Err(PushRefusal::Stalled(wait.message.clone()).into());
                }
                if wait.message != awaited {
                    self.note(format!("waiting: {}", wait.message)).await;
                    awaited.clone_from(&wait.message);
                }
            }
            self.wait(&reading, decision.wake, now).await?;
        }
        self.finish(record, stored, reading).await
    }

    /// Writes the model after the last wave, or restores what was written after a failure.
    async fn finish(
        &self,
        mut record: PushRecord,
        mut stored: Stored,
        mut reading: Reading,
    ) -> Result<PushReport, Error> {
        let (outcome, left) = if record.status.phase == RolloutPhase::Complete {
            self.write_model().await?;
            self.refresh(&mut reading).await?;
            (PushOutcome::Complete, self.without_document(&reading))
        } else {
            (PushOutcome::Reverted, self.restore(&mut record, &mut stored, &mut reading).await?)
        };
        record.ended = Some(outcome);
        stored.save(&record).await?;
        Ok(self.report(outcome, &record, &reading, left))
    }

    /// The record to continue, or a new one.
    fn begin(&self, stored: &Stored) -> Result<PushRecord, PushRefusal> {
        match stored.last() {
            Some(last) if last.ended.is_none() && last.digest == self.digest => Ok(last.clone()),
            Some(last) if last.ended.is_none() => Err(PushRefusal::Interrupted {
                generation: last.generation,
                digest: last.digest.get(..12).unwrap_or(&last.digest).to_owned(),
                place: stored.place(),
            }),
            _ => Ok(PushRecord {
                digest: self.digest.clone(),
                generation: self.document.metadata.generation,
                who: self.context.who.clone(),
                ..PushRecord::default()
            }),
        }
    }

    /// Waits for a change of the nodes, a request to stop, or the next decision.
    async fn wait(&self, reading: &Reading, wake: Option<Timestamp>, now: Timestamp) -> Result<(), Error> {
        let until = wake.and_then(|wake| Duration::try_from(wake.duration_since(now)).ok());
        let within = until.unwrap_or(DECIDE_AGAIN).min(DECIDE_AGAIN);
        tokio::select! {
            changed = self.context.cluster.wait_for_node_report(self.pool, &reading.seen, within) => Ok(changed?),
            () = self.context.stop.requested() => Ok(()),
        }
    }

    fn report(
        &self,
        outcome: PushOutcome,
        record: &PushRecord,
        reading: &Reading,
        left: Vec<kiln_fleet_api::NodeFailure>,
    ) -> PushReport {
        let has = |node: &Node| observe::is_committed(node, &self.digest);
        let updated = reading.nodes.iter().map(|(node, _)| node).filter(|node| has(node));
        PushReport {
            pool: self.pool.clone(),
            generation: self.document.metadata.generation,
            digest: self.digest.clone(),
            outcome,
            waves: record.status.waves.iter().map(|wave| wave.size).collect(),
            updated: updated.map(|node| node.name.to_string()).collect(),
            failed: record.status.failures.clone(),
            left,
        }
    }
}
