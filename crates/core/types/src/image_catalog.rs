//! The port for choosing an image: community galleries, the galleries of AKS, and the user's own.

use std::future::Future;

use crate::error::FactoryError;
use crate::resource_group::Sourced;

/// An image version that a machine can be created from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedVersion {
    pub definition: String,
    pub version: String,
    /// Seconds since 1970, if the gallery reports it.
    pub published: Option<i64>,
    pub excluded: bool,
}

/// A cloud whose galleries can be listed.
pub trait ImageCatalog: Send + Sync {
    /// The error type of this cloud.
    type Error: FactoryError;

    /// Versions of a definition in a community gallery; none if the definition does not exist.
    fn community_versions(
        &self,
        location: &str,
        gallery: &str,
        definition: &str,
    ) -> impl Future<Output = Result<Sourced<Vec<PublishedVersion>>, Self::Error>> + Send;

    /// The versions that AKS offers in a region, from all its galleries.
    fn node_image_versions(
        &self,
        location: &str,
    ) -> impl Future<Output = Result<Sourced<Vec<PublishedVersion>>, Self::Error>> + Send;

    /// Versions of a definition, by its resource id, that are complete in a region.
    fn definition_versions(
        &self,
        location: &str,
        definition: &str,
    ) -> impl Future<Output = Result<Sourced<Vec<PublishedVersion>>, Self::Error>> + Send;
}
