//! Reading pools: by name, with their image definition and versions, and their journals.

use std::time::Duration;

use kiln_kubernetes::{JournalStore, Owner};
use kiln_prototype::journal::{Entry, Run};
use kiln_prototype::names;
use kiln_types::{
    CANARY_TAG, DefinitionName, Factory, ImageDefinition, ImageSource, ImageVersion, Instance, OperationHandle,
    OperationState, Pool, PoolName,
};

use crate::{Context, Error};

/// Poll interval of an operation if the cloud does not suggest one.
const POLL: Duration = Duration::from_secs(5);

/// A pool with its image definition, versions and instances.
#[derive(Debug, Clone)]
pub struct PoolReading {
    pub pool: Pool,
    /// Of the existing or future definition.
    pub definition_name: DefinitionName,
    /// Absent before the first run.
    pub definition: Option<ImageDefinition>,
    /// Lowest first.
    pub versions: Vec<ImageVersion>,
    pub instances: Vec<Instance>,
}

impl<F: Factory> Context<F> {
    /// The pools of these names, or all except canaries, sorted by name.
    pub async fn pools(&self, names: &[PoolName]) -> Result<Vec<Pool>, Error> {
        let all = self.factory.pools().await.map_err(Error::cloud("list scale sets"))?;
        let mut pools: Vec<Pool> = all.into_iter().filter(|pool| !pool.tags.contains_key(CANARY_TAG)).collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        if names.is_empty() {
            return Ok(pools);
        }
        let is = |pool: &Pool, name: &PoolName| pool.name.as_str().eq_ignore_ascii_case(name.as_str());
        if let Some(missing) = names.iter().find(|name| !pools.iter().any(|pool| is(pool, name))) {
            return Err(Error::NoSuchPool { name: missing.clone(), existing: list(&pools) });
        }
        pools.retain(|pool| names.iter().any(|name| is(pool, name)));
        Ok(pools)
    }

    /// The pool of this name, or the only one.
    pub async fn one_pool(&self, name: Option<&PoolName>) -> Result<Pool, Error> {
        let mut pools = self.pools(name.map_or(&[], std::slice::from_ref)).await?;
        match pools.pop() {
            Some(pool) if pools.is_empty() => Ok(pool),
            last => {
                pools.extend(last);
                Err(Error::AmbiguousPool { count: pools.len(), existing: list(&pools) })
            }
        }
    }

    /// Reads a pool's image definition, versions and instances.
    pub async fn read(&self, pool: Pool) -> Result<PoolReading, Error> {
        let definition_name = self.definition_name(&pool)?;
        let name = &pool.name;
        let (definition, versions, instances) = tokio::join!(
            self.factory.find_definition(&definition_name),
            self.factory.versions(&definition_name),
            self.factory.instances(name)
        );
        let definition = definition.map_err(Error::cloud(format!("read the image definition of `{name}`")))?;
        let versions = versions.map_err(Error::cloud(format!("list the versions of `{name}`")))?;
        let instances = instances.map_err(Error::cloud(format!("list the instances of `{name}`")))?;
        Ok(PoolReading { pool, definition_name, definition, versions, instances })
    }

    /// The definition in the pool's recipe if it is the pool's own, else the definition that the first run creates.
    pub(crate) fn definition_name(&self, pool: &Pool) -> Result<DefinitionName, Error> {
        let first = names::definition(&self.resource_group, &pool.name)?;
        let named = match &pool.recipe.image {
            ImageSource::Definition(name) | ImageSource::ExactVersion(name, _) => Some(name),
            ImageSource::Marketplace(_) | ImageSource::Other(_) => None,
        };
        let is_own = |name: &&DefinitionName| {
            let prefix = name.definition.get(..first.definition.len());
            name.gallery.as_str().eq_ignore_ascii_case(first.gallery.as_str())
                && prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(&first.definition))
        };
        Ok(named.filter(is_own).cloned().unwrap_or(first))
    }

    /// The runs in a pool's journal, oldest first.
    pub async fn runs(&self, pool: &PoolName) -> Result<Vec<Run>, Error> {
        Ok(Run::replay(&self.entries(pool).await?)?)
    }

    pub(crate) async fn entries(&self, pool: &PoolName) -> Result<Vec<Entry>, Error> {
        let store = JournalStore::<Entry>::new(&self.cluster, &self.namespace, pool, self.new_owner());
        Ok(store.load().await?.entries().to_vec())
    }

    /// An owner for an operation that is not a run.
    pub(crate) fn new_owner(&self) -> Owner {
        self.new_id().as_str().parse().expect("an id is an owner")
    }

    /// Waits until an operation has succeeded.
    pub(crate) async fn await_operation(&self, what: &str, handle: &OperationHandle) -> Result<(), Error> {
        loop {
            match self.factory.observe(handle).await.map_err(Error::cloud(what))? {
                OperationState::Succeeded => return Ok(()),
                OperationState::Failed(failure) => {
                    let class = failure.class;
                    return Err(Error::Cloud { what: what.to_owned(), class, source: failure.to_string().into() });
                }
                OperationState::Running(progress) => {
                    tokio::time::sleep(progress.retry_after.unwrap_or(POLL)).await;
                }
            }
        }
    }
}

fn list(pools: &[Pool]) -> String {
    if pools.is_empty() {
        return "none in this resource group".to_owned();
    }
    pools.iter().map(|pool| format!("`{}`", pool.name)).collect::<Vec<_>>().join(", ")
}
