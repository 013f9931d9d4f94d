//! Galleries, image definitions and versions.

use kiln_types::{
    DefinitionName, Gallery, GalleryName, ImageDefinition, ImageVersion, Publication, RegionProgress, Tags,
    VersionNumber, VersionState,
};

use super::Local;
use crate::error::Error;
use crate::ids;
use crate::power::Power;
use crate::records::{SnapshotRecord, VersionRecord, line_key, version_key};

impl<P: Power> Local<P> {
    pub(super) async fn look_for_gallery(&self, name: &GalleryName) -> Result<Option<Gallery>, Error> {
        let name = name.clone();
        self.held(move |_, held| held.find(name.as_str())).await
    }

    pub(super) async fn make_gallery(&self, gallery: &Gallery) -> Result<(), Error> {
        let gallery = gallery.clone();
        self.held(move |_, held| match held.find::<Gallery>(gallery.name.as_str())? {
            Some(_) => Ok(()),
            None => held.put(&gallery),
        })
        .await
    }

    pub(super) async fn look_for_line(&self, line: &DefinitionName) -> Result<Option<ImageDefinition>, Error> {
        let key = line_key(line);
        self.held(move |_, held| held.find(&key)).await
    }

    pub(super) async fn make_definition(&self, line: &ImageDefinition) -> Result<(), Error> {
        let line = line.clone();
        self.held(move |_, held| {
            held.get::<Gallery>(line.name.gallery.as_str())?;
            let kind = |line: &ImageDefinition| (line.generation, line.architecture, line.security_type.clone());
            match held.find::<ImageDefinition>(&line_key(&line.name))? {
                None => held.put(&line),
                Some(found) if kind(&found) == kind(&line) => Ok(()),
                Some(found) => {
                    let (name, found) = (line_key(&line.name), format!("for machines {:?}", kind(&found)));
                    Err(Error::InTheWay { noun: "image definition", name, found })
                }
            }
        })
        .await
    }

    pub(super) async fn change_line_tags(&self, line: &DefinitionName, changes: &Tags) -> Result<(), Error> {
        let (key, changes) = (line_key(line), changes.clone());
        self.held(move |_, held| {
            let mut line: ImageDefinition = held.get(&key)?;
            line.tags.extend(changes);
            held.put(&line)
        })
        .await
    }

    pub(super) async fn list_versions(&self, line: &DefinitionName) -> Result<Vec<ImageVersion>, Error> {
        let line = line.clone();
        let mut versions = self.held(|_, held| held.list::<VersionRecord>()).await?;
        versions.retain(|version| version.line == line);
        versions.sort_by(|a, b| a.number.cmp(&b.number));
        Ok(versions.into_iter().map(shown).collect())
    }

    /// A version is the same layers under another name, so that it takes no time.
    pub(super) async fn make_version(&self, publication: &Publication) -> Result<(), Error> {
        let wanted = publication.clone();
        self.held(move |shelf, held| {
            let key = version_key(&wanted.definition, &wanted.number);
            match held.find::<VersionRecord>(&key)? {
                Some(found) if found.source == wanted.source && found.tags == wanted.tags => return Ok(()),
                Some(found) => {
                    let (name, found) = (key, format!("made of {}", found.source));
                    return Err(Error::InTheWay { noun: "image version", name, found });
                }
                None => {}
            }
            held.get::<ImageDefinition>(&line_key(&wanted.definition))?;
            let snapshot: SnapshotRecord = held.get(ids::snapshot(&wanted.source)?.as_str())?;
            held.put(&VersionRecord {
                line: wanted.definition,
                number: wanted.number,
                source: wanted.source,
                kind: snapshot.kind,
                chain: snapshot.chain,
                regions: wanted.regions,
                storage: wanted.storage,
                excluded: wanted.excluded,
                created: shelf.now(),
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
        self.held(move |_, held| {
            let mut version: VersionRecord = held.get(&key)?;
            if version.excluded == excluded {
                return Ok(());
            }
            version.excluded = excluded;
            held.put(&version)
        })
        .await
    }

    pub(super) async fn drop_version(&self, line: &DefinitionName, number: &VersionNumber) -> Result<(), Error> {
        let key = version_key(line, number);
        self.swept(move |_, held| held.remove::<VersionRecord>(&key)).await
    }
}

fn shown(version: VersionRecord) -> ImageVersion {
    let there = |region: String| RegionProgress { region, excluded: false, percent: Some(100), complete: true };
    ImageVersion {
        id: ids::of_version(&version.line, &version.number),
        number: version.number,
        state: VersionState::Succeeded,
        excluded: version.excluded,
        regions: version.regions.into_iter().map(there).collect(),
        storage: Some(version.storage),
        tags: version.tags,
        created: Some(version.created),
    }
}
