//! Reading what a decision needs, one request to one outside system each.

use kiln_kubernetes::{HoldScope, NodeHold, OriginalStore};
use kiln_prototype::decide::current_step;
use kiln_prototype::journal::StepFailure;
use kiln_prototype::observed::{CanaryView, Fact};
use kiln_prototype::step::Step;
use kiln_types::{Factory, FactoryError, Node, NodeName, Provisioning};

use super::{CanaryNode, Runner};
use crate::error::{Error, cloud_failure, cluster_failure};
use crate::event::RunEventKind;

impl<F: Factory> Runner<'_, F> {
    /// Reads facts. A failed read is a failure of the current step.
    pub(super) async fn observe(&mut self, facts: Vec<Fact>) -> Result<(), Error> {
        self.emit(RunEventKind::Reading(facts.clone())).await;
        for fact in facts {
            let Err(failure) = Box::pin(self.read(fact)).await else { continue };
            let step = current_step(&self.run).unwrap_or(Step::Preflight);
            return self.fail(step, failure).await;
        }
        Ok(())
    }

    async fn read(&mut self, fact: Fact) -> Result<(), StepFailure> {
        let factory = self.context.factory.as_ref();
        let header = &self.run.header;
        match fact {
            Fact::Blockers => self.observed.blockers = Some(self.blockers().await?),
            Fact::Pool => self.observed.pool = Some(factory.describe_pool(&header.pool).await.map_err(cloud)?),
            Fact::Saved => {
                let store = OriginalStore::new(&self.context.cluster, &self.context.namespace, &header.pool);
                self.observed.saved = Some(store.load().await.map_err(|error| cluster_failure(&error))?.is_some());
            }
            Fact::Gallery => {
                self.observed.gallery = Some(factory.find_gallery(&header.gallery.name).await.map_err(cloud)?);
            }
            Fact::Definition => {
                let definition = factory.find_definition(&header.definition.name).await;
                self.observed.definition = Some(definition.map_err(cloud)?);
            }
            Fact::Versions => {
                self.observed.versions = Some(factory.versions(&header.definition.name).await.map_err(cloud)?);
            }
            Fact::Snapshot => {
                self.observed.snapshot = Some(factory.find_snapshot(&header.snapshot).await.map_err(cloud)?);
            }
            Fact::Instance => {
                let read = factory.describe_instance(&header.pool, &header.donor.instance).await;
                self.observed.instance = Some(if_found(read)?);
            }
            Fact::Node => {
                let node = self.read_node(&self.node).await?;
                // An unreadable hold must fail the step: releasing the node would lose its previous state.
                node.as_ref().map(NodeHold::read).transpose().map_err(|error| cluster_failure(&error))?;
                self.observed.node = Some(node);
            }
            Fact::Instances => self.observed.instances = Some(factory.instances(&header.pool).await.map_err(cloud)?),
            Fact::Canary => self.observed.canary = Some(self.canary().await?),
            Fact::Rejections(step) => {
                let definition = factory.find_definition(&header.definition.name).await;
                self.observed.rejections = Some((step, definition.map_err(cloud)?));
            }
        }
        Ok(())
    }

    pub(super) async fn read_node(&self, name: &NodeName) -> Result<Option<Node>, StepFailure> {
        match self.context.cluster.node(name).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(cluster_failure(&error)),
        }
    }

    /// Reads the canary. Its instance is read only while the run waits for it.
    async fn canary(&mut self) -> Result<Option<CanaryView>, StepFailure> {
        let factory = self.context.factory.as_ref();
        let pool = self.run.header.canary.pool().clone();
        let is_awaited = current_step(&self.run) == Some(Step::AwaitCanary);
        if is_awaited {
            // The node is enough if it is Ready, and it is watched before the cloud is asked why it is not.
            let view = self.canary_node().await?;
            if view.ready || self.observed.waited != Some(Step::AwaitCanary) {
                return Ok(Some(view));
            }
            let Some(instances) = if_found(factory.instances(&pool).await)? else { return Ok(None) };
            if let Some(instance) = instances.first().filter(|instance| !has_failed(&instance.provisioning)) {
                let name = instance.node_name.clone();
                self.canary.get_or_insert(CanaryNode::new(name, None));
                let view = self.canary_node().await?;
                return Ok(Some(CanaryView { booted: instance.agent_ready, ..view }));
            }
        }
        let Some(pool) = if_found(factory.describe_pool(&pool).await)? else { return Ok(None) };
        let state = match &pool.provisioning {
            Provisioning::InProgress(state) => state.as_str(),
            _ => "",
        };
        let failed = has_failed(&pool.provisioning).then(|| "Azure reports that its creation failed".to_owned());
        Ok(Some(CanaryView {
            deleting: state.eq_ignore_ascii_case("deleting"),
            failed,
            pending: "its instance does not exist yet".to_owned(),
            ..CanaryView::default()
        }))
    }

    /// Reads the canary's node and cordons it, since it is deleted again in minutes.
    async fn canary_node(&mut self) -> Result<CanaryView, StepFailure> {
        let mut view = CanaryView::default();
        let known = self.canary.clone();
        match (self.cordon_canary().await?, known) {
            (None, None) => "its node has not registered".clone_into(&mut view.pending),
            (None, Some(known)) => {
                view.pending = format!("node `{}` has not registered", known.name);
                self.canary = Some(CanaryNode { registered: None, ready: None, ..known });
            }
            (Some(node), known) => {
                let now = self.context.now();
                let before = known.as_ref().and_then(|known| known.ready);
                view.ready = node.is_ready();
                let ready = match before {
                    _ if !view.ready => None,
                    Some((first, since)) if since == node.ready_since => Some((first, since)),
                    _ => Some((now, node.ready_since)),
                };
                let ready_for = ready.map(|(first, _)| now.duration_since(first));
                view.ready_for = ready_for.and_then(|span| span.try_into().ok()).unwrap_or_default();
                view.registered = known.and_then(|known| known.registered).or(Some(now));
                view.pending = format!("node `{}`: {}", node.name, node.readiness);
                self.canary = Some(CanaryNode { name: node.name.to_string(), registered: view.registered, ready });
            }
        }
        if view.ready && self.run.header.options.smoke_test.is_some() {
            let (namespace, canary) = (&self.context.namespace, &self.run.header.canary);
            let test = self.context.cluster.smoke_test(namespace, canary).await;
            view.smoke_test = test.map_err(|error| cluster_failure(&error))?;
        }
        Ok(view)
    }

    /// Cordons the canary's node once it has registered. It is the only node of its scale set, whatever it is called.
    pub(super) async fn cordon_canary(&self) -> Result<Option<Node>, StepFailure> {
        let nodes = self.context.cluster.nodes_of(self.run.header.canary.pool()).await;
        let Some(node) = nodes.map_err(|error| cluster_failure(&error))?.pop() else { return Ok(None) };
        match self.context.cluster.hold(&node.name, &self.owner, HoldScope::CORDON).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(cluster_failure(&error)),
        }
    }
}

fn has_failed(provisioning: &Provisioning) -> bool {
    matches!(provisioning, Provisioning::Failed | Provisioning::Canceled)
}

/// For `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `map_err` needs")]
fn cloud<E: FactoryError>(error: E) -> StepFailure {
    cloud_failure(&error)
}

fn if_found<T, E: FactoryError>(read: Result<T, E>) -> Result<Option<T>, StepFailure> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.not_found() => Ok(None),
        Err(error) => Err(cloud_failure(&error)),
    }
}
