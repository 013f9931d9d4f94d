//! Rejected tokens.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Output};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use azure_core::http::HttpClient;
use azure_identity::Executor;
use kiln_azure::login::{Environment, LoginChoice, choose};
use kiln_types::{ErrorClass, Factory, FactoryError, RecipeChange, Revision, Secret};
use serde_json::json;

use crate::script::{Script, azure_as, cloud, on, tokens};

#[tokio::test(start_paused = true)]
async fn expired_token_is_replaced_and_the_request_repeated_once() {
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
    let change = RecipeChange { image: None, custom_data: Some(Secret::new("x")) };
    for _ in 0..2 {
        azure.set_recipe(&"pool".parse().unwrap(), &change, &Revision::new("\"1\"")).await.unwrap();
    }
    let used: Vec<_> = script.requests().iter().map(|a| a.authorization.clone().unwrap()).collect();
    assert_eq!(used, ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
    assert_eq!(script.requests()[2].body, script.requests()[1].body);
    assert_eq!(made.load(Ordering::SeqCst), 2);
    script.assert_finished();
}

#[tokio::test(start_paused = true)]
async fn claims_challenge_is_answered_with_a_new_token() {
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
async fn second_rejection_is_final() {
    let refused = || on("GET", "/pool").fails(401, "InvalidAuthenticationToken", "no");
    let script = Script::new([refused(), refused()]);
    let error = azure_as(&script, tokens().0).describe_pool(&"pool".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Authentication);
    assert!(error.permission());
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("token-"), "{shown}");
    script.assert_finished();
}

/// The Azure CLI, logged in or not.
#[derive(Debug)]
struct Az {
    exit: i32,
    stdout: &'static str,
    stderr: &'static str,
}

#[async_trait]
impl Executor for Az {
    async fn run(&self, _: &OsStr, args: &[&OsStr]) -> std::io::Result<Output> {
        let command = args[1].to_str().unwrap();
        assert!(
            command.contains("az account get-access-token -o json --scope https://arm.example/.default"),
            "{command}"
        );
        // The exit code is in the second byte of a wait status.
        let status = ExitStatus::from_raw(self.exit << 8);
        Ok(Output { status, stdout: self.stdout.into(), stderr: self.stderr.into() })
    }
}

async fn describe_by_az(script: &Script, az: Az) -> kiln_azure::Error {
    let login = choose(&LoginChoice::Automatic, None, Some(cloud()), &Environment::default()).unwrap();
    let http: Arc<dyn HttpClient> = Arc::new(script.clone());
    let programs: Arc<dyn Executor> = Arc::new(az);
    let credential = login.credential_with_executor(&http, &programs).unwrap();
    azure_as(script, credential).describe_pool(&"pool".parse().unwrap()).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn azure_cli_login_is_used() {
    let script = Script::new([on("GET", "/pool").fails(404, "ResourceNotFound", "none")]);
    let stdout = r#"{"accessToken": "from-az", "expires_on": 4000000000, "tokenType": "Bearer"}"#;
    let error = describe_by_az(&script, Az { exit: 0, stdout, stderr: "" }).await;
    assert!(error.not_found(), "{error}");
    assert_eq!(script.requests()[0].authorization.as_deref(), Some("Bearer from-az"));
}

#[tokio::test(start_paused = true)]
async fn azure_cli_error_is_shown_to_the_user() {
    let script = Script::default();
    let stderr = "ERROR: Please run 'az login' to setup account.";
    let error = describe_by_az(&script, Az { exit: 1, stdout: "", stderr }).await;
    assert_eq!(error.class(), ErrorClass::Authentication);
    assert!(error.to_string().contains("Please run 'az login'"), "{error}");
}
