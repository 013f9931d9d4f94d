//! Published image versions for launches.

use kiln_types::{FactoryError, ImageCatalog, ImageVersion, PublishedVersion, Sourced, VersionState, same_region};

use super::{Azure, missing_field};
use crate::arm::{Api, Call, Error, ResourceId};
use crate::models::published::{CommunityVersion, NodeImageVersion, seconds};
use crate::models::version::Version;

impl Azure {
    fn below_location(&self, provider: &str, location: &str, rest: &str) -> String {
        format!("/subscriptions/{}/providers/{provider}/locations/{location}/{rest}", self.scope.subscription())
    }
}

impl ImageCatalog for Azure {
    type Error = Error;

    async fn community_versions(
        &self,
        location: &str,
        gallery: &str,
        definition: &str,
    ) -> Result<Sourced<Vec<PublishedVersion>>, Error> {
        let rest = format!("communityGalleries/{gallery}/images/{definition}/versions");
        let path = self.below_location("Microsoft.Compute", location, &rest);
        let listed: Vec<CommunityVersion> = match self.arm.list(&Call::get(path.as_str(), Api::Gallery)).await {
            Ok(listed) => listed,
            Err(error) if error.not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let value = listed.into_iter().map(|version| version.read(definition)).collect();
        Ok(Sourced { value, call: format!("GET {path}") })
    }

    async fn node_image_versions(&self, location: &str) -> Result<Sourced<Vec<PublishedVersion>>, Error> {
        let path = self.below_location("Microsoft.ContainerService", location, "nodeImageVersions");
        let listed: Vec<NodeImageVersion> = self.arm.list(&Call::get(path.as_str(), Api::Containers)).await?;
        Ok(Sourced { value: listed.into_iter().map(PublishedVersion::from).collect(), call: format!("GET {path}") })
    }

    async fn definition_versions(
        &self,
        location: &str,
        definition: &str,
    ) -> Result<Sourced<Vec<PublishedVersion>>, Error> {
        let id: ResourceId = definition.parse()?;
        let path = id.action("versions");
        let listed: Vec<Version> = match self.arm.list(&Call::get(path.as_str(), Api::Gallery)).await {
            Ok(listed) => listed,
            Err(error) if error.not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let read = listed.into_iter().map(|version| version.read().map_err(missing_field(&id)));
        let versions = read.collect::<Result<Vec<ImageVersion>, _>>()?;
        let value = versions.iter().filter_map(|version| published_in(version, id.name(), location)).collect();
        Ok(Sourced { value, call: format!("GET {path}") })
    }
}

/// Converts a version, if machines in the region can be created from it.
fn published_in(version: &ImageVersion, definition: &str, location: &str) -> Option<PublishedVersion> {
    let region = version.regions.iter().find(|region| same_region(&region.region, location))?;
    (version.state == VersionState::Succeeded && region.complete).then(|| PublishedVersion {
        definition: definition.to_owned(),
        version: version.number.as_str().to_owned(),
        published: version.created.as_deref().and_then(seconds),
        excluded: version.excluded || region.excluded,
    })
}
