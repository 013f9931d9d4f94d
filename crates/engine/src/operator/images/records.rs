//! ImageVersions: a record of each version of a pool's image definition.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kiln_fleet_api::{ImageVersion, ImageVersionSpec, ImageVersionStatus, Pool, PoolImage, Rejection};
use kiln_kubernetes::Error;
use kiln_prototype::latest::{NewNodes, created_at, new_nodes, version_of};
use kiln_prototype::provenance::Provenance;
use kiln_prototype::rollback::{Pause, rejected_numbers};
use kiln_prototype::step::Step;
use kiln_types::same_region;
use serde_json::json;

use super::observe::scale_set;
use super::{ImageReading, ImageState, Images};
use crate::operator::stores::Snapshots;

impl Images {
    /// What new machines of a pool get.
    pub(in crate::operator) fn pool_image(&self, pool: &Pool) -> Option<Result<PoolImage, String>> {
        let set = scale_set(pool)?;
        match set.map(|set| self.state(&set)) {
            Err(error) | Ok(ImageState::Failed(error)) => Some(Err(error)),
            Ok(ImageState::Read { reading, .. }) => Some(Ok(image(&reading))),
            Ok(ImageState::Off | ImageState::Unread) => None,
        }
    }

    /// Creates, changes and deletes the records of all pools that were read.
    pub(in crate::operator) async fn records(&self, view: &Snapshots) -> Result<(), Error> {
        let (shared, store) = (&self.shared, &self.shared.stores.versions);
        for (name, pool) in &view.pools {
            let Some(Ok(set)) = scale_set(pool) else { continue };
            let ImageState::Read { reading, .. } = self.state(&set) else { continue };
            let wanted = records(name, &reading, &view.versions);
            for (record, (spec, status)) in &wanted {
                let Some(known) = view.versions.get(record) else {
                    let mut object = ImageVersion::new(record, spec.clone());
                    object.metadata.owner_references = pool.metadata.uid.clone().map(|uid| {
                        vec![OwnerReference {
                            api_version: "node.kiln.dev/v1alpha1".to_owned(),
                            kind: "Pool".to_owned(),
                            name: name.clone(),
                            uid,
                            ..OwnerReference::default()
                        }]
                    });
                    // Its status follows in the next pass, which the new object starts.
                    shared.create(store, &object).await?;
                    continue;
                };
                if known.spec != *spec {
                    shared.patch(store, &**known, json!({"spec": spec})).await?;
                    continue;
                }
                shared.update_status(store, &**known, known.status.as_ref(), status).await?;
            }
            let gone = view
                .versions
                .iter()
                .filter(|(record, known)| known.spec.pool == *name && !wanted.contains_key(*record));
            for (_, known) in gone {
                shared.delete(known.as_ref()).await?;
            }
        }
        Ok(())
    }
}

fn image(reading: &ImageReading) -> PoolImage {
    let reading = &reading.reading;
    let definition = &reading.definition_name;
    let serves = new_nodes(&reading.pool.recipe.image, definition, &reading.versions, &reading.pool.location);
    let version = match serves {
        NewNodes::Latest(version) | NewNodes::Pinned(version) => Some(version.to_string()),
        NewNodes::NothingUsable | NewNodes::OtherImage(_) => None,
    };
    let paused = reading.definition.as_ref().and_then(|definition| Pause::read(&definition.tags));
    PoolImage {
        definition: format!("{}/{}", definition.gallery, definition.definition),
        version,
        paused: paused.map(|pause| pause.to_string()),
        capacity: i64::from(reading.pool.capacity),
    }
}

type Records = BTreeMap<String, (ImageVersionSpec, ImageVersionStatus)>;

/// The records of a pool, by name.
fn records(pool: &str, read: &ImageReading, known: &BTreeMap<String, std::sync::Arc<ImageVersion>>) -> Records {
    let reading = &read.reading;
    let tags = reading.definition.as_ref().map(|definition| definition.tags.clone()).unwrap_or_default();
    let (rejected, pause) = (rejected_numbers(&tags), Pause::read(&tags));
    let mut records = Records::new();
    for version in &reading.versions {
        let (number, provenance) = (&version.number, Provenance::read(&version.tags));
        let name = format!("{pool}-{number}");
        let before = known.get(&name).and_then(|known| known.status.clone()).unwrap_or_default();
        let mut runs = read.runs.iter().rev().filter(|run| run.header.version == *number);
        let run = runs.next();
        // The journal keeps the newest runs only; the record keeps what it knew.
        let is_proven = run.map_or(before.proven, |run| {
            let was_tested = run.header.options.canary && run.is_done(Step::AwaitCanary);
            was_tested && run.rejected().is_none()
        });
        let why = || {
            let of_run = run.and_then(|run| run.rejected().map(ToOwned::to_owned));
            let of_pause = || pause.as_ref().map(|pause| pause.reason.clone());
            of_run.or_else(of_pause).unwrap_or_else(|| "its image definition lists it as rejected".to_owned())
        };
        let here = |region: &&kiln_types::RegionProgress| same_region(&region.region, &reading.pool.location);
        let status = ImageVersionStatus {
            replicated: version.regions.iter().find(here).is_some_and(|region| region.complete),
            proven: is_proven,
            included: version.usable_in(&reading.pool.location),
            rejected: rejected.contains(number).then(|| before.rejected.unwrap_or_else(|| Rejection { why: why() })),
            nodes: i64::try_from(
                reading
                    .instances
                    .iter()
                    .filter(|one| version_of(&one.runs, &reading.definition_name) == Some(number))
                    .count(),
            )
            .unwrap_or(i64::MAX),
        };
        let spec = ImageVersionSpec {
            pool: pool.to_owned(),
            definition: format!("{}/{}", reading.definition_name.gallery, reading.definition_name.definition),
            version: number.to_string(),
            parent: provenance.parent().map(ToString::to_string),
            created: created_at(version).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            donor: provenance.built_from,
            run: provenance.run,
        };
        records.insert(name, (spec, status));
    }
    records
}
