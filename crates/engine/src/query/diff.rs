//! Changes between two versions, from their stored contents.

use kiln_kubernetes::VersionRecords;
use kiln_prototype::diff::{Diff, VersionFacts, diff};
use kiln_types::{Factory, PoolName, VersionNumber};

use crate::{Context, Error};

/// Compares two versions of a pool.
pub async fn compare<F: Factory>(
    context: &Context<F>,
    pool: Option<&PoolName>,
    from: &VersionNumber,
    to: &VersionNumber,
) -> Result<Diff, Error> {
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
) -> Result<VersionFacts, Error> {
    if let Some(facts) = store.get(version).await? {
        return Ok(facts);
    }
    let known: Vec<String> = store.list().await?.into_iter().map(|(number, _)| number.to_string()).collect();
    let reason = match known.as_slice() {
        [] => "no contents are stored; a run stores them when it inspects its donor".to_owned(),
        known => format!("known versions: {}", known.join(", ")),
    };
    Err(Error::UnknownContents { pool: pool.clone(), version: version.clone(), reason })
}
