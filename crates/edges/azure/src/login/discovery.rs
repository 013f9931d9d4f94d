//! Discovery of a cloud's endpoints.

use azure_core::http::{HttpClient, Method, Request, Url};
use serde::Deserialize;

use super::cloud::Cloud;
use super::error::LoginError;

/// With this version the response is a single object. Older versions and some proxies return a list of clouds.
const API_VERSION: &str = "2022-09-01";

#[derive(Deserialize)]
#[serde(untagged)]
enum Endpoints {
    One(Metadata),
    Many(Vec<Metadata>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    resource_manager: Option<String>,
    authentication: Authentication,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authentication {
    login_endpoint: String,
    #[serde(default)]
    audiences: Vec<String>,
}

/// Queries the Resource Manager at `arm` for the endpoints of its cloud. The request carries no token.
pub async fn discover(http: &dyn HttpClient, arm: &Url) -> Result<Cloud, LoginError> {
    let mut url = arm.clone();
    url.set_path("/metadata/endpoints");
    url.set_query(Some(&format!("api-version={API_VERSION}")));
    let failed = |problem: String| LoginError::Discovery { url: url.to_string(), problem };
    let request = Request::new(url.clone(), Method::Get);
    let answer = http.execute_request(&request).await.map_err(|e| failed(e.to_string()))?;
    let status = answer.status();
    let raw = answer.try_into_raw_response().await.map_err(|e| failed(e.to_string()))?;
    if !status.is_success() {
        return Err(failed(format!("the response is {status}")));
    }
    let endpoints = serde_json::from_slice(raw.body().as_ref()).map_err(|e| failed(e.to_string()))?;
    let metadata =
        pick(endpoints, arm).ok_or_else(|| failed("the response lists no cloud with this endpoint".into()))?;
    let audience = metadata.authentication.audiences.first().map_or_else(|| arm.as_str(), String::as_str);
    let name = metadata.name.as_deref().unwrap_or("custom");
    Ok(Cloud::custom(name, &metadata.authentication.login_endpoint, arm.as_str(), audience)?)
}

fn pick(endpoints: Endpoints, arm: &Url) -> Option<Metadata> {
    let is_this = |m: &Metadata| {
        let named = m.resource_manager.as_deref().and_then(|url| Url::parse(url).ok());
        named.is_some_and(|url| url.authority() == arm.authority())
    };
    match endpoints {
        Endpoints::One(metadata) => Some(metadata),
        Endpoints::Many(clouds) => clouds.into_iter().find(is_this),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use azure_core::http::headers::Headers;
    use azure_core::http::{AsyncRawResponse, StatusCode};

    use super::*;

    #[derive(Debug)]
    struct FixedResponse(&'static str);

    #[async_trait::async_trait]
    impl HttpClient for FixedResponse {
        async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
            assert_eq!(request.url().as_str(), "https://arm.example/metadata/endpoints?api-version=2022-09-01");
            Ok(AsyncRawResponse::from_bytes(StatusCode::Ok, Headers::new(), self.0))
        }
    }

    async fn discover_from(answer: &'static str) -> Result<Cloud, LoginError> {
        let http: Arc<dyn HttpClient> = Arc::new(FixedResponse(answer));
        discover(http.as_ref(), &Url::parse("https://arm.example/").unwrap()).await
    }

    const ONE: &str = r#"{"name":"sim","resourceManager":"https://arm.example","authentication":{"loginEndpoint":"https://login.example","audiences":["https://aud.example/"]}}"#;
    const MANY: &str = r#"[{"name":"other","resourceManager":"https://other.example","authentication":{"loginEndpoint":"https://o.example"}},
        {"name":"sim","resourceManager":"https://arm.example/","authentication":{"loginEndpoint":"https://login.example","audiences":["https://aud.example/"]}}]"#;

    #[tokio::test]
    async fn endpoints_are_read_from_an_object_or_a_list() {
        for answer in [ONE, MANY] {
            let cloud = discover_from(answer).await.unwrap();
            assert_eq!((cloud.name.as_str(), cloud.authority.as_str()), ("sim", "https://login.example/"));
            assert_eq!(cloud.scope(), "https://aud.example/.default");
        }
    }

    #[tokio::test]
    async fn list_without_the_endpoint_is_an_error() {
        let error = discover_from("[]").await.unwrap_err().to_string();
        assert!(error.contains("https://arm.example/metadata/endpoints"), "{error}");
    }
}
