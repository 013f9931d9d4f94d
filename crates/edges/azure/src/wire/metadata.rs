//! Routing of requests to the metadata service.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::{AsyncRawResponse, HttpClient, Request, Url};

/// The address of the metadata service. The managed identity credential of `azure_identity` has it built in.
pub const METADATA_ADDRESS: &str = "169.254.169.254";

/// Routes requests to the metadata service: never through a proxy, and to another base URL if one is configured.
#[derive(Debug)]
pub struct MetadataRoute {
    others: Arc<dyn HttpClient>,
    direct: Arc<dyn HttpClient>,
    base: Option<Url>,
}

impl MetadataRoute {
    /// `base` replaces scheme, host and port. If it has a path (`/vm/NAME`), that precedes the request's path.
    pub fn new(others: Arc<dyn HttpClient>, direct: Arc<dyn HttpClient>, base: Option<Url>) -> Self {
        Self { others, direct, base }
    }
}

#[async_trait]
impl HttpClient for MetadataRoute {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        if request.url().host_str() != Some(METADATA_ADDRESS) {
            return self.others.execute_request(request).await;
        }
        let Some(base) = &self.base else {
            return self.direct.execute_request(request).await;
        };
        let mut rerouted = request.clone();
        *rerouted.url_mut() = rebase(request.url(), base);
        self.direct.execute_request(&rerouted).await
    }
}

fn rebase(url: &Url, base: &Url) -> Url {
    let mut rebased = base.clone();
    rebased.set_path(&format!("{}{}", base.path().trim_end_matches('/'), url.path()));
    rebased.set_query(url.query());
    rebased
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rebase_keeps_path_and_query() {
        let url = Url::parse("http://169.254.169.254/metadata/identity/oauth2/token?api-version=1&resource=r").unwrap();
        let base = Url::parse("http://127.0.0.1:8080/vm/node0/").unwrap();
        assert_eq!(
            rebase(&url, &base).as_str(),
            "http://127.0.0.1:8080/vm/node0/metadata/identity/oauth2/token?api-version=1&resource=r"
        );
    }
}
