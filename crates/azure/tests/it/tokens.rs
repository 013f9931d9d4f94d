//! Tokens that are refused.

use std::sync::atomic::Ordering;

use kiln_cloud::{ErrorClass, Factory, FactoryError, RecipeChange, Revision, SecretText};
use serde_json::json;

use crate::script::{Script, azure_as, on, tokens};

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_inside_an_operation_is_replaced_and_the_request_repeated_once() {
    let script = Script::new([
        on("PATCH", "/pool").answers(200, &json!(null)),
        on("PATCH", "/pool").fails(
            401,
            "ExpiredAuthenticationToken",
            "The access token expiry UTC time is earlier than current",
        ),
        on("PATCH", "/pool").answers(200, &json!(null)),
    ]);
    let (credential, made) = tokens();
    let azure = azure_as(&script, credential);
    let change = RecipeChange { image: None, custom_data: Some(SecretText::new("x")) };
    for _ in 0..2 {
        azure.set_recipe(&"pool".parse().unwrap(), &change, &Revision::new("\"1\"")).await.unwrap();
    }
    let used: Vec<_> = script.asked().iter().map(|a| a.authorization.clone().unwrap()).collect();
    assert_eq!(used, ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
    assert_eq!(script.asked()[2].body, script.asked()[1].body);
    assert_eq!(made.load(Ordering::SeqCst), 2);
    script.done();
}

#[tokio::test(start_paused = true)]
async fn a_claims_challenge_is_answered_with_a_new_token() {
    let challenge = r#"Bearer realm="", authorization_uri="https://login.example/common", error="insufficient_claims", claims="eyJhIjoxfQ==""#;
    let script = Script::new([
        on("GET", "/pool").fails(401, "InvalidAuthenticationToken", "claims").header("www-authenticate", challenge),
        on("GET", "/pool").fails(404, "ResourceNotFound", "none"),
    ]);
    let (credential, made) = tokens();
    let error = azure_as(&script, credential).describe_pool(&"pool".parse().unwrap()).await.unwrap_err();
    assert!(error.not_found());
    assert_eq!(made.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_refusal_is_final() {
    let refused = || on("GET", "/pool").fails(401, "InvalidAuthenticationToken", "no");
    let script = Script::new([refused(), refused()]);
    let error = azure_as(&script, tokens().0).describe_pool(&"pool".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Authentication);
    assert!(error.permission());
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("token-"), "{shown}");
    script.done();
}
