//! Which image a machine starts from: the class's own, or the newest of its family's galleries.

use kiln_bootstrap::family::Family;
use kiln_bootstrap::images::{self, Cache, ImageError, Listed};
use kiln_bootstrap::{DeriveError, Resolved};
use kiln_types::{PublishedVersion, ImageCatalog};

/// The generation of machines that is made: every size that is sold today has it.
const GENERATION: u8 = 2;

/// The place of AKS's galleries in a subscription, where it stands for a gallery's name.
const SHARED: &str = "shared";

/// What said so, when nobody was asked.
const BELIEVED: &str = "an earlier list that is still believed";

/// An image that was chosen, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub id: String,
    /// What said so: a field, a call, or an earlier answer to it.
    pub by: String,
}

/// No image.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError<E: std::error::Error + 'static> {
    /// The inputs do not say which family.
    #[error(transparent)]
    Inputs(#[from] DeriveError),
    /// The galleries have none that suits.
    #[error("{source}; {call}")]
    None {
        source: ImageError,
        /// What was asked.
        call: String,
    },
    /// The region must be known.
    #[error("nobody set `location`: an image is chosen in a region")]
    NoLocation,
    /// The definition that the class names has no version.
    #[error("`imageId`: {id} has no version in {location} that machines may start from")]
    NoVersion { id: String, location: String },
    /// The galleries could not be looked into.
    #[error(transparent)]
    Cloud(E),
}

/// Chooses the image. What was listed before is believed for a while, and what is listed now goes into the cache.
pub async fn choose<S: ImageCatalog>(
    shelves: &S,
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
        return newest_of(shelves, named, location).await;
    }
    by_family(shelves, inputs, family, cache, now).await
}

/// The newest version of a definition that the class names: a gallery of one's own, or what the prototype operation made.
async fn newest_of<S: ImageCatalog>(shelves: &S, definition: &str, location: &str) -> Result<Chosen, ChooseError<S::Error>> {
    let definition = definition.trim_end_matches('/').trim_end_matches("/versions/latest");
    let parts: Vec<&str> = definition.trim_matches('/').split('/').collect();
    let seen = match parts.as_slice() {
        [kind, gallery, _, name] if kind.eq_ignore_ascii_case("CommunityGalleries") => {
            shelves.community_versions(location, gallery, name).await
        }
        _ => shelves.definition_versions(location, definition).await,
    };
    let seen = seen.map_err(ChooseError::Cloud)?;
    let listed: Vec<Listed> = seen.value.into_iter().map(listed).collect();
    let name = parts.last().copied().unwrap_or_default();
    let newest = images::newest(name, &listed)
        .ok_or_else(|| ChooseError::NoVersion { id: definition.to_owned(), location: location.to_owned() })?;
    Ok(Chosen { id: format!("{definition}/versions/{}", newest.version), by: seen.call })
}

async fn by_family<S: ImageCatalog>(
    shelves: &S,
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
        return Err(ChooseError::None { source, call: "no gallery was asked".to_owned() });
    };
    let arch = inputs.arch()?;
    let definitions: Vec<&str> =
        family.definitions(fips, trusted).iter().filter(|one| one.arch == arch).map(|one| one.name).collect();
    let place = if subscription.is_some() { SHARED } else { community };
    let question: Vec<&str> = definitions.iter().copied().chain([place, location]).collect();
    let key = Cache::key(&question, inputs.text("kubernetesVersion"));
    let believed = cache.get(&key, now).map(<[Listed]>::to_vec);
    let asked = if believed.is_some() { Vec::new() } else { ask(shelves, inputs, &definitions, place).await? };
    let versions =
        believed.clone().unwrap_or_else(|| asked.iter().flat_map(|(versions, _)| versions.clone()).collect());
    // An empty answer is not worth believing for days.
    if believed.is_none() && !versions.is_empty() {
        cache.put(key, now, versions.clone());
    }
    let calls = |of: Option<&str>| {
        let asked =
            asked.iter().filter(|(listed, _)| of.is_none_or(|name| listed.iter().any(|one| one.definition == name)));
        let calls: Vec<&str> = asked.map(|(_, call)| call.as_str()).collect();
        if calls.is_empty() { BELIEVED.to_owned() } else { calls.join(", ") }
    };
    match images::choose(family, (fips, trusted), (arch, GENERATION), subscription, &versions) {
        Ok(id) => Ok(Chosen { by: calls(Some(&id.definition)), id: id.to_string() }),
        Err(source) => Err(ChooseError::None { source, call: calls(None) }),
    }
}

/// Lists of versions, each with its call.
async fn ask<S: ImageCatalog>(
    shelves: &S,
    inputs: &Resolved,
    definitions: &[&str],
    place: &str,
) -> Result<Vec<(Vec<Listed>, String)>, ChooseError<S::Error>> {
    let location = inputs.text("location");
    if place == SHARED {
        let seen = shelves.node_image_versions(location).await.map_err(ChooseError::Cloud)?;
        return Ok(vec![(seen.value.into_iter().map(listed).collect(), seen.call)]);
    }
    let mut lists = Vec::new();
    for name in definitions {
        let seen = shelves.community_versions(location, place, name).await.map_err(ChooseError::Cloud)?;
        lists.push((seen.value.into_iter().map(listed).collect(), seen.call));
    }
    Ok(lists)
}

/// Whether an id names one version.
fn is_version(id: &str) -> bool {
    let mut parts = id.rsplit('/');
    let (version, segment) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    segment.eq_ignore_ascii_case("versions") && !version.is_empty() && !version.eq_ignore_ascii_case("latest")
}

fn listed(version: PublishedVersion) -> Listed {
    let PublishedVersion { definition, version, published, excluded } = version;
    Listed { definition, version, published, excluded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_definition_and_one_that_says_latest_name_no_version() {
        assert!(is_version("/CommunityGalleries/g/images/d/versions/1.0.0"));
        for id in ["", "/CommunityGalleries/g/images/d", "/x/images/d/versions/latest", "/x/images/d/versions/"] {
            assert!(!is_version(id), "{id}");
        }
    }
}
