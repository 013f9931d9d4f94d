//! [`ImageWork`] with the operations of this crate. Each change holds the pool's lease, so that it never happens during a run or a refresh.

use futures_util::future::BoxFuture;
use kiln_prototype::latest::{NewNodes, new_nodes};
use kiln_prototype::rollback::{
    Fingerprint, Pause, RejectedVersion, RollbackRequest, RollbackTarget, reject as reject_tags, rejected_numbers,
};
use kiln_types::{Factory, InstanceId, NodeName, PoolName, ProtectedSettings, VersionNumber};

use super::{ImageReading, ImageWork};
use crate::run::{AutoRequest, PoolReport, PoolSession, auto_update};
use crate::{Context, Error, rollback};

impl<F: Factory + 'static> ImageWork for Context<F> {
    fn own_node(&self) -> Option<&str> {
        self.own_node.as_ref().map(NodeName::as_str)
    }

    fn read<'a>(&'a self, pool: &'a PoolName) -> BoxFuture<'a, Result<ImageReading, Error>> {
        Box::pin(async move {
            let reading = Context::read(self, self.one_pool(Some(pool)).await?).await?;
            Ok(ImageReading { reading, runs: self.runs(pool).await? })
        })
    }

    fn run(&self, request: AutoRequest) -> BoxFuture<'_, Result<Vec<PoolReport>, Error>> {
        Box::pin(async move { auto_update(self, &request).await })
    }

    fn grow<'a>(&'a self, pool: &'a PoolName, to: u32) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let session = PoolSession::new(self, pool);
            let work = async {
                let what = format!("add instances to `{pool}`");
                let read = self.factory.describe_pool(pool).await.map_err(Error::cloud(what.as_str()))?;
                let more = to.saturating_sub(read.capacity);
                if more == 0 {
                    return Ok(());
                }
                let added = self.factory.add_instances(&read, more).await.map_err(Error::cloud(what.as_str()))?;
                self.await_operation(&what, &added).await
            };
            session.with_lease(Box::pin(work)).await
        })
    }

    fn remove<'a>(&'a self, pool: &'a PoolName, instances: &'a [InstanceId]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let session = PoolSession::new(self, pool);
            let work = async {
                let what = format!("remove instances of `{pool}`");
                let all = self.factory.instances(pool).await.map_err(Error::cloud(what.as_str()))?;
                let left: Vec<InstanceId> =
                    all.into_iter().map(|instance| instance.id).filter(|id| instances.contains(id)).collect();
                if left.is_empty() {
                    return Ok(());
                }
                let removed = self.factory.remove_instances(pool, &left).await.map_err(Error::cloud(what.as_str()))?;
                self.await_operation(&what, &removed).await
            };
            session.with_lease(Box::pin(work)).await
        })
    }

    fn reject<'a>(
        &'a self,
        pool: &'a PoolName,
        version: &'a VersionNumber,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let reading = Context::read(self, self.one_pool(Some(pool)).await?).await?;
            let Some(definition) = &reading.definition else { return Ok(()) };
            if rejected_numbers(&definition.tags).contains(version) {
                return Ok(());
            }
            let image = new_nodes(
                &reading.pool.recipe.image,
                &reading.definition_name,
                &reading.versions,
                &reading.pool.location,
            );
            let is_served = matches!(&image, NewNodes::Latest(served) | NewNodes::Pinned(served) if served == version);
            let request = RollbackRequest {
                to: RollbackTarget::Previous,
                delete: false,
                reason: reason.to_owned(),
                after: None,
                who: self.who.clone(),
                at: self.now(),
                protected_settings: ProtectedSettings::default(),
            };
            if is_served {
                match rollback(self, Some(pool), &request, false).await {
                    // Without an earlier version, new machines keep this one, and a person has to decide.
                    Err(Error::Prototype(kiln_prototype::Error::NothingLeft { .. })) => {}
                    done => return done.map(drop),
                }
            }
            let rejected = RejectedVersion { number: version.clone(), introduced: Fingerprint::default() };
            let mut tags = reject_tags(&definition.tags, &[rejected]);
            let pause = Pause {
                since: Some(self.now()),
                after: None,
                to: None,
                who: Some(self.who.clone()),
                reason: reason.to_owned(),
            };
            tags.extend(pause.tags());
            let what = format!("reject version {version} of `{pool}`");
            let tagged = self.factory.tag_definition(definition, &tags).await.map_err(Error::cloud(what.as_str()))?;
            self.await_operation(&what, &tagged).await
        })
    }
}
