//! Login: discovery, tokens, and errors.

#[expect(dead_code, reason = "each test binary uses a part")]
mod edges;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edges::{Got, HOST, arm, form, parse_world, sim, sim_with, start, subscriptions, token};
use jiff::SignedDuration;
use kiln_sim_azure::{Options, Sim, WorldSpec};
use serde_json::{Value, json};

const V2: &str = "oauth2/v2.0/token";

fn ask(sim: &Sim, tenant: &str, endpoint: &str, pairs: &[(&str, &str)]) -> Got {
    arm(sim, "POST", &format!("/{tenant}/{endpoint}"), &[("client-request-id", "my-own-id")], &form(pairs))
}

/// The usual request of a service principal, with some fields changed or, if empty, omitted.
fn log_in(sim: &Sim, changes: &[(&str, &str)]) -> Got {
    let spec = sim.spec();
    let scope = format!("https://{HOST}/.default");
    let mut pairs = vec![
        ("grant_type", "client_credentials"),
        ("client_id", spec.clients[0].client_id.as_str()),
        ("client_secret", spec.clients[0].client_secret.as_str()),
        ("scope", scope.as_str()),
    ];
    for (name, value) in changes {
        pairs.retain(|(known, _)| known != name);
        if !value.is_empty() {
            pairs.push((name, value));
        }
    }
    ask(sim, &spec.tenant_id, V2, &pairs)
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).expect("claims");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}

fn code(got: &Got) -> u64 {
    got.body["error_codes"][0].as_u64().unwrap_or_default()
}

#[test]
fn token_has_the_claims_that_clients_read() {
    let sim = sim();
    let got = log_in(&sim, &[]);
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!((&got.body["token_type"], &got.body["expires_in"]), (&json!("Bearer"), &json!(3599)));
    let (claims, spec) = (claims(got.body["access_token"].as_str().expect("a token")), sim.spec());
    assert_eq!(claims["aud"], format!("https://{HOST}"));
    assert_eq!(claims["appid"], spec.clients[0].client_id);
    assert_eq!(claims["oid"], spec.clients[0].object_id);
    assert_eq!(claims["sub"], claims["oid"]);
    assert_eq!(claims["tid"], spec.tenant_id);
    assert_eq!(claims["iss"], format!("https://sts.windows.net/{}/", spec.tenant_id));
    assert_eq!(claims["ver"], "1.0");
    assert_eq!(
        (claims["iat"].as_i64(), claims["nbf"].as_i64()),
        (Some(start().as_second()), Some(start().as_second()))
    );
    assert_eq!(claims["exp"].as_i64(), Some(start().as_second() + 3600));
}

#[test]
fn token_is_valid_for_arm_and_survives_a_restart() {
    let first = sim();
    let token = token(&first);
    assert_eq!(subscriptions(&first, &token).status, 200);
    // The same seed, as after a restart.
    assert_eq!(subscriptions(&sim(), &token).status, 200);
}

#[test]
fn v1_token_endpoint_accepts_a_resource_and_returns_strings() {
    let sim = sim();
    let spec = sim.spec();
    let client = &spec.clients[0];
    let pairs = [
        ("grant_type", "client_credentials"),
        ("client_id", client.client_id.as_str()),
        ("client_secret", client.client_secret.as_str()),
        ("resource", "https://management.azure.com/"),
    ];
    let got = ask(&sim, &spec.tenant_id, "oauth2/token", &pairs);
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(got.body["expires_in"], "3599");
    assert_eq!(got.body["expires_on"], (start().as_second() + 3600).to_string());
    assert_eq!(subscriptions(&sim, got.body["access_token"].as_str().expect("a token")).status, 200);
}

#[test]
fn workload_logs_in_with_its_service_account_token_only() {
    let sim =
        sim_with(parse_world("clients: [{clientId: app, clientSecret: s, federatedTokens: [service-account-token]}]"));
    let jwt = ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    let got = log_in(&sim, &[("client_secret", ""), jwt, ("client_assertion", "service-account-token")]);
    assert_eq!(got.status, 200, "{}", got.text);
    assert_eq!(claims(got.body["access_token"].as_str().expect("a token"))["appidacr"], "2");
    let got = log_in(&sim, &[("client_secret", ""), jwt, ("client_assertion", "another")]);
    assert_eq!((got.status, code(&got)), (401, 70021), "{}", got.text);
    let got = log_in(&sim, &[("client_secret", ""), ("client_assertion", "service-account-token")]);
    assert_eq!((got.status, code(&got)), (400, 900_144), "{}", got.text);
}

#[test]
fn failed_logins_have_entras_codes() {
    let sim = sim();
    let wrong = [
        (("client_secret", "guess"), 401, "invalid_client", 7_000_215),
        (("client_secret", ""), 401, "invalid_client", 7_000_216),
        (("client_id", "unknown"), 400, "unauthorized_client", 700_016),
        (("client_id", ""), 400, "invalid_request", 900_144),
        (("grant_type", ""), 400, "invalid_request", 900_144),
        (("scope", ""), 400, "invalid_request", 900_144),
        (("grant_type", "password"), 400, "unsupported_grant_type", 70_003),
        (("scope", "https://nowhere.example/.default"), 400, "invalid_resource", 500_011),
        (("scope", "user.read"), 400, "invalid_scope", 70_011),
    ];
    for (change, status, word, number) in wrong {
        let got = log_in(&sim, &[change]);
        assert_eq!((got.status, got.body["error"].as_str(), code(&got)), (status, Some(word), number), "{change:?}");
        assert!(
            got.body["error_description"].as_str().expect("text").starts_with(&format!("AADSTS{number}: ")),
            "{}",
            got.text
        );
        assert_eq!(got.body["correlation_id"], "my-own-id");
        assert_eq!(got.body["timestamp"], "2026-11-15 12:00:00Z");
        for field in ["trace_id", "error_uri"] {
            assert!(got.body[field].is_string(), "{field}: {}", got.text);
        }
        assert!(!got.text.contains("guess"), "the response contains a secret: {}", got.text);
    }
}

#[test]
fn unknown_and_foreign_tenants_have_different_errors() {
    let sim = sim_with(parse_world("foreignSubscriptions: [{subscriptionId: other, tenantId: theirs}]"));
    let spec = sim.spec();
    let client = &spec.clients[0];
    let pairs = [
        ("grant_type", "client_credentials"),
        ("client_id", client.client_id.as_str()),
        ("client_secret", client.client_secret.as_str()),
        ("scope", "https://management.azure.com/.default"),
    ];
    assert_eq!(code(&ask(&sim, "no-such-tenant", V2, &pairs)), 90_002);
    assert_eq!(code(&ask(&sim, "theirs", V2, &pairs)), 700_016);
    let got = arm(&sim, "GET", "/no-such-tenant/v2.0/.well-known/openid-configuration", &[], "");
    assert_eq!((got.status, code(&got)), (400, 90_002));
}

#[test]
fn token_requests_must_be_post() {
    let sim = sim();
    let got = arm(&sim, "GET", &format!("/{}/{V2}", sim.spec().tenant_id), &[], "");
    assert_eq!((got.status, code(&got)), (400, 900_561));
}

#[test]
fn discovery_has_the_endpoints_of_the_host_and_the_signing_key() {
    let sim = sim();
    let tenant = sim.spec().tenant_id.clone();
    let got = arm(&sim, "GET", &format!("/{tenant}/v2.0/.well-known/openid-configuration"), &[], "");
    assert_eq!(got.status, 200);
    assert_eq!(got.body["token_endpoint"], format!("https://{HOST}/{tenant}/{V2}"));
    assert_eq!(got.body["issuer"], format!("https://{HOST}/{tenant}/v2.0"));
    let keys = got.body["jwks_uri"]
        .as_str()
        .and_then(|url| url.strip_prefix(&format!("https://{HOST}")))
        .expect("a URL of this host")
        .to_owned();
    let keys = arm(&sim, "GET", &keys, &[], "").body;
    let header =
        token(&sim).split('.').next().map(|part| URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("a header");
    let header: Value = serde_json::from_slice(&header).expect("JSON");
    assert_eq!((&header["kid"], &header["alg"]), (&keys["keys"][0]["kid"], &keys["keys"][0]["alg"]));
    let any = arm(&sim, "GET", "/common/v2.0/.well-known/openid-configuration", &[], "");
    assert_eq!(any.body["issuer"], format!("https://{HOST}/{{tenantid}}/v2.0"));
}

#[test]
fn instance_discovery_accepts_this_host_only() {
    let sim = sim();
    let path = |authority: &str| {
        format!(
            "/common/discovery/instance?api-version=1.1&authorization_endpoint=https://{authority}/t/oauth2/v2.0/authorize"
        )
    };
    let got = arm(&sim, "GET", &path("localhost"), &[], "");
    assert_eq!(
        got.body["tenant_discovery_endpoint"],
        format!("https://{HOST}/t/v2.0/.well-known/openid-configuration")
    );
    assert_eq!(code(&arm(&sim, "GET", &path("evil.example"), &[], "")), 50_049);
    assert_eq!(code(&arm(&sim, "GET", "/common/discovery/instance?api-version=1.1", &[], "")), 900_144);
}

fn refused(got: &Got, code: &str) {
    assert_eq!((got.status, got.body["error"]["code"].as_str()), (401, Some(code)), "{}", got.text);
    assert!(
        got.header("www-authenticate").starts_with(&format!("Bearer authorization_uri=\"https://{HOST}/")),
        "{:?}",
        got.headers
    );
}

#[test]
fn request_without_token_gets_a_challenge() {
    let sim = sim();
    let got = arm(&sim, "GET", "/subscriptions?api-version=2022-12-01", &[], "");
    refused(&got, "AuthenticationFailed");
    assert_eq!(got.body["error"]["message"], "Authentication failed. The 'Authorization' header is missing.");
    let got = arm(&sim, "GET", "/subscriptions?api-version=2022-12-01", &[("authorization", "Basic eDp5")], "");
    refused(&got, "AuthenticationFailedInvalidHeader");
}

#[test]
fn malformed_and_foreign_tokens_are_rejected() {
    let sim = sim();
    refused(&subscriptions(&sim, "nonsense"), "InvalidAuthenticationToken");
    let other = Sim::new(WorldSpec::default(), Options { seed: 2, ..Options::instant(start()) }).expect("a simulation");
    refused(&subscriptions(&sim, &token(&other)), "InvalidAuthenticationToken");
}

#[test]
fn token_of_a_removed_client_is_rejected() {
    let before = sim_with(parse_world("clients: [{clientId: old, clientSecret: s}]"));
    let token = token(&before);
    let after = sim_with(parse_world("clients: [{clientId: new, clientSecret: s}]"));
    refused(&subscriptions(&after, &token), "InvalidAuthenticationToken");
}

#[test]
fn expired_token_gets_a_challenge() {
    let token = token(&sim());
    let later = |minutes| {
        let options = Options::instant(start() + SignedDuration::from_mins(minutes));
        subscriptions(&Sim::new(WorldSpec::default(), options).expect("a simulation"), &token)
    };
    assert_eq!(later(59).status, 200);
    let got = later(61);
    refused(&got, "ExpiredAuthenticationToken");
    assert!(
        got.body["error"]["message"].as_str().expect("text").contains("'2026-11-15 13:00:00Z' is earlier"),
        "{}",
        got.text
    );
}

#[test]
fn token_for_another_resource_is_rejected_by_arm() {
    let sim = sim();
    let got = log_in(&sim, &[("scope", "https://vault.azure.net/.default")]);
    assert_eq!(got.status, 200, "{}", got.text);
    refused(
        &subscriptions(&sim, got.body["access_token"].as_str().expect("a token")),
        "InvalidAuthenticationTokenAudience",
    );
}

#[test]
fn new_tokens_are_valid_after_all_others_expired() {
    let sim = edges::faulty("faults: [{kind: token-expires}]");
    let old = token(&sim);
    let got = subscriptions(&sim, &old);
    assert_eq!(
        (got.status, got.body["error"]["code"].as_str()),
        (401, Some("ExpiredAuthenticationToken")),
        "{}",
        got.text
    );
    assert!(got.header("www-authenticate").contains("invalid_token"));
    assert_eq!(subscriptions(&sim, &old).status, 401);
    assert_eq!(subscriptions(&sim, &token(&sim)).status, 200);
}
