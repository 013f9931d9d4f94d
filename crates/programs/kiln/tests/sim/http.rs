//! An HTTP client for `kiln sim serve`.

use std::net::IpAddr;

use reqwest::{Certificate, ClientBuilder, Method, Version};
use serde_json::Value;
use testkit::SimProcess;

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) version: Version,
    pub(crate) text: String,
    pub(crate) body: Value,
}

/// A client that trusts only the embedded Azure's CA.
pub(crate) fn trusting(sim: &SimProcess) -> ClientBuilder {
    let pem = std::fs::read(sim.key("caFile")).expect("the CA's file");
    plain().tls_certs_only([Certificate::from_pem(&pem).expect("a certificate")])
}

/// A client without trusted CAs.
pub(crate) fn plain() -> ClientBuilder {
    kiln_tls::install();
    reqwest::Client::builder().no_proxy()
}

pub(crate) async fn send(
    client: &reqwest::Client,
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: String,
) -> reqwest::Result<Got> {
    let mut request = client.request(method, url).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await?;
    let (status, version) = (response.status().as_u16(), response.version());
    let text = response.text().await?;
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Got { status, version, text, body })
}

/// A logged-in service principal.
pub(crate) struct Operator {
    pub(crate) client: reqwest::Client,
    arm: String,
    bearer: String,
}

impl Operator {
    pub(crate) async fn log_in(sim: &SimProcess) -> Self {
        Self::log_in_with(sim, trusting(sim), sim.key("arm")).await
    }

    /// Logs in with a token for ARM's public name, which is valid at any address.
    pub(crate) async fn roaming(sim: &SimProcess) -> Self {
        Self::log_in_with(sim, trusting(sim), "https://management.azure.com").await
    }

    pub(crate) async fn log_in_with(sim: &SimProcess, client: ClientBuilder, audience: &str) -> Self {
        let client = client.build().expect("a client");
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}/.default",
            sim.key("clientId"),
            sim.key("clientSecret"),
            audience
        );
        let url = format!("{}/{}/oauth2/v2.0/token", sim.key("authority"), sim.key("tenantId"));
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let got = send(&client, Method::POST, &url, &headers, form).await.expect("a token");
        let token = got.body["access_token"].as_str().unwrap_or_else(|| panic!("{}", got.text));
        Self { client, arm: sim.key("arm").to_owned(), bearer: format!("Bearer {token}") }
    }

    /// Uses the same token with another process of the same state.
    pub(crate) fn at(&self, sim: &SimProcess) -> Self {
        Self {
            client: trusting(sim).build().expect("a client"),
            arm: sim.key("arm").to_owned(),
            bearer: self.bearer.clone(),
        }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: String) -> reqwest::Result<Got> {
        let headers = [("authorization", self.bearer.as_str()), ("content-type", "application/json")];
        send(&self.client, method, &format!("{}{path}", self.arm), &headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(Method::GET, path, String::new()).await.expect("an answer")
    }
}

/// Runs a test in a private network namespace, where no real metadata service can answer.
pub(crate) fn isolated(test: impl Future<Output = ()> + Send) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    testkit::private().inside(|| runtime.enable_all().build().expect("a runtime").block_on(test));
}

/// Queries the metadata service from a local address.
pub(crate) async fn metadata(sim: &SimProcess, from: &str, path: &str) -> Got {
    let from: IpAddr = from.parse().expect("an address");
    ask(plain().local_address(from), sim.key("imds"), path, &[("metadata", "true")]).await
}

/// Queries the wire server.
pub(crate) async fn wire_server(sim: &SimProcess, path: &str) -> Got {
    ask(plain(), sim.key("wireServer"), path, &[]).await
}

async fn ask(client: ClientBuilder, service: &str, path: &str, headers: &[(&str, &str)]) -> Got {
    testkit::assert_private();
    let client = client.build().expect("a client");
    send(&client, Method::GET, &format!("{service}{path}"), headers, String::new()).await.expect("an answer")
}
