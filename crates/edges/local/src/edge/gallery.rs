//! Galleries, image definitions and versions.

use kiln_types::{
    DefinitionName, Gallery, GalleryName, ImageDefinition, ImageVersion, Publication, RegionProgress, Tags,
    VersionNumber, VersionState,
};

use super::Local;
use crate::error::Error;
use crate::ids;
use crate::records::{SnapshotRecord, VersionRecord, definition_key, version_key};
use crate::runner::MachineRunner;

impl<P: MachineRunner> Local<P> {
    pub(super) async fn read_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        let name = name.clone();
        self.locked(move |_, store| store.find(name.as_str())).await
    }

    pub(super) async fn put_gallery(&self, gallery: &Gallery) -> Result<(), Error> {
        let gallery = gallery.clone();
        self.locked(move |_, store| match store.find::<Gallery>(gallery.name.as_str())? {
            Some(_) => Ok(()),
            None => store.put(&gallery),
        })
        .await
    }

    pub(super) async fn read_definition(&self, name: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        let key = definition_key(name);
        self.locked(move |_, store| store.find(&key)).await
    }

    pub(super) async fn put_definition(&self, definition: &ImageDefinition) -> Result<(), Error> {
        let definition = definition.clone();
        self.locked(move |_, store| {
            store.get::<Gallery>(definition.name.gallery.as_str())?;
            let kind = |one: &ImageDefinition| (one.generation, one.architecture, one.security_type.clone());
            match store.find::<ImageDefinition>(&definition_key(&definition.name))? {
                None => store.put(&definition),
                Some(found) if kind(&found) == kind(&definition) => Ok(()),
                Some(found) => {
                    let name = definition_key(&definition.name);
                    let existing = format!("it is for machines {:?}", kind(&found));
                    Err(Error::AlreadyExists { noun: "image definition", name, existing })
                }
            }
        })
        .await
    }

    pub(super) async fn change_definition_tags(&self, name: &DefinitionName, changes: &Tags) -> Result<(), Error> {
        let (key, changes) = (definition_key(name), changes.clone());
        self.locked(move |_, store| {
            let mut definition: ImageDefinition = store.get(&key)?;
            definition.tags.extend(changes);
            store.put(&definition)
        })
        .await
    }

    pub(super) async fn list_versions(&self, name: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        let name = name.clone();
        let mut versions = self.locked(|_, store| store.list::<VersionRecord>()).await?;
        versions.retain(|version| version.definition == name);
        versions.sort_by(|a, b| a.number.cmp(&b.number));
        Ok(versions.into_iter().map(to_image_version).collect())
    }

    /// A version refers to the layers of its snapshot, so nothing is copied.
    pub(super) async fn put_version(&self, publication: &Publication) -> Result<(), Error> {
        let wanted = publication.clone();
        self.locked(move |state, store| {
            let key = version_key(&wanted.definition, &wanted.number);
            match store.find::<VersionRecord>(&key)? {
                Some(found) if found.source == wanted.source && found.tags == wanted.tags => return Ok(()),
                Some(found) => {
                    let (name, existing) = (key, format!("its source is `{}`", found.source));
                    return Err(Error::AlreadyExists { noun: "image version", name, existing });
                }
                None => {}
            }
            store.get::<ImageDefinition>(&definition_key(&wanted.definition))?;
            let snapshot: SnapshotRecord = store.get(ids::parse_snapshot_id(&wanted.source)?.as_str())?;
            store.put(&VersionRecord {
                definition: wanted.definition,
                number: wanted.number,
                source: wanted.source,
                kind: snapshot.kind,
                chain: snapshot.chain,
                regions: wanted.regions.into_iter().map(|region| region.name).collect(),
                storage: wanted.storage,
                excluded: wanted.excluded,
                created: state.now(),
                tags: wanted.tags,
            })
        })
        .await
    }

    pub(super) async fn change_exclusion(
        &self,
        name: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> Result<(), Error> {
        let key = version_key(name, number);
        self.locked(move |_, store| {
            let mut version: VersionRecord = store.get(&key)?;
            if version.excluded == excluded {
                return Ok(());
            }
            version.excluded = excluded;
            store.put(&version)
        })
        .await
    }

    pub(super) async fn remove_version(&self, name: &DefinitionName, number: &VersionNumber) -> Result<(), Error> {
        let key = version_key(name, number);
        self.locked_then_swept(move |_, store| store.remove::<VersionRecord>(&key)).await
    }
}

fn to_image_version(version: VersionRecord) -> ImageVersion {
    let replicated = |region: String| RegionProgress { region, excluded: false, percent: Some(100), complete: true };
    ImageVersion {
        id: ids::version_id(&version.definition, &version.number),
        number: version.number,
        state: VersionState::Succeeded,
        excluded: version.excluded,
        regions: version.regions.into_iter().map(replicated).collect(),
        storage: Some(version.storage),
        tags: version.tags,
        created: Some(version.created),
    }
}
