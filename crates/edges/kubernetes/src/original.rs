//! The recipe that a pool had before the first run, for the way back to it. It is written once and never again.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kiln_types::{Extension, ImageSource, PoolName, SavedExtension, Secret};
use kube::Api;
use kube::api::PostParams;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::call::PATIENCE;
use crate::name::{Namespace, Owner, object_name};
use crate::{Cluster, Error};

const KEY: &str = "original.json";

/// What new instances of a pool were made from before the first run. It prints no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalRecipe {
    pub image: ImageSource,
    /// The extensions, in the order of the recipe.
    pub extensions: Vec<SavedExtension>,
    /// The custom data, where it could be had.
    pub custom_data: Option<Secret>,
    /// The run that saved it.
    pub saved_by: Owner,
}

/// What became of a recipe that was to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is saved.
    Saved,
    /// One was saved before, and stays: what a later run reads of a pool is no original.
    WasThere,
}

/// Where the original recipe of a pool is kept: in a Secret that the server lets nobody change.
#[derive(Clone)]
pub struct OriginalStore {
    cluster: Cluster,
    api: Api<v1::Secret>,
    name: String,
    namespace: Namespace,
}

/// As it stands in the Secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    image: ImageSource,
    extensions: Vec<WrittenExtension>,
    custom_data: Option<String>,
    saved_by: Owner,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenExtension {
    extension: Extension,
    protected_settings: Option<String>,
}

impl From<&OriginalRecipe> for Written {
    fn from(recipe: &OriginalRecipe) -> Self {
        let exposed = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let extension = |saved: &SavedExtension| WrittenExtension {
            extension: saved.extension.clone(),
            protected_settings: exposed(&saved.protected_settings),
        };
        Self {
            image: recipe.image.clone(),
            extensions: recipe.extensions.iter().map(extension).collect(),
            custom_data: exposed(&recipe.custom_data),
            saved_by: recipe.saved_by.clone(),
        }
    }
}

impl From<Written> for OriginalRecipe {
    fn from(written: Written) -> Self {
        let extension = |one: WrittenExtension| SavedExtension {
            extension: one.extension,
            protected_settings: one.protected_settings.map(Secret::new),
        };
        Self {
            image: written.image,
            extensions: written.extensions.into_iter().map(extension).collect(),
            custom_data: written.custom_data.map(Secret::new),
            saved_by: written.saved_by,
        }
    }
}

impl OriginalStore {
    /// The store of a pool.
    pub fn new(cluster: &Cluster, namespace: &Namespace, pool: &PoolName) -> Self {
        Self {
            cluster: cluster.clone(),
            api: Api::namespaced(cluster.client.clone(), namespace.as_str()),
            name: object_name("kiln-original", pool),
            namespace: namespace.clone(),
        }
    }

    /// Reads the recipe, if one was saved.
    pub async fn load(&self) -> Result<Option<OriginalRecipe>, Error> {
        let what = format!("read the original recipe `{self}`");
        let deadline = Instant::now() + PATIENCE;
        let secret = self.cluster.persist(&what, deadline, || self.api.get_opt(&self.name)).await?;
        let Some(secret) = secret else { return Ok(None) };
        let bytes = secret.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default().0;
        match serde_json::from_slice::<Written>(&bytes) {
            Ok(written) => Ok(Some(written.into())),
            // The parser's own words may quote what it read.
            Err(error) => Err(Error::BadSecret { what, key: KEY, line: error.line(), column: error.column() }),
        }
    }

    /// Saves the recipe, unless one was saved before.
    pub async fn save(&self, recipe: &OriginalRecipe) -> Result<Kept, Error> {
        let what = format!("save the original recipe `{self}`");
        let bytes = serde_json::to_vec(&Written::from(recipe)).expect("names and texts are JSON");
        let secret = v1::Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "kiln".to_owned())])),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(bytes))])),
            ..v1::Secret::default()
        };
        let (params, deadline) = (PostParams::default(), Instant::now() + PATIENCE);
        match self.cluster.persist(&what, deadline, || self.api.create(&params, &secret)).await {
            Ok(_) => Ok(Kept::Saved),
            // Somebody's, or ours whose answer was lost.
            Err(error) if error.conflict() => match self.load().await? {
                Some(there) if there == *recipe => Ok(Kept::Saved),
                _ => Ok(Kept::WasThere),
            },
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for OriginalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for OriginalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OriginalStore({self})")
    }
}
