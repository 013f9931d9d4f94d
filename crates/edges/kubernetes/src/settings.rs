//! Protected settings of extensions in a Secret of the user's.

use k8s_openapi::api::core::v1;
use kiln_types::ProtectedSettings;
use kube::Api;
use tokio::time::Instant;

use crate::name::Namespace;
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

impl Cluster {
    /// Reads the protected settings of extensions from a Secret: each key is the name of an extension, its value the settings as JSON.
    pub async fn protected_settings(&self, namespace: &Namespace, name: &str) -> Result<ProtectedSettings, Error> {
        let action = format!("read the protected settings in Secret `{namespace}/{name}`");
        let api: Api<v1::Secret> = Api::namespaced(self.client.clone(), namespace.as_str());
        let secret = self.retry(&action, Instant::now() + RETRY_FOR, || api.get(name)).await?;
        let mut settings = ProtectedSettings::default();
        for (extension, bytes) in secret.data.unwrap_or_default() {
            let text = String::from_utf8_lossy(&bytes.0);
            let bad = |source| Error::BadSettings { action: action.clone(), source };
            settings.add(&extension, &text).map_err(bad)?;
        }
        Ok(settings)
    }
}
