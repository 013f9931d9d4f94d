//! Where images for launches stand: galleries that are open to everybody, those of AKS, and one's own.

use std::future::Future;

use crate::error::FactoryError;
use crate::landscape::Seen;

/// A version that a machine could start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedVersion {
    pub definition: String,
    pub version: String,
    /// When it was published, in seconds since 1970, where the gallery says it.
    pub published: Option<i64>,
    /// Whether machines must not start from it.
    pub excluded: bool,
}

/// A cloud whose galleries can be looked into.
pub trait Shelves: Send + Sync {
    /// What can go wrong.
    type Error: FactoryError;

    /// Versions of a definition in a gallery that is open to everybody. A definition that is not there has none.
    fn community_versions(
        &self,
        location: &str,
        gallery: &str,
        definition: &str,
    ) -> impl Future<Output = Result<Seen<Vec<PublishedVersion>>, Self::Error>> + Send;

    /// The versions that AKS offers in a region, of all its galleries.
    fn node_image_versions(
        &self,
        location: &str,
    ) -> impl Future<Output = Result<Seen<Vec<PublishedVersion>>, Self::Error>> + Send;

    /// Versions of a definition by its resource id, as a region has them. Those that are not finished there are left out.
    fn definition_versions(
        &self,
        location: &str,
        definition: &str,
    ) -> impl Future<Output = Result<Seen<Vec<PublishedVersion>>, Self::Error>> + Send;
}
