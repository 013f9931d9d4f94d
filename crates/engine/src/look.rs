//! Reads what a decision needs to know, one question to one outside system each.

use kiln_kubernetes::{HoldWhat, NodeName, NodeSeen, OriginalStore, Readiness};
use kiln_prototype::decide::current;
use kiln_prototype::journal::StepFailure;
use kiln_prototype::observed::{CanaryView, Fact, NodeView};
use kiln_prototype::step::Step;
use kiln_types::{Factory, FactoryError, Provisioning};

use crate::carry::Carrier;
use crate::error::{Error, of_cloud, of_cluster};
use crate::news::RunEventKind;

impl<F: Factory> Carrier<'_, F> {
    /// Reads these. What cannot be read is a failure of the step that needs it.
    pub(crate) async fn look(&mut self, facts: Vec<Fact>) -> Result<(), Error> {
        self.tell(RunEventKind::Looking(facts.clone())).await;
        for fact in facts {
            let Err(failure) = Box::pin(self.read(fact)).await else { continue };
            let step = current(&self.run).unwrap_or(Step::Preflight);
            return self.fail(step, failure).await;
        }
        Ok(())
    }

    async fn read(&mut self, fact: Fact) -> Result<(), StepFailure> {
        let factory = self.context.factory.as_ref();
        let header = &self.run.header;
        match fact {
            Fact::Blockers => self.seen.refusals = Some(self.refusals().await?),
            Fact::Pool => self.seen.pool = Some(factory.describe_pool(&header.pool).await.map_err(cloud)?),
            Fact::Saved => {
                let store = OriginalStore::new(&self.context.cluster, &self.context.namespace, &header.pool);
                self.seen.saved = Some(store.load().await.map_err(|error| of_cluster(&error))?.is_some());
            }
            Fact::Gallery => {
                self.seen.gallery = Some(factory.find_gallery(&header.gallery.name).await.map_err(cloud)?);
            }
            Fact::Definition => self.seen.line = Some(factory.find_definition(&header.line.name).await.map_err(cloud)?),
            Fact::Versions => self.seen.versions = Some(factory.versions(&header.line.name).await.map_err(cloud)?),
            Fact::Snapshot => self.seen.snapshot = Some(factory.find_snapshot(&header.snapshot).await.map_err(cloud)?),
            Fact::Instance => {
                let read = factory.describe_instance(&header.pool, &header.donor.instance).await;
                self.seen.instance = Some(if_there(read)?);
            }
            Fact::Node => self.seen.node = Some(self.node_seen(&self.node).await?.as_ref().map(view).transpose()?),
            Fact::Instances => self.seen.instances = Some(factory.instances(&header.pool).await.map_err(cloud)?),
            Fact::Canary => self.seen.canary = Some(self.canary().await?),
        }
        Ok(())
    }

    pub(crate) async fn node_seen(&self, node: &NodeName) -> Result<Option<NodeSeen>, StepFailure> {
        match self.context.cluster.node(node).await {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.not_found() => Ok(None),
            Err(error) => Err(of_cluster(&error)),
        }
    }

    /// The throw-away pool. Its machine is asked for only while it is waited for.
    async fn canary(&mut self) -> Result<Option<CanaryView>, StepFailure> {
        let factory = self.context.factory.as_ref();
        let pool = self.run.header.canary.pool();
        let waited_for = current(&self.run) == Some(Step::AwaitCanary);
        if waited_for {
            if let Some(canary) = self.canary.clone() {
                let view = self.canary_node(&canary).await?;
                if view.ready {
                    return Ok(Some(view));
                }
            }
            let Some(instances) = if_there(factory.instances(pool).await)? else { return Ok(None) };
            if let Some(instance) = instances.first().filter(|instance| !has_failed(&instance.provisioning)) {
                self.canary = Some(instance.node_name.clone());
                return self.canary_node(&instance.node_name).await.map(Some);
            }
        }
        let Some(pool) = if_there(factory.describe_pool(pool).await)? else { return Ok(None) };
        let word = match &pool.provisioning {
            Provisioning::InProgress(word) => word.as_str(),
            _ => "",
        };
        let failed = has_failed(&pool.provisioning).then(|| "Azure says that it failed".to_owned());
        Ok(Some(CanaryView {
            leaving: word.eq_ignore_ascii_case("deleting"),
            failed,
            ready: false,
            reasons: "its machine is not there yet".to_owned(),
        }))
    }

    /// The canary's machine by its node. Nothing is to be scheduled onto it: it is gone in minutes.
    async fn canary_node(&self, name: &str) -> Result<CanaryView, StepFailure> {
        let mut view = CanaryView::default();
        match self.cordon_canary(name).await? {
            None => view.reasons = format!("node {name} has not registered"),
            Some(node) => {
                view.ready = node.readiness == Readiness::Ready;
                view.reasons = format!("node {}: {}", node.name, node.readiness);
            }
        }
        Ok(view)
    }

    /// Cordons the canary's node once it is there.
    async fn cordon_canary(&self, name: &str) -> Result<Option<NodeSeen>, StepFailure> {
        let Ok(name) = name.parse::<NodeName>() else { return Ok(None) };
        match self.context.cluster.hold(&name, &self.owner, HoldWhat::CORDON).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.not_found() => Ok(None),
            Err(error) => Err(of_cluster(&error)),
        }
    }
}

fn has_failed(provisioning: &Provisioning) -> bool {
    matches!(provisioning, Provisioning::Failed | Provisioning::Canceled)
}

/// For `map_err`, which hands over what it maps.
#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` asks for")]
fn cloud<E: FactoryError>(error: E) -> StepFailure {
    of_cloud(&error)
}

fn if_there<T, E: FactoryError>(read: Result<T, E>) -> Result<Option<T>, StepFailure> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.not_found() => Ok(None),
        Err(error) => Err(of_cloud(&error)),
    }
}

fn view(node: &NodeSeen) -> Result<NodeView, StepFailure> {
    let hold = node.hold().map_err(|error| of_cluster(&error))?;
    Ok(NodeView {
        held_by: hold.map(|hold| hold.owner.to_string()),
        ready: node.readiness == Readiness::Ready,
        reasons: node.readiness.to_string(),
        boot: node.boot_id.clone(),
    })
}
