//! A refused token is thrown away and the request sent once more.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request, StatusCode};

use crate::login::Renewing;

/// Sends a request again, once, with a token that was got after the first was refused.
///
/// The pipeline's own token policy forgets *its* copy on a 401 and then asks the credential, which still has its own: a token that expires
/// inside a long operation, or is revoked, would come back. A claims challenge is answered in the same way, by a new token; the
/// credentials cannot be told the claims.
#[derive(Debug)]
pub struct FreshTokenPolicy {
    credential: Arc<Renewing>,
}

impl FreshTokenPolicy {
    /// Watches over one credential's tokens. It stands before the policy that puts the token on.
    pub fn new(credential: Arc<Renewing>) -> Self {
        Self { credential }
    }
}

#[async_trait]
impl Policy for FreshTokenPolicy {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        let response = next[0].send(ctx, request, &next[1..]).await?;
        if response.status() != StatusCode::Unauthorized {
            return Ok(response);
        }
        self.credential.forget();
        request.body_mut().reset().await?;
        next[0].send(ctx, request, &next[1..]).await
    }
}
