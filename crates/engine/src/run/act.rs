//! Acting: one request to the cloud or the cluster, recorded before and after.

use std::num::NonZeroU32;
use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags};
use kiln_kubernetes::{EventKind, HoldScope, NodeEvent, OriginalRecipe, OriginalStore, VersionRecords};
use kiln_prototype::action::Action;
use kiln_prototype::decide::event_after_action;
use kiln_prototype::diff::VersionFacts;
use kiln_prototype::journal::{Event, Memo, StepFailure};
use kiln_prototype::step::Step;
use kiln_types::{
    Canary, ErrorClass, Factory, FactoryError, JoinMode, OperationHandle, SavedExtension, Secret, VersionNumber,
};
use tokio::sync::mpsc::unbounded_channel;

use super::Runner;
use super::preflight::canary_secrets;
use crate::error::{Error, cloud_failure, cluster_failure};
use crate::event::RunEventKind;

/// As in kamino, a drain may take three times the grace period of a pod.
pub(crate) const GRACES_PER_DRAIN: u32 = 3;

/// Even without a grace period an eviction needs time to be answered.
pub(crate) const MIN_DRAIN: Duration = Duration::from_mins(1);

/// A pod without a grace period is gone as soon as its kubelet notices, unless a finalizer keeps it.
pub(crate) const FORCED_WITHIN: Duration = Duration::from_mins(1);

pub(super) type Acted = Result<Option<OperationHandle>, StepFailure>;

impl<F: Factory> Runner<'_, F> {
    /// Checks the lease, records that the step starts, acts, and records the result.
    pub(super) async fn act(&mut self, step: Step, action: Action, memo: Option<Memo>) -> Result<(), Error> {
        self.lease.check().await.map_err(|error| self.interrupted(error))?;
        self.record(Event::Started { step, memo }).await?;
        let holds = self.run.holds();
        self.emit(RunEventKind::Starting { step, holds }).await;
        if let Action::LiveSnapshot(request) = &action {
            let event = Box::pin(self.live_snapshot(request)).await;
            self.emit(RunEventKind::Acted { step }).await;
            self.observed.forget(&action);
            return self.record(event).await;
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
                .map(|_| None)
                .map_err(|error| cloud_failure(&error)),
            Action::Drain => self.drain().await,
            Action::InstallFirstBoot => self.install_first_boot().await,
            Action::PowerOff(how) => {
                self.store_facts().await;
                accepted(factory.power_off(pool, donor, *how).await)
            }
            Action::Start => accepted(factory.start(pool, donor).await),
            Action::Thaw => self.thaw().await,
            // A live snapshot is created by `live_snapshot`, with more around it.
            Action::Snapshot(request) | Action::LiveSnapshot(request) => {
                accepted(factory.snapshot_os_disk(request).await)
            }
            Action::DeleteSnapshot => accepted(factory.delete_snapshot(&header.snapshot).await),
            Action::Publish(publication) => accepted(factory.publish(publication).await),
            Action::CreateCanary(canary) => self.create_canary(canary).await,
            Action::DeleteCanary => accepted(factory.delete_canary(&header.canary).await),
            Action::TagDefinition { definition, tags } => accepted(factory.tag_definition(definition, tags).await),
            Action::Include(number) => accepted(factory.set_excluded(definition, number, false).await),
            Action::SetRecipe { change, revision } => accepted(factory.set_recipe(pool, change, revision).await),
            Action::RemoveExtension(name) => accepted(factory.remove_extension(pool, name).await),
            Action::AddInstances { pool, more } => accepted(factory.add_instances(pool, *more).await),
        }
    }

    /// Creates the canary. The secrets that it joins with are read now, so that a rotated token is the current one.
    async fn create_canary(&self, canary: &Canary) -> Acted {
        let mut canary = canary.clone();
        if canary.bootstrap.is_some() {
            let read = canary_secrets(self.context, &self.run.header.options).await.map_err(|error| match error {
                Error::Cluster(error) => cluster_failure(&error),
                error => StepFailure::new(ErrorClass::Unexpected, error.to_string()),
            })?;
            canary.bootstrap = Some(read.map_err(|missing| StepFailure::new(ErrorClass::Refused, missing))?);
        }
        accepted(self.context.factory.create_canary(&canary).await)
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

    async fn drain(&mut self) -> Acted {
        let run_options = &self.run.header.options;
        let flags =
            Flags { force: run_options.force, delete_emptydir_data: true, ignore_daemonsets: true, ..Flags::default() };
        let within = Duration::from_secs((run_options.grace_seconds * GRACES_PER_DRAIN).into()).max(MIN_DRAIN);
        let mut options = DrainOptions::new(flags, within);
        options.grace = NonZeroU32::new(run_options.grace_seconds).map(NonZeroU32::get);
        let force = run_options.force;
        let (sender, mut progress) = unbounded_channel();
        let cluster = self.context.cluster.clone();
        let node = self.node.clone();
        let drained = async {
            let mut report = |progress| drop(sender.send(progress));
            match cluster.drain(&node, &options, &mut report).await {
                Err(DrainError::Remaining { pods, .. }) if force => {
                    cluster.force_out(&node, &pods, FORCED_WITHIN, &mut report).await.map(drop)
                }
                drained => drained.map(drop),
            }
        };
        let drained = async {
            tokio::select! {
                drained = drained => drained,
                () = self.context.stop.requested() => Err(DrainError::Cancelled { node: node.clone() }),
            }
        };
        tokio::pin!(drained);
        let drained = loop {
            tokio::select! {
                drained = &mut drained => break drained,
                Some(progress) = progress.recv() => self.emit(RunEventKind::Drain(progress)).await,
            }
        };
        while let Ok(progress) = progress.try_recv() {
            self.emit(RunEventKind::Drain(progress)).await;
        }
        drained.map(|()| None).map_err(|error| drain_failure(&error))
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
