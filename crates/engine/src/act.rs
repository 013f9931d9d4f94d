//! Does what a decision says.

use std::num::NonZeroU32;
use std::time::Duration;

use kiln_kubernetes::drain::{DrainError, DrainOptions, Flags};
use kiln_kubernetes::{EventKind, FactsStore, HoldWhat, NodeEvent, OriginalRecipe, OriginalStore};
use kiln_prototype::action::Action;
use kiln_prototype::decide::acted;
use kiln_prototype::diff::VersionFacts;
use kiln_prototype::journal::{Event, Memo, StepFailure};
use kiln_prototype::step::Step;
use kiln_types::{Factory, FactoryError, OperationHandle, SavedExtension, Secret};
use tokio::sync::mpsc::unbounded_channel;

use crate::carry::Carrier;
use crate::error::{Error, of_cloud, of_cluster};
use crate::news::RunEventKind;

/// As kamino: a drain has three times what each pod gets.
const GRACES_PER_DRAIN: u32 = 3;

/// A pod that gets no time at all still needs some for its eviction to be answered.
const LEAST_DRAIN: Duration = Duration::from_mins(1);

/// Without grace a pod is gone as soon as its kubelet hears of it; what is not is held by a finalizer.
const FORCED_WITHIN: Duration = Duration::from_mins(1);

type Done = Result<Option<OperationHandle>, StepFailure>;

impl<F: Factory> Carrier<'_, F> {
    /// Makes sure that the pool is still ours, writes down what comes, does it, and writes down what came of it.
    pub(crate) async fn act(&mut self, step: Step, action: Action, memo: Option<Memo>) -> Result<(), Error> {
        self.lease.check().await.map_err(|error| self.interrupted(error))?;
        self.record(Event::Started { step, memo }).await?;
        let held = self.run.holds();
        self.tell(RunEventKind::Starting { step, held }).await;
        let done = Box::pin(self.perform(&action)).await;
        self.tell(RunEventKind::Acted { step }).await;
        self.seen.forget(&action);
        match done.map(|handle| acted(step, handle)) {
            Ok(Some(event)) => self.record(event).await,
            // What can be read back is.
            Ok(None) => Ok(()),
            Err(failure) => self.fail(step, failure).await,
        }
    }

    async fn perform(&mut self, action: &Action) -> Done {
        let factory = self.context.factory.clone();
        let factory = factory.as_ref();
        let header = self.run.header.clone();
        let (pool, donor, line) = (&header.pool, &header.donor.instance, &header.line.name);
        match action {
            Action::TagPool { pool, tags } => taken(factory.tag_pool(pool, tags).await),
            Action::SaveRecipe => self.save_recipe().await,
            Action::CreateGallery(gallery) => taken(factory.create_gallery(gallery).await),
            Action::CreateDefinition(line) => taken(factory.create_definition(line).await),
            Action::DeleteVersion(number) => {
                let handle = taken(factory.delete_version(line, number).await)?;
                self.forget_facts(number).await;
                Ok(handle)
            }
            Action::HoldNode => self.hold_node().await,
            Action::ReleaseNode => {
                let released = self.context.cluster.release(&self.node, &self.owner, HoldWhat::ALL).await;
                released.map(|()| None).map_err(|error| of_cluster(&error))
            }
            Action::SetProtection { instance, protection } => factory
                .set_protection(pool, instance, *protection)
                .await
                .map(|_| None)
                .map_err(|error| of_cloud(&error)),
            Action::Drain => self.drain().await,
            Action::InstallFirstBoot => self.install_first_boot().await,
            Action::PowerOff(how) => {
                self.keep_facts().await;
                taken(factory.power_off(pool, donor, *how).await)
            }
            Action::Start => taken(factory.start(pool, donor).await),
            Action::Snapshot(request) => taken(factory.snapshot_os_disk(request).await),
            Action::DeleteSnapshot => taken(factory.delete_snapshot(&header.snapshot).await),
            Action::Publish(publication) => taken(factory.publish(publication).await),
            Action::CreateCanary(canary) => taken(factory.create_canary(canary).await),
            Action::DeleteCanary => taken(factory.delete_canary(&header.canary).await),
            Action::TagDefinition { line, tags } => taken(factory.tag_definition(line, tags).await),
            Action::Include(number) => taken(factory.set_excluded(line, number, false).await),
            Action::SetRecipe { change, revision } => taken(factory.set_recipe(pool, change, revision).await),
            Action::RemoveExtension(name) => taken(factory.remove_extension(pool, name).await),
            Action::AddInstances { pool, more } => taken(factory.add_instances(pool, *more).await),
        }
    }

    async fn hold_node(&mut self) -> Done {
        let held = self.context.cluster.hold(&self.node, &self.owner, HoldWhat::ALL).await;
        let seen = held.map_err(|error| of_cluster(&error))?;
        let note =
            format!("run {} copies this node's disk: it is cordoned, drained and stopped for a while", self.run.id);
        let event = NodeEvent { kind: EventKind::Normal, action: "Hold", reason: "Prototype", note };
        // An event is no record.
        let _ = self.context.cluster.tell(&seen, &self.owner, &event).await;
        Ok(None)
    }

    async fn drain(&mut self) -> Done {
        let policy = &self.run.header.options;
        let flags =
            Flags { force: policy.force, delete_emptydir_data: true, ignore_daemonsets: true, ..Flags::default() };
        let within = Duration::from_secs((policy.grace_seconds * GRACES_PER_DRAIN).into()).max(LEAST_DRAIN);
        let mut options = DrainOptions::new(flags, within);
        options.grace = NonZeroU32::new(policy.grace_seconds).map(NonZeroU32::get);
        let force = policy.force;
        let (sender, mut news) = unbounded_channel();
        let cluster = self.context.cluster.clone();
        let node = self.node.clone();
        let drained = async {
            let mut tell = |progress| drop(sender.send(progress));
            match cluster.drain(&node, &options, &mut tell).await {
                Err(DrainError::Left { pods, .. }) if force => {
                    cluster.force_out(&node, &pods, FORCED_WITHIN, &mut tell).await.map(drop)
                }
                drained => drained.map(drop),
            }
        };
        let drained = async {
            tokio::select! {
                drained = drained => drained,
                () = self.context.stop.told() => Err(DrainError::Cancelled { node: node.clone() }),
            }
        };
        tokio::pin!(drained);
        let drained = loop {
            tokio::select! {
                drained = &mut drained => break drained,
                Some(progress) = news.recv() => self.tell(RunEventKind::Drain(progress)).await,
            }
        };
        while let Ok(progress) = news.try_recv() {
            self.tell(RunEventKind::Drain(progress)).await;
        }
        drained.map(|()| None).map_err(|error| of_drain(&error))
    }

    async fn install_first_boot(&mut self) -> Done {
        let Some(node) = self.node_seen(&self.node).await? else {
            return Err(StepFailure {
                class: kiln_types::ErrorClass::NotFound,
                message: format!("node {} is gone", self.node),
            });
        };
        let installed = self.context.inside.install_first_boot(&node, &self.owner).await;
        installed.map(|()| None).map_err(|error| of_cluster(&error))
    }

    /// Keeps what the pool is made from now. Preflight made sure that the custom data could be read, or that somebody agreed to do without.
    async fn save_recipe(&mut self) -> Done {
        let pool = self.run.header.pool.clone();
        let read = match self.seen.pool.clone() {
            Some(read) => read,
            None => self.context.factory.describe_pool(&pool).await.map_err(|error| of_cloud(&error))?,
        };
        let inspection = self.inspected().await?;
        let custom_data = inspection.custom_data.bytes().and_then(|bytes| std::str::from_utf8(bytes.expose()).ok());
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
        store.save(&recipe).await.map(|_| None).map_err(|error| of_cluster(&error))
    }

    /// Keeps what is in the version that will be made, while the donor can still be asked. Without it the version is as good, and
    /// `prototype diff` says that it knows nothing of it.
    async fn keep_facts(&mut self) {
        let version = self.run.header.version.clone();
        let kept = match self.inspected().await {
            Ok(inspection) => {
                let facts = VersionFacts::of(version.clone(), &inspection);
                self.facts().put(&version, &facts).await.map_err(|error| of_cluster(&error))
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = kept {
            self.note(format!("what is in version {version} is not kept: {failure}")).await;
        }
    }

    async fn forget_facts(&mut self, version: &kiln_types::VersionNumber) {
        if let Err(error) = self.facts().delete(version).await {
            self.note(format!("what is known of version {version} is left behind: {error}")).await;
        }
    }

    fn facts(&self) -> FactsStore<VersionFacts> {
        FactsStore::new(&self.context.cluster, &self.context.namespace, &self.run.header.pool)
    }
}

/// A drain that failed is not tried again: its own patience was long, and the pods are named to whoever can help.
fn of_drain(error: &DrainError) -> StepFailure {
    match error {
        DrainError::Cluster(error) => of_cluster(error),
        error => StepFailure { class: kiln_types::ErrorClass::Refused, message: error.to_string() },
    }
}

fn taken<E: FactoryError>(begun: Result<OperationHandle, E>) -> Done {
    begun.map(Some).map_err(|error| of_cloud(&error))
}
