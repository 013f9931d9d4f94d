//! Acting: one request to the cloud or the cluster, recorded before and after.

use std::time::Duration;

use kiln_kubernetes::drain::DrainError;
use kiln_kubernetes::{EventKind, HoldScope, NodeEvent, OriginalRecipe, OriginalStore, VersionRecords};
use kiln_prototype::action::Action;
use kiln_prototype::decide::event_after_action;
use kiln_prototype::diff::VersionFacts;
use kiln_prototype::journal::{Memo, StepFailure};
use kiln_prototype::run::Header;
use kiln_prototype::step::Step;
use kiln_types::{
    Canary, ErrorClass, Factory, FactoryError, JoinMode, OperationHandle, Protection, SavedExtension, Secret,
    VersionNumber,
};

use super::Runner;
use super::preflight::canary_secrets;
use crate::drain::Drain;
use crate::error::{Error, cloud_failure, cluster_failure};
use crate::event::RunEventKind;

/// How much of the lease must be left when a request without a precondition is sent, and another process must not act in that time.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

pub(super) type Acted = Result<Option<OperationHandle>, StepFailure>;

impl<F: Factory> Runner<'_, F> {
    /// Checks the lease, records that the step starts, acts, and records the result.
    pub(super) async fn act(&mut self, step: Step, action: Action, memo: Option<Memo>) -> Result<(), Error> {
        self.lease.check().await.map_err(|error| self.interrupted(error))?;
        if !self.start(step, memo).await? {
            return Ok(());
        }
        let holds = self.run.holds();
        self.emit(RunEventKind::Starting { step, holds }).await;
        if let Action::LiveSnapshot(request) = &action {
            let event = Box::pin(self.live_snapshot(request)).await;
            self.emit(RunEventKind::Acted { step }).await;
            self.observed.forget(&action);
            return self.record(event).await;
        }
        if let Action::PowerOff(_) = action {
            self.store_facts().await;
            if let Err(failure) = self.prepare_stop().await {
                self.emit(RunEventKind::Acted { step }).await;
                return self.fail(step, failure).await;
            }
        }
        if let Action::PowerOff(_) | Action::Start = action {
            // Azure has no precondition for these, and inspecting the donor takes a while.
            self.lease.confirm(LEASE_MARGIN).await.map_err(|error| self.interrupted(error))?;
        }
        let acted = Box::pin(self.perform(&action)).await;
        self.emit(RunEventKind::Acted { step }).await;
        self.observed.forget(&action);
        match acted.map(|handle| event_after_action(step, handle)) {
            Ok(Some(event)) => self.record(event).await,
            // The next decision reads the effect back.
            Ok(None) => Ok(()),
            Err(failure) => self.fail(step, failure).await,
        }
    }

    async fn perform(&mut self, action: &Action) -> Acted {
        let factory = self.context.factory.clone();
        let factory = factory.as_ref();
        let header = self.run.header.clone();
        let (pool, donor, definition) = (&header.pool, &header.donor.instance, &header.definition.name);
        match action {
            Action::TagPool { pool, tags } => accepted(factory.tag_pool(pool, tags).await),
            Action::SaveRecipe => self.save_recipe().await,
            Action::CreateGallery(gallery) => accepted(factory.create_gallery(gallery).await),
            Action::CreateDefinition(definition) => accepted(factory.create_definition(definition).await),
            Action::DeleteVersion(number) => {
                let handle = accepted(factory.delete_version(definition, number).await)?;
                self.delete_facts(number).await;
                Ok(handle)
            }
            Action::HoldNode => self.hold_node().await,
            Action::ReleaseNode => {
                let released = self.context.cluster.release(&self.node, &self.owner, HoldScope::ALL).await;
                released.map(|()| None).map_err(|error| cluster_failure(&error))
            }
            Action::SetProtection { instance, protection } => factory
                .set_protection(pool, instance, *protection)
                .await
                .map(|()| None)
                .map_err(|error| cloud_failure(&error)),
            Action::RestoreProtection(protection) => self.restore_protection(*protection).await,
            Action::Drain => self.drain(false).await,
            Action::InstallFirstBoot => self.install_first_boot().await,
            Action::PowerOff(how) => accepted(factory.power_off(pool, donor, *how).await),
            Action::Start => accepted(factory.start(pool, donor).await),
            Action::Thaw => self.thaw().await,
            // A live snapshot is created by `live_snapshot`, with more around it.
            Action::Snapshot(request) | Action::LiveSnapshot(request) => {
                accepted(factory.snapshot_os_disk(request).await)
            }
            Action::DeleteSnapshot => accepted(factory.delete_snapshot(&header.snapshot).await),
            Action::Publish(publication) => accepted(factory.publish(publication).await),
            Action::CreateCanary(canary) => self.create_canary(canary).await,
            Action::RunSmokeTest => self.run_smoke_test().await,
            Action::DeleteCanary => {
                if header.options.smoke_test.is_some() {
                    let deleted = self.context.cluster.delete_smoke_test(&self.context.namespace, &header.canary).await;
                    deleted.map_err(|error| cluster_failure(&error))?;
                }
                if self.created_canary {
                    accepted(factory.delete_own_canary(&header.canary).await)
                } else {
                    accepted(factory.delete_canary(&header.canary).await)
                }
            }
            Action::TagDefinition { definition, tags } => accepted(factory.tag_definition(definition, tags).await),
            Action::Include(number) => accepted(factory.set_excluded(definition, number, false).await),
            Action::SetRecipe { change, revision } => accepted(factory.set_recipe(pool, change, revision).await),
            Action::RemoveExtension(name) => accepted(factory.remove_extension(pool, name).await),
            Action::AddInstances { pool, more } => accepted(factory.add_instances(pool, *more).await),
        }
    }

    /// Creates the canary. The secrets that it joins with are read now, so that a rotated token is the current one.
    async fn create_canary(&mut self, canary: &Canary) -> Acted {
        let mut canary = canary.clone();
        canary.custom_data = self.canary_custom_data().await?;
        if canary.bootstrap.is_some() {
            let read = canary_secrets(self.context, &self.run.header.options).await.map_err(|error| match error {
                Error::Cluster(error) => cluster_failure(&error),
                error => StepFailure::new(ErrorClass::Unexpected, error.to_string()),
            })?;
            canary.bootstrap = Some(read.map_err(|missing| StepFailure::new(ErrorClass::Refused, missing))?);
        }
        let created = accepted(self.context.factory.create_canary(&canary).await);
        self.created_canary |= created.is_ok();
        created
    }

    /// Creates the pod that tests the canary, on its node.
    async fn run_smoke_test(&mut self) -> Acted {
        let Header { canary, options, .. } = &self.run.header;
        let Some(node) = self.cordon_canary().await? else {
            return Err(StepFailure::new(ErrorClass::NotFound, format!("the node of `{canary}` no longer exists")));
        };
        let manifest = options.smoke_test.as_deref().unwrap_or_default();
        let cluster = &self.context.cluster;
        let created =
            cluster.create_smoke_test(&self.context.namespace, canary, &node.name, &self.owner, manifest).await;
        created.map(|()| None).map_err(|error| cluster_failure(&error))
    }

    async fn hold_node(&mut self) -> Acted {
        let (scope, what) = if self.run.header.options.live {
            (HoldScope::AUTOSCALER, "it keeps running, and its file systems are frozen for a few seconds")
        } else {
            (HoldScope::ALL, "it is cordoned, drained and stopped for a few minutes")
        };
        let held = self.context.cluster.hold(&self.node, &self.owner, scope).await;
        let node = held.map_err(|error| cluster_failure(&error))?;
        let text = format!("run {} copies this node's disk: {what}", self.run.id);
        let event = NodeEvent { kind: EventKind::Normal, action: "Hold", reason: "Prototype", note: text };
        // The event is only informative.
        let _ = self.context.cluster.record_event(&node, &self.owner, &event).await;
        Ok(None)
    }

    async fn restore_protection(&mut self, protection: Protection) -> Acted {
        let Header { pool, donor, .. } = &self.run.header;
        let restored = self.context.factory.restore_protection(pool, &donor.instance, &donor.vm_id, protection).await;
        if restored.map_err(|error| cloud_failure(&error))? {
            return Ok(None);
        }
        let message = format!("instance {} is no longer the donor but a different machine", donor.instance);
        Err(StepFailure::new(ErrorClass::NotFound, message))
    }

    async fn drain(&mut self, again: bool) -> Acted {
        let Header { pool, options, .. } = &self.run.header;
        let drain = Drain { pool, run: Some(&self.run.id), node: &self.node, again };
        let drained = self.context.drain(&drain, options.grace_seconds, options.force).await;
        drained.map(|()| None).map_err(|error| drain_failure(&error))
    }

    /// Waits until the donor can be stopped: the load balancers had time to take it out, no pod is left, and its volumes are detached.
    ///
    /// The pods are listed again because a scheduler that had not seen the cordon yet may have bound one after the drain.
    async fn prepare_stop(&mut self) -> Result<(), StepFailure> {
        let held = self.run.step(Step::HoldNode).and_then(|progress| progress.done.as_ref());
        let held = held.map_or(self.run.header.started, |(at, _)| *at);
        self.context.wait_for_balancers(held).await.map_err(|error| cluster_failure(&error))?;
        self.drain(true).await?;
        let drain = Drain { pool: &self.run.header.pool, run: Some(&self.run.id), node: &self.node, again: true };
        self.context.wait_detached(&drain).await.map_err(|error| drain_failure(&error))
    }

    async fn install_first_boot(&mut self) -> Acted {
        let Some(node) = self.read_node(&self.node).await? else {
            return Err(StepFailure::new(ErrorClass::NotFound, format!("node `{}` no longer exists", self.node)));
        };
        let installed = self.context.inspector.install_first_boot(&node, &self.owner).await;
        installed.map(|()| None).map_err(|error| cluster_failure(&error))
    }

    /// Saves the pool's recipe. The preflight check made sure that the custom data can be read or that the user accepted its loss.
    async fn save_recipe(&mut self) -> Acted {
        let pool = self.run.header.pool.clone();
        let read = match self.observed.pool.clone() {
            Some(read) => read,
            None => self.context.factory.describe_pool(&pool).await.map_err(|error| cloud_failure(&error))?,
        };
        let inspection = self.inspected().await?;
        let custom_data = inspection.custom_data.bytes().and_then(|bytes| std::str::from_utf8(bytes.expose()).ok());
        // A recipe that clones run stays in the model. Restoring the donor's copy of it would restore an old token.
        let custom_data = custom_data.filter(|_| self.run.header.join == JoinMode::Certificate);
        let recipe = OriginalRecipe {
            image: read.recipe.image,
            custom_data: custom_data.map(Secret::new),
            extensions: read
                .recipe
                .extensions
                .into_iter()
                .map(|extension| SavedExtension { extension, protected_settings: None })
                .collect(),
            saved_by: self.owner.clone(),
        };
        let store = OriginalStore::new(&self.context.cluster, &self.context.namespace, &pool);
        store.save(&recipe).await.map(|_| None).map_err(|error| cluster_failure(&error))
    }

    /// The donor's custom data for the canary of a pool that has its NodeConfig in it. The cloud does not return it.
    async fn canary_custom_data(&mut self) -> Result<Option<Secret>, StepFailure> {
        if !self.run.header.keeps_custom_data {
            return Ok(None);
        }
        let inspection = self.inspected().await?;
        let text = inspection.custom_data.bytes().and_then(|bytes| std::str::from_utf8(bytes.expose()).ok());
        let missing = || {
            let message = format!("cannot read the NodeConfig in the custom data of node `{}` again", self.node);
            StepFailure::new(ErrorClass::NotFound, message)
        };
        text.map(|text| Some(Secret::new(text))).ok_or_else(missing)
    }

    /// Stores the contents of the version to be created, while the donor can still be inspected. If that fails, only `prototype diff` is
    /// affected.
    pub(super) async fn store_facts(&mut self) {
        let version = self.run.header.version.clone();
        let stored = match self.inspected().await {
            Ok(inspection) => {
                let facts = VersionFacts::new(version.clone(), &inspection);
                self.facts().put(&version, &facts).await.map_err(|error| cluster_failure(&error))
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = stored {
            self.note(format!("the contents of version {version} are not stored: {failure}")).await;
        }
    }

    async fn delete_facts(&mut self, version: &VersionNumber) {
        if let Err(error) = self.facts().delete(version).await {
            self.note(format!("the stored contents of version {version} could not be deleted: {error}")).await;
        }
    }

    fn facts(&self) -> VersionRecords<VersionFacts> {
        VersionRecords::new(&self.context.cluster, &self.context.namespace, &self.run.header.pool)
    }
}

/// A failed drain is not retried: it has waited long enough itself, and its message names the pods.
fn drain_failure(error: &DrainError) -> StepFailure {
    match error {
        DrainError::Cluster(error) => cluster_failure(error),
        error => StepFailure { class: ErrorClass::Refused, message: error.to_string() },
    }
}

fn accepted<E: FactoryError>(result: Result<OperationHandle, E>) -> Acted {
    result.map(Some).map_err(|error| cloud_failure(&error))
}
