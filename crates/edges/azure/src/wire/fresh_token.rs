//! Token renewal after a 401.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request, StatusCode};

use crate::login::RenewingCredential;

/// Repeats a request once, with a new token, after a 401.
///
/// The pipeline's own token policy drops *its* copy of the token on a 401 and then asks the credential, which returns its cached one. A
/// token that was revoked, or expired during a long operation, would be sent again. Claims challenges are answered with a new token too,
/// because the credentials accept no claims.
#[derive(Debug)]
pub struct FreshTokenPolicy {
    credential: Arc<RenewingCredential>,
}

impl FreshTokenPolicy {
    /// Creates the policy. It must precede the policy that adds the token.
    pub fn new(credential: Arc<RenewingCredential>) -> Self {
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
