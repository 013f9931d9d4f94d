//! Environment variables as a value.

use std::collections::BTreeMap;
use std::fmt;

use super::error::LoginError;

/// A copy of the environment. The program creates it once; nothing else reads the process environment.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// The variables that kiln reads.
impl Environment {
    /// Client id of the application.
    pub const CLIENT_ID: &'static str = "AZURE_CLIENT_ID";
    /// Client secret of the application.
    pub const CLIENT_SECRET: &'static str = "AZURE_CLIENT_SECRET";
    /// Tenant id.
    pub const TENANT_ID: &'static str = "AZURE_TENANT_ID";
    /// Endpoint that issues tokens.
    pub const AUTHORITY_HOST: &'static str = "AZURE_AUTHORITY_HOST";
    /// File with the token of a Kubernetes service account.
    pub const FEDERATED_TOKEN_FILE: &'static str = "AZURE_FEDERATED_TOKEN_FILE";

    /// Returns the value of a variable. An empty value counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Returns the value of a required variable.
    pub fn require(&self, name: &'static str) -> Result<&str, LoginError> {
        self.get(name).ok_or_else(|| LoginError::Variable { name, problem: "not set".into() })
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
