//! What the side operations share: reading a pool and its line, and what can go wrong.

use std::time::Duration;

use kiln_kubernetes::{JournalStore, Owner};
use kiln_prototype::rollback::Error;
use kiln_prototype::journal::{Entry, Run};
use kiln_prototype::names;
use kiln_types::{
    CANARY_TAG, DefinitionName, Factory, ImageDefinition, ImageSource, ImageVersion, Instance, OperationHandle,
    OperationState, Pool, PoolName, VersionNumber,
};

use crate::{Context, Error};

/// How often an operation is looked at where the cloud does not say.
const LOOK: Duration = Duration::from_secs(5);

/// What can go wrong with an operation beside the run itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud or the cluster did not do it, or the journal cannot be read.
    #[error(transparent)]
    Operate(#[from] Error),
    /// A pool that is none.
    #[error("there is no scale set `{asked}`; there are {existing}")]
    NoSuchPool {
        asked: PoolName,
        /// Those that exist.
        existing: String,
    },
    /// More than one pool, or none.
    #[error("there are {count} scale sets ({existing}): say which one by `--target-vmss`")]
    WhichPool {
        count: usize,
        /// Those that exist.
        existing: String,
    },
    /// The pool has no image line.
    #[error("`{pool}` has no versions yet: image definition `{line}` does not exist")]
    NoLine {
        pool: PoolName,
        /// Where the line would be.
        line: String,
    },
    /// There is no way back.
    #[error(transparent)]
    Back(#[from] Error),
    /// There is nothing to unpause.
    #[error("`{0}` is not on hold; nothing was changed")]
    NotHeld(PoolName),
    /// What is in a version was not kept.
    #[error("what is in version {version} of `{pool}` is not known: {why}")]
    NoFacts {
        pool: PoolName,
        version: VersionNumber,
        /// Why not.
        why: String,
    },
    /// The operation was told to stop.
    #[error("stopped: {0}")]
    Stopped(String),
    /// A refresh cannot go on.
    #[error("{0}")]
    Refresh(String),
}

impl Error {
    /// Whether somebody else works on the pool.
    pub fn is_busy(&self) -> bool {
        use kiln_kubernetes::Error::{HeldByAnother, JournalConflict, LeaseHeld, LeaseLost};
        match self {
            Self::Operate(Error::Cluster(error)) => {
                matches!(error, LeaseHeld { .. } | LeaseLost { .. } | HeldByAnother { .. } | JournalConflict { .. })
            }
            Self::Operate(error) => error.is_busy(),
            _ => false,
        }
    }
}

impl From<kiln_kubernetes::Error> for Error {
    fn from(error: kiln_kubernetes::Error) -> Self {
        Self::Operate(error.into())
    }
}

/// A pool with everything that its image line is judged by.
#[derive(Debug, Clone)]
pub struct Reading {
    pub pool: Pool,
    /// Where its line is, or would be.
    pub definition_name: DefinitionName,
    /// The line; none before the first run.
    pub line: Option<ImageDefinition>,
    /// Its versions, lowest number first.
    pub versions: Vec<ImageVersion>,
    pub instances: Vec<Instance>,
}

impl<F: Factory> Context<F> {
    /// The pools of these names, or all that are no canaries, by name.
    pub async fn pools(&self, asked: &[PoolName]) -> Result<Vec<Pool>, Error> {
        let all = self.factory.pools().await.map_err(Error::cloud("list scale sets"))?;
        let mut pools: Vec<Pool> = all.into_iter().filter(|pool| !pool.tags.contains_key(CANARY_TAG)).collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        if asked.is_empty() {
            return Ok(pools);
        }
        let is = |pool: &Pool, name: &PoolName| pool.name.as_str().eq_ignore_ascii_case(name.as_str());
        if let Some(missing) = asked.iter().find(|name| !pools.iter().any(|pool| is(pool, name))) {
            return Err(Error::NoSuchPool { asked: missing.clone(), existing: list(&pools) });
        }
        pools.retain(|pool| asked.iter().any(|name| is(pool, name)));
        Ok(pools)
    }

    /// The pool of this name, or the only one.
    pub async fn one_pool(&self, asked: Option<&PoolName>) -> Result<Pool, Error> {
        let mut pools = self.pools(asked.map_or(&[], std::slice::from_ref)).await?;
        match pools.pop() {
            Some(pool) if pools.is_empty() => Ok(pool),
            last => {
                pools.extend(last);
                Err(Error::WhichPool { count: pools.len(), existing: list(&pools) })
            }
        }
    }

    /// Reads what a pool's images are judged by.
    pub async fn read(&self, pool: Pool) -> Result<Reading, Error> {
        let definition_name = self.line_of(&pool)?;
        let name = &pool.name;
        let (line, versions, instances) = tokio::join!(
            self.factory.find_definition(&definition_name),
            self.factory.versions(&definition_name),
            self.factory.instances(name)
        );
        let line = line.map_err(Error::cloud(format!("read the image definition of `{name}`")))?;
        let versions = versions.map_err(Error::cloud(format!("list the versions of `{name}`")))?;
        let instances = instances.map_err(Error::cloud(format!("list the instances of `{name}`")))?;
        Ok(Reading { pool, definition_name, line, versions, instances })
    }

    /// The line that the pool's recipe names if it is one of ours, else the one that the first run makes.
    pub(crate) fn line_of(&self, pool: &Pool) -> Result<DefinitionName, Error> {
        let first = names::line(&self.resource_group, &pool.name).map_err(Error::from)?;
        let named = match &pool.recipe.image {
            ImageSource::Definition(line) | ImageSource::ExactVersion(line, _) => Some(line),
            ImageSource::Marketplace(_) | ImageSource::Other(_) => None,
        };
        let ours = |line: &&DefinitionName| {
            let begins = line.definition.get(..first.definition.len());
            line.gallery.as_str().eq_ignore_ascii_case(first.gallery.as_str())
                && begins.is_some_and(|begin| begin.eq_ignore_ascii_case(&first.definition))
        };
        Ok(named.filter(ours).cloned().unwrap_or(first))
    }

    /// The runs that a pool's journal tells of, oldest first.
    pub async fn runs(&self, pool: &PoolName) -> Result<Vec<Run>, Error> {
        Ok(Run::replay(&self.entries(pool).await?).map_err(Error::from)?)
    }

    pub(crate) async fn entries(&self, pool: &PoolName) -> Result<Vec<Entry>, Error> {
        let store = JournalStore::<Entry>::new(&self.cluster, &self.namespace, pool, self.reader());
        Ok(store.load().await?.entries().to_vec())
    }

    /// A name for who only reads.
    pub(crate) fn reader(&self) -> Owner {
        let run = self.fresh();
        run.as_str().parse().expect("a run's name is an owner's")
    }

    /// Waits for an operation's end.
    pub(crate) async fn settle(&self, what: &str, handle: &OperationHandle) -> Result<(), Error> {
        loop {
            match self.factory.observe(handle).await.map_err(Error::cloud(what))? {
                OperationState::Succeeded => return Ok(()),
                OperationState::Failed(failure) => {
                    let class = failure.class;
                    return Err(
                        Error::Cloud { what: what.to_owned(), class, source: failure.to_string().into() }.into()
                    );
                }
                OperationState::Running(progress) => {
                    tokio::time::sleep(progress.retry_after.unwrap_or(LOOK)).await;
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
