//! A credential that can forget.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};

type Make = dyn Fn() -> azure_core::Result<Arc<dyn TokenCredential>> + Send + Sync;

/// A credential that is made anew when its token was refused.
///
/// The credentials of `azure_identity` keep a token until its time is nearly over and cannot be told that it is no good any more.
pub struct Renewing {
    make: Box<Make>,
    current: Mutex<Option<Arc<dyn TokenCredential>>>,
}

impl Renewing {
    /// Makes the first credential now, so that wrong parts are found now.
    pub fn new(
        make: impl Fn() -> azure_core::Result<Arc<dyn TokenCredential>> + Send + Sync + 'static,
    ) -> azure_core::Result<Self> {
        let first = make()?;
        Ok(Self { make: Box::new(make), current: Mutex::new(Some(first)) })
    }

    /// Throws the credential and its token away.
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

impl fmt::Debug for Renewing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewing")
    }
}

#[async_trait]
impl TokenCredential for Renewing {
    async fn get_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        self.current()?.get_token(scopes, options).await
    }
}
