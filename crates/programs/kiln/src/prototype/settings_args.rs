//! The arguments with the protected settings of script extensions, for runs and for `rollback`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use kiln_kubernetes::{Cluster, Namespace};
use kiln_types::{ProtectedSettings, error_chain};

use crate::failure::Failure;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingsArgs {
    /// Protected settings of the pool's script extensions, which Azure never returns: a JSON object by extension name
    #[arg(long, value_name = "FILE", conflicts_with = "protected_settings_secret")]
    protected_settings: Option<PathBuf>,
    /// Secret with the protected settings: one key for each extension, with its settings as JSON
    #[arg(long, value_name = "NAMESPACE/NAME")]
    protected_settings_secret: Option<SecretName>,
}

impl SettingsArgs {
    /// Reads the file or the Secret. Errors do not quote what they contain.
    pub(crate) async fn read(&self, cluster: &Cluster) -> Result<ProtectedSettings, Failure> {
        if let Some(secret) = &self.protected_settings_secret {
            let read = cluster.protected_settings(&secret.namespace, &secret.name).await;
            return read.map_err(|error| Failure::chain(1, &error));
        }
        let Some(path) = &self.protected_settings else { return Ok(ProtectedSettings::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
        ProtectedSettings::parse(&text).map_err(|error| Failure::file(path, error_chain::to_line(&error)))
    }

    /// The Secret, as `namespace/name`.
    pub(crate) fn secret(&self) -> Option<String> {
        self.protected_settings_secret.as_ref().map(|secret| format!("{}/{}", secret.namespace, secret.name))
    }
}

/// The name of a Secret with its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SecretName {
    namespace: Namespace,
    name: String,
}

impl FromStr for SecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected NAMESPACE/NAME, such as `kiln/pool1-settings`".to_owned();
        let (namespace, name) = text.split_once('/').ok_or_else(expected)?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(expected());
        }
        Ok(Self { namespace: namespace.parse().map_err(|_| expected())?, name: name.to_owned() })
    }
}
