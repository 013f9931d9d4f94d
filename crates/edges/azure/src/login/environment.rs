//! Environment variables, as a value.

use std::collections::BTreeMap;
use std::fmt;

use super::error::LoginError;

/// A copy of the environment. A program takes it once; nothing else reads the process's own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// The variables that are looked at.
impl Environment {
    /// The application's id.
    pub const CLIENT_ID: &'static str = "AZURE_CLIENT_ID";
    /// The application's secret.
    pub const CLIENT_SECRET: &'static str = "AZURE_CLIENT_SECRET";
    /// The directory.
    pub const TENANT_ID: &'static str = "AZURE_TENANT_ID";
    /// Where tokens come from.
    pub const AUTHORITY_HOST: &'static str = "AZURE_AUTHORITY_HOST";
    /// The file with a Kubernetes service account's token.
    pub const FEDERATED_TOKEN_FILE: &'static str = "AZURE_FEDERATED_TOKEN_FILE";

    /// A variable's value; an empty one counts as none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// A variable that must be there.
    pub fn require(&self, name: &'static str) -> Result<&str, LoginError> {
        self.get(name).ok_or_else(|| LoginError::Variable { name, problem: "is not set".into() })
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
