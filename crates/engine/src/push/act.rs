//! The writes of a push.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kiln_kubernetes::NodeName;
use kiln_rollout::{Act, Decision};
use kiln_types::{ErrorClass, Factory, Revision, SecretBytes};

use super::observe::{ALLOW, CHECK, condition, in_force};
use super::record::{PushRecord, PushedNode, Stored, text};
use super::{Pusher, Reading};
use crate::Error;

/// Writes at the same time, within one wave. Azure allows 1,200 writes per hour to a subscription.
const PARALLEL: usize = 8;
/// A write of another program is over in seconds.
const ATTEMPTS: u32 = 5;
const AFTER_CONFLICT: Duration = Duration::from_secs(2);

impl<F: Factory> Pusher<'_, F> {
    /// Records a decision, then carries it out. Returns whether the last wave passed.
    pub(super) async fn act(
        &self,
        decision: &Decision,
        record: &mut PushRecord,
        stored: &mut Stored,
        reading: &mut Reading,
    ) -> Result<bool, Error> {
        record.status.clone_from(&decision.status);
        let mut started = Vec::new();
        for act in &decision.acts {
            match act {
                Act::Assign { node, desired } => {
                    let Some((object, instance)) = reading.nodes.iter().find(|(one, _)| one.name.as_str() == node)
                    else {
                        continue;
                    };
                    let earlier = record.keep(self.user_data(&instance.id).await?);
                    let pushed = PushedNode {
                        instance: instance.id.clone(),
                        vm_id: instance.vm_id.clone(),
                        desired: desired.clone(),
                        earlier,
                        condition: text(condition(object)),
                        conditions: object.conditions.iter().map(|(k, v)| (k.clone(), v.status.clone())).collect(),
                        restored: false,
                    };
                    started.push((desired.wave, node.clone()));
                    record.nodes.insert(node.clone(), pushed);
                }
                Act::RejectDigest { .. } => record.rejected = true,
                _ => {}
            }
        }
        stored.save(record).await?;
        if let Some((wave, _)) = started.first() {
            let names: Vec<&str> = started.iter().map(|(_, node)| node.as_str()).collect();
            let count = record.status.waves.len();
            self.note(format!("wave {wave} of {count}: writing user data of {}", names.join(", "))).await;
        }
        for act in &decision.acts {
            match act {
                Act::Allow { node, digest } => self.annotate(node, ALLOW, Some(digest.clone())).await?,
                Act::Release { node } => self.annotate(node, ALLOW, None).await?,
                Act::Unassign { node } => self.restore_one(node, record, stored, reading).await?,
                // A push reports changes that need a drain as failures, so `Drain` and `Reboot` are never decided. The last four
                // belong to rollouts with an image version.
                Act::Assign { .. }
                | Act::RejectDigest { .. }
                | Act::CompletePool { .. }
                | Act::Drain { .. }
                | Act::Reboot { .. }
                | Act::Grow { .. }
                | Act::Remove { .. }
                | Act::RemoveUnjoined { .. }
                | Act::RejectVersion { .. } => {}
            }
        }
        Ok(decision.acts.iter().any(|act| matches!(act, Act::CompletePool { .. })))
    }

    async fn annotate(&self, node: &str, name: &str, value: Option<String>) -> Result<(), Error> {
        let node: NodeName = node.parse()?;
        Ok(self.context.cluster.annotate(&node, &BTreeMap::from([(name, value)])).await?)
    }

    /// Writes the document to the instances of started nodes that do not have it, also after a push was killed between record and write.
    pub(super) async fn write_missing(&self, record: &PushRecord, reading: &mut Reading) -> Result<(), Error> {
        let has = |name: &str| {
            let mut nodes = reading.nodes.iter().map(|(node, _)| node).filter(|node| node.name.as_str() == name);
            nodes.next().is_none_or(|node| in_force(node).is_some_and(|(_, hash)| hash == self.digest))
        };
        let missing: Vec<(&String, &PushedNode)> = (record.nodes.iter())
            .filter(|(name, node)| !node.restored && !reading.written.contains(*name) && !has(name))
            .collect();
        let written: Vec<String> = stream::iter(missing)
            .map(|(name, node)| async move {
                self.deliver(name, node, &self.text).await?;
                Ok::<_, Error>(name.clone())
            })
            .buffered(PARALLEL)
            .try_collect()
            .await?;
        reading.written.extend(written);
        Ok(())
    }

    /// Writes user data to the instance of a node and makes the node read it.
    pub(super) async fn deliver(&self, name: &str, node: &PushedNode, user_data: &str) -> Result<(), Error> {
        let what = format!("write the user data of instance {} of `{}`", node.instance, self.pool);
        let data = SecretBytes::new(user_data);
        let mut attempts = 0;
        let is_same = loop {
            attempts += 1;
            self.lease.check().await?;
            let set = self.context.factory.set_user_data(self.pool, &node.instance, &node.vm_id, &data);
            match set.await.map_err(Error::cloud(what.as_str())) {
                Err(Error::Cloud { class: ErrorClass::Precondition, .. }) if attempts < ATTEMPTS => {
                    tokio::time::sleep(AFTER_CONFLICT).await;
                }
                // A deleted instance takes its node with it.
                Err(Error::Cloud { class: ErrorClass::NotFound, .. }) => break false,
                set => break set?,
            }
        };
        if !is_same {
            return Ok(());
        }
        // The value differs for each document and each attempt, so that kilnd notices it.
        let value =
            format!("{}-{}", kiln_types::sha256_hex(data.expose()).get(..12).unwrap_or_default(), node.desired.since);
        match self.annotate(name, CHECK, Some(value)).await {
            Err(Error::Cluster(error)) if error.is_not_found() => Ok(()),
            done => done,
        }
    }

    pub(super) async fn read_model(&self) -> Result<(SecretBytes, Revision), Error> {
        let what = format!("read the user data of `{}`", self.pool);
        self.context.factory.pool_user_data(self.pool).await.map_err(Error::cloud(what))
    }

    /// Writes the document to the model, for new instances.
    pub(super) async fn write_model(&self) -> Result<(), Error> {
        let what = format!("write the user data of `{}`", self.pool);
        let data = SecretBytes::new(self.text.as_str());
        for attempt in 1..=ATTEMPTS {
            let (current, revision) = self.read_model().await?;
            if current == data {
                return Ok(());
            }
            if attempt == 1 {
                self.note("all waves passed: writing the user data of the model, for new nodes".to_owned()).await;
            }
            self.lease.check().await?;
            let accepted = self.context.factory.set_pool_user_data(self.pool, &data, &revision).await;
            match accepted.map_err(Error::cloud(what.as_str())) {
                // Another program, such as the autoscaler, changed the scale set since it was read.
                Err(Error::Cloud { class: ErrorClass::Precondition, .. }) => tokio::time::sleep(AFTER_CONFLICT).await,
                accepted => self.context.await_operation(&what, &accepted?).await?,
            }
        }
        let source = "other programs change the scale set all the time".into();
        Err(Error::Cloud { what, class: ErrorClass::Busy, source })
    }
}
