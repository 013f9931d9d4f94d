//! The secret parts of a pool's recipe in a Secret of the user's, for canaries that join by the recipe.

use k8s_openapi::api::core::v1;
use kiln_types::{CanaryBootstrap, Secret};
use kube::Api;
use tokio::time::Instant;

use crate::name::Namespace;
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// The custom data, as the pool gets it.
const CUSTOM_DATA: &str = "customData";

/// The protected settings of the script extension, as JSON.
const PROTECTED_SETTINGS: &str = "protectedSettings";

impl Cluster {
    /// Reads the secret parts of a recipe. The message of an error names the Secret and the missing keys, and quotes nothing.
    pub async fn canary_bootstrap(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Result<CanaryBootstrap, String>, Error> {
        let api: Api<v1::Secret> = Api::namespaced(self.client.clone(), namespace.as_str());
        let action = format!("read Secret `{namespace}/{name}`");
        let found = self.retry(&action, Instant::now() + RETRY_FOR, || api.get_opt(name)).await?;
        let Some(secret) = found else { return Ok(Err(format!("Secret `{namespace}/{name}` does not exist"))) };
        let mut data = secret.data.unwrap_or_default();
        let mut take = |key: &str| match data.remove(key).map(|bytes| String::from_utf8(bytes.0)) {
            Some(Ok(text)) => Ok(Some(Secret::new(text)).filter(|text| !text.is_empty())),
            Some(Err(_)) => Err(format!("key `{key}` of Secret `{namespace}/{name}` is not UTF-8")),
            None => Ok(None),
        };
        let read = take(CUSTOM_DATA)
            .and_then(|custom_data| Ok(CanaryBootstrap { custom_data, protected_settings: take(PROTECTED_SETTINGS)? }));
        let empty = CanaryBootstrap::default();
        Ok(read.and_then(|read| {
            let none =
                || format!("Secret `{namespace}/{name}` has neither key `{CUSTOM_DATA}` nor `{PROTECTED_SETTINGS}`");
            if read == empty { Err(none()) } else { Ok(read) }
        }))
    }
}
