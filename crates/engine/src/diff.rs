//! What changed between two versions, from what was kept when they were made.

use kiln_kubernetes::VersionRecords;
use kiln_prototype::diff::{Diff, VersionFacts, diff};
use kiln_types::{Factory, PoolName, VersionNumber};

use crate::Context;
use crate::side::SideError;

/// What changed from one version of a pool to another.
pub async fn compare<F: Factory>(
    context: &Context<F>,
    pool: Option<&PoolName>,
    from: &VersionNumber,
    to: &VersionNumber,
) -> Result<Diff, SideError> {
    let pool = context.one_pool(pool).await?.name;
    let store = VersionRecords::<VersionFacts>::new(&context.cluster, &context.namespace, &pool);
    let from = facts(&store, &pool, from).await?;
    let to = facts(&store, &pool, to).await?;
    Ok(diff(&from, &to))
}

async fn facts(
    store: &VersionRecords<VersionFacts>,
    pool: &PoolName,
    version: &VersionNumber,
) -> Result<VersionFacts, SideError> {
    if let Some(facts) = store.get(version).await? {
        return Ok(facts);
    }
    let known: Vec<String> = store.list().await?.into_iter().map(|(number, _)| number.to_string()).collect();
    let why = match known.as_slice() {
        [] => "nothing was kept of any version; a run keeps it when it inspects the donor".to_owned(),
        known => format!("known are {}", known.join(", ")),
    };
    Err(SideError::NoFacts { pool: pool.clone(), version: version.clone(), why })
}
