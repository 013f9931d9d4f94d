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

    pub(super) async fn read_definition(&self, line: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        let key = definition_key(line);
        self.locked(move |_, store| store.find(&key)).await
    }

    pub(super) async fn put_definition(&self, line: &ImageDefinition) -> Result<(), Error> {
        let line = line.clone();
        self.locked(move |_, store| {
            store.get::<Gallery>(line.name.gallery.as_str())?;
            let kind = |line: &ImageDefinition| (line.generation, line.architecture, line.security_type.clone());
            match store.find::<ImageDefinition>(&definition_key(&line.name))? {
                None => store.put(&line),
                Some(found) if kind(&found) == kind(&line) => Ok(()),
                Some(found) => {
                    let (name, found) = (definition_key(&line.name), format!("for machines {:?}", kind(&found)));
                    Err(Error::InTheWay { noun: "image definition", name, found })
                }
            }
        })
        .await
    }

    pub(super) async fn change_definition_tags(&self, line: &DefinitionName, changes: &Tags) -> Result<(), Error> {
        let (key, changes) = (definition_key(line), changes.clone());
        self.locked(move |_, store| {
            let mut line: ImageDefinition = store.get(&key)?;
            line.tags.extend(changes);
            store.put(&line)
        })
        .await
    }

    pub(super) async fn list_versions(&self, line: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        let line = line.clone();
        let mut versions = self.locked(|_, store| store.list::<VersionRecord>()).await?;
        versions.retain(|version| version.line == line);
        versions.sort_by(|a, b| a.number.cmp(&b.number));
        Ok(versions.into_iter().map(shown).collect())
    }

    /// A version is the same layers under another name, so that it takes no time.
    pub(super) async fn put_version(&self, publication: &Publication) -> Result<(), Error> {
        let wanted = publication.clone();
        self.locked(move |state, store| {
            let key = version_key(&wanted.line, &wanted.number);
            match store.find::<VersionRecord>(&key)? {
                Some(found) if found.source == wanted.source && found.tags == wanted.tags => return Ok(()),
                Some(found) => {
                    let (name, found) = (key, format!("provisioned of {}", found.source));
                    return Err(Error::InTheWay { noun: "image version", name, found });
                }
                None => {}
            }
            store.get::<ImageDefinition>(&definition_key(&wanted.line))?;
            let snapshot: SnapshotRecord = store.get(ids::parse_snapshot_id(&wanted.source)?.as_str())?;
            store.put(&VersionRecord {
                line: wanted.line,
                number: wanted.number,
                source: wanted.source,
                kind: snapshot.kind,
                chain: snapshot.chain,
                regions: wanted.regions,
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
        line: &DefinitionName,
        number: &VersionNumber,
        excluded: bool,
    ) -> Result<(), Error> {
        let key = version_key(line, number);
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

    pub(super) async fn remove_version(&self, line: &DefinitionName, number: &VersionNumber) -> Result<(), Error> {
        let key = version_key(line, number);
        self.locked_then_swept(move |_, store| store.remove::<VersionRecord>(&key)).await
    }
}

fn shown(version: VersionRecord) -> ImageVersion {
    let there = |region: String| RegionProgress { region, excluded: false, percent: Some(100), complete: true };
    ImageVersion {
        id: ids::version_id(&version.line, &version.number),
        number: version.number,
        state: VersionState::Succeeded,
        excluded: version.excluded,
        regions: version.regions.into_iter().map(there).collect(),
        storage: Some(version.storage),
        tags: version.tags,
        created: Some(version.created),
    }
}
