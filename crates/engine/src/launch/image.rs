//! Chooses the image of a machine: the image that its class specifies, or the newest of its family.

use kiln_bootstrap::family::Family;
use kiln_bootstrap::images::{self, Cache, ImageError, ListedVersion};
use kiln_bootstrap::{DeriveError, Resolved};
use kiln_types::{ImageCatalog, PublishedVersion};

/// The Hyper-V generation of new machines. All current sizes support it.
const GENERATION: u8 = 2;

/// Used instead of a gallery's name for AKS' galleries in a subscription.
const SHARED: &str = "shared";

/// The source of a cached list.
const CACHED: &str = "a cached list";

/// A chosen image and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub id: String,
    /// A field, a request, or the cache.
    pub by: String,
}

/// Why no image can be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError<E: std::error::Error + 'static> {
    #[error(transparent)]
    Inputs(#[from] DeriveError),
    /// The galleries have no suitable version.
    #[error("{source} ({call})")]
    None { source: ImageError, call: String },
    #[error("`location` is not set: images are chosen for a region")]
    NoLocation,
    #[error("`imageId`: {id} has no usable version in {location}")]
    NoVersion { id: String, location: String },
    #[error(transparent)]
    Cloud(E),
}

/// Chooses the image. Lists of versions are cached for a while.
pub async fn choose<S: ImageCatalog>(
    catalog: &S,
    inputs: &Resolved,
    cache: &mut Cache,
    now: i64,
) -> Result<Chosen, ChooseError<S::Error>> {
    let (family, location) = (inputs.family()?, inputs.text("location"));
    let named = inputs.text("imageId");
    if is_version(named) {
        return Ok(Chosen { id: named.to_owned(), by: "imageId".to_owned() });
    }
    if location.is_empty() {
        return Err(ChooseError::NoLocation);
    }
    if !named.is_empty() {
        return newest_version(catalog, named, location).await;
    }
    by_family(catalog, inputs, family, cache, now).await
}

/// The newest version of the definition that the class names, in the user's own gallery or a community gallery.
async fn newest_version<S: ImageCatalog>(
    catalog: &S,
    definition: &str,
    location: &str,
) -> Result<Chosen, ChooseError<S::Error>> {
    let definition = definition.trim_end_matches('/').trim_end_matches("/versions/latest");
    let parts: Vec<&str> = definition.trim_matches('/').split('/').collect();
    let response = match parts.as_slice() {
        [kind, gallery, _, name] if kind.eq_ignore_ascii_case("CommunityGalleries") => {
            catalog.community_versions(location, gallery, name).await
        }
        _ => catalog.definition_versions(location, definition).await,
    };
    let response = response.map_err(ChooseError::Cloud)?;
    let listed: Vec<ListedVersion> = response.value.into_iter().map(listed).collect();
    let name = parts.last().copied().unwrap_or_default();
    let newest = images::newest(name, &listed)
        .ok_or_else(|| ChooseError::NoVersion { id: definition.to_owned(), location: location.to_owned() })?;
    Ok(Chosen { id: format!("{definition}/versions/{}", newest.version), by: response.call })
}

async fn by_family<S: ImageCatalog>(
    catalog: &S,
    inputs: &Resolved,
    family: Family,
    cache: &mut Cache,
    now: i64,
) -> Result<Chosen, ChooseError<S::Error>> {
    let location = inputs.text("location");
    let (fips, trusted) = (inputs.text("fipsMode") == "FIPS", inputs.is_true("trustedLaunch"));
    let subscription = inputs.is_true("useSharedGallery").then(|| inputs.text("gallerySubscriptionId"));
    let Some((community, _)) = family.gallery() else {
        let source = ImageError::Unnamed(family.name());
        return Err(ChooseError::None { source, call: "no gallery was listed".to_owned() });
    };
    let arch = inputs.arch()?;
    let definitions: Vec<&str> =
        family.definitions(fips, trusted).iter().filter(|one| one.arch == arch).map(|one| one.name).collect();
    let gallery = if subscription.is_some() { SHARED } else { community };
    let question: Vec<&str> = definitions.iter().copied().chain([gallery, location]).collect();
    let key = Cache::key(&question, inputs.text("kubernetesVersion"));
    let cached = cache.get(&key, now).map(<[ListedVersion]>::to_vec);
    let listed = if cached.is_some() { Vec::new() } else { list(catalog, inputs, &definitions, gallery).await? };
    let versions = cached.clone().unwrap_or_else(|| listed.iter().flat_map(|(versions, _)| versions.clone()).collect());
    // An empty list is not cached.
    if cached.is_none() && !versions.is_empty() {
        cache.put(key, now, versions.clone());
    }
    let calls = |definition: Option<&str>| {
        let has = |versions: &[ListedVersion]| {
            definition.is_none_or(|name| versions.iter().any(|one| one.definition == name))
        };
        let calls: Vec<&str> =
            listed.iter().filter(|(versions, _)| has(versions)).map(|(_, call)| call.as_str()).collect();
        if calls.is_empty() { CACHED.to_owned() } else { calls.join(", ") }
    };
    match images::choose(family, (fips, trusted), (arch, GENERATION), subscription, &versions) {
        Ok(id) => Ok(Chosen { by: calls(Some(&id.definition)), id: id.to_string() }),
        Err(source) => Err(ChooseError::None { source, call: calls(None) }),
    }
}

/// Lists versions, with the request of each list.
async fn list<S: ImageCatalog>(
    catalog: &S,
    inputs: &Resolved,
    definitions: &[&str],
    gallery: &str,
) -> Result<Vec<(Vec<ListedVersion>, String)>, ChooseError<S::Error>> {
    let location = inputs.text("location");
    if gallery == SHARED {
        let response = catalog.node_image_versions(location).await.map_err(ChooseError::Cloud)?;
        return Ok(vec![(response.value.into_iter().map(listed).collect(), response.call)]);
    }
    let mut lists = Vec::new();
    for name in definitions {
        let response = catalog.community_versions(location, gallery, name).await.map_err(ChooseError::Cloud)?;
        lists.push((response.value.into_iter().map(listed).collect(), response.call));
    }
    Ok(lists)
}

/// Whether an image id includes a version.
fn is_version(id: &str) -> bool {
    let mut parts = id.rsplit('/');
    let (version, segment) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    segment.eq_ignore_ascii_case("versions") && !version.is_empty() && !version.eq_ignore_ascii_case("latest")
}

fn listed(version: PublishedVersion) -> ListedVersion {
    let PublishedVersion { definition, version, published, excluded } = version;
    ListedVersion { definition, version, published, excluded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_definitions_and_of_latest_have_no_version() {
        assert!(is_version("/CommunityGalleries/g/images/d/versions/1.0.0"));
        for id in ["", "/CommunityGalleries/g/images/d", "/x/images/d/versions/latest", "/x/images/d/versions/"] {
            assert!(!is_version(id), "{id}");
        }
    }
}
