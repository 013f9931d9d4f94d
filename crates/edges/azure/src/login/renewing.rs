//! A credential that can drop its cached token.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};

type Make = dyn Fn() -> azure_core::Result<Arc<dyn TokenCredential>> + Send + Sync;

/// A credential that is recreated after its token was rejected.
///
/// The credentials of `azure_identity` cache a token until shortly before it expires and offer no way to invalidate it.
pub struct RenewingCredential {
    make: Box<Make>,
    current: Mutex<Option<Arc<dyn TokenCredential>>>,
}

impl RenewingCredential {
    /// Creates the first credential immediately, so that configuration errors are reported early.
    pub fn new(
        make: impl Fn() -> azure_core::Result<Arc<dyn TokenCredential>> + Send + Sync + 'static,
    ) -> azure_core::Result<Self> {
        let first = make()?;
        Ok(Self { make: Box::new(make), current: Mutex::new(Some(first)) })
    }

    /// Drops the credential and its token.
    pub fn forget(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn current(&self) -> azure_core::Result<Arc<dyn TokenCredential>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(credential) = current.as_ref() {
            return Ok(credential.clone());
        }
        let credential = (self.make)()?;
        *current = Some(credential.clone());
        Ok(credential)
    }
}

impl fmt::Debug for RenewingCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RenewingCredential")
    }
}

#[async_trait]
impl TokenCredential for RenewingCredential {
    async fn get_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        self.current()?.get_token(scopes, options).await
    }
}
