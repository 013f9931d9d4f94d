//! What changed between two versions, from what was kept when they were made.

use kiln_kubernetes::FactsStore;
use kiln_prototype::diff::{Diff, VersionFacts, diff};
use kiln_types::{Factory, PoolName, VersionNumber};

use crate::Context;
use crate::side::Error;

/// What changed from one version of a pool to another.
pub async fn compare<F: Factory>(
    context: &Context<F>,
    pool: Option<&PoolName>,
    from: &VersionNumber,
    to: &VersionNumber,
) -> Result<Diff, Error> {
    let pool = context.one_pool(pool).await?.name;
    let store = FactsStore::<VersionFacts>::new(&context.cluster, &context.namespace, &pool);
    let from = facts(&store, &pool, from).await?;
    let to = facts(&store, &pool, to).await?;
    Ok(diff(&from, &to))
}

async fn facts(
    store: &FactsStore<VersionFacts>,
    pool: &PoolName,
    version: &VersionNumber,
) -> Result<VersionFacts, Error> {
    if let Some(facts) = store.get(version).await? {
        return Ok(facts);
    }
    let known: Vec<String> = store.list().await?.into_iter().map(|(number, _)| number.to_string()).collect();
    let why = match known.as_slice() {
        [] => "nothing was kept of any version; a run keeps it when it inspects the donor".to_owned(),
        known => format!("known are {}", known.join(", ")),
    };
    Err(Error::NoFacts { pool: pool.clone(), version: version.clone(), why })
}
