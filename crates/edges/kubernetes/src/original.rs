//! The recipe of a pool from before the first run, for `rollback --to original`. It is written once and never changed.

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

use crate::name::{Namespace, Owner, object_name};
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

const KEY: &str = "original.json";

/// The recipe of a pool from before the first run. `Debug` prints no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalRecipe {
    pub image: ImageSource,
    /// In the order of the recipe.
    pub extensions: Vec<SavedExtension>,
    /// Unset where it could not be read.
    pub custom_data: Option<Secret>,
    pub saved_by: Owner,
}

/// The result of saving a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveOutcome {
    Saved,
    /// An earlier recipe exists and is kept: the recipe that a later run reads is not the original one.
    AlreadySaved,
}

/// Stores the original recipe of a pool in an immutable Secret.
#[derive(Clone)]
pub struct OriginalStore {
    cluster: Cluster,
    api: Api<v1::Secret>,
    name: String,
    namespace: Namespace,
}

/// The format in the Secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRecipe {
    image: ImageSource,
    extensions: Vec<StoredExtension>,
    custom_data: Option<String>,
    saved_by: Owner,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredExtension {
    extension: Extension,
    protected_settings: Option<String>,
}

impl From<&OriginalRecipe> for StoredRecipe {
    fn from(recipe: &OriginalRecipe) -> Self {
        let exposed = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let extension = |saved: &SavedExtension| StoredExtension {
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

impl From<StoredRecipe> for OriginalRecipe {
    fn from(written: StoredRecipe) -> Self {
        let extension = |one: StoredExtension| SavedExtension {
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
    /// The original recipe of a pool.
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
        let action = format!("read the original recipe `{self}`");
        let deadline = Instant::now() + RETRY_FOR;
        let secret = self.cluster.retry(&action, deadline, || self.api.get_opt(&self.name)).await?;
        let Some(secret) = secret else { return Ok(None) };
        let bytes = secret.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default().0;
        match serde_json::from_slice::<StoredRecipe>(&bytes) {
            Ok(written) => Ok(Some(written.into())),
            // The parser's message may quote the secret.
            Err(error) => Err(Error::BadSecret { action, key: KEY, line: error.line(), column: error.column() }),
        }
    }

    /// Saves the recipe, unless one exists.
    pub async fn save(&self, recipe: &OriginalRecipe) -> Result<SaveOutcome, Error> {
        let action = format!("save the original recipe `{self}`");
        let bytes = serde_json::to_vec(&StoredRecipe::from(recipe)).expect("names and texts are JSON");
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
        let (params, deadline) = (PostParams::default(), Instant::now() + RETRY_FOR);
        match self.cluster.retry(&action, deadline, || self.api.create(&params, &secret)).await {
            Ok(_) => Ok(SaveOutcome::Saved),
            // Created by another run, or by us with a lost response.
            Err(error) if error.is_conflict() => match self.load().await? {
                Some(existing) if existing == *recipe => Ok(SaveOutcome::Saved),
                _ => Ok(SaveOutcome::AlreadySaved),
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
