//! Sends requests and retries them.

use std::fmt;
use std::sync::Arc;

use azure_core::http::headers::Headers;
use azure_core::http::policies::Policy;
use azure_core::http::policies::auth::BearerTokenAuthorizationPolicy;
use azure_core::http::{
    ClientOptions, Context, HttpClient, Method, Pipeline, PipelineSendOptions, RawResponse, Request, RetryOptions,
    Transport, Url,
};
use azure_core::{Bytes, error::ErrorKind};
use kiln_types::{ErrorClass, FactoryError};

use super::answer::Answer;
use super::call::Call;
use super::classify;
use super::envelope::ErrorDetail;
use super::error::{Error, RequestLine};
use super::retry::{Attempts, Jitter};
use crate::login::{Cloud, RenewingCredential};
use crate::wire::{FreshTokenPolicy, Refusal, RequestGuard};

/// Dependencies of an [`Arm`] client.
#[derive(Clone)]
pub struct ArmOptions {
    pub cloud: Cloud,
    pub credential: Arc<RenewingCredential>,
    pub http: Arc<dyn HttpClient>,
    /// Spreads retries over time.
    pub jitter: Jitter,
}

/// A client for the Azure Resource Manager of one cloud.
#[derive(Clone)]
pub struct Arm {
    pipeline: Pipeline,
    endpoint: Url,
    jitter: Jitter,
}

/// Prints the endpoint only: the `Debug` output of a transport could contain secrets.
impl fmt::Debug for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arm").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ArmOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArmOptions").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}

impl Arm {
    /// Assembles the pipeline. Order of the policies: request id, user agent, token renewal after a 401, token, [request
    /// guard](crate::wire::RequestGuard).
    pub fn new(options: ArmOptions) -> Self {
        let scope = options.cloud.scope();
        let per_try: Vec<Arc<dyn Policy>> = vec![
            Arc::new(FreshTokenPolicy::new(options.credential.clone())),
            Arc::new(BearerTokenAuthorizationPolicy::new(options.credential, [scope])),
            Arc::new(RequestGuard),
        ];
        let client_options = ClientOptions {
            // The pipeline's own retries consider the status only and sleep on the wall clock. `arm::retry` also considers the error code.
            retry: RetryOptions::none(),
            transport: Some(Transport::new(options.http)),
            ..ClientOptions::default()
        };
        let pipeline =
            Pipeline::new(Some("kiln"), option_env!("CARGO_PKG_VERSION"), client_options, Vec::new(), per_try, None);
        Self { pipeline, endpoint: options.cloud.arm, jitter: options.jitter }
    }

    /// Sends a call, with retries, and returns the final answer.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Error> {
        self.send_request(call.request(&self.endpoint), call.idempotent).await
    }

    /// Requests a URL that an earlier answer contained. Refuses URLs of other hosts, so that the token is not sent to them.
    pub(crate) async fn follow(&self, url: &str) -> Result<Answer, Error> {
        let foreign =
            |host: &str| Error::ForeignUrl { host: host.to_owned(), expected: self.endpoint.authority().to_owned() };
        let url = Url::parse(url).map_err(|_| foreign("not a URL"))?;
        if url.scheme() != self.endpoint.scheme() || url.authority() != self.endpoint.authority() {
            return Err(foreign(url.authority()));
        }
        self.send_request(Request::new(url, Method::Get), true).await
    }

    async fn send_request(&self, request: Request, idempotent: bool) -> Result<Answer, Error> {
        let line = RequestLine::new(request.method(), request.url());
        let mut attempts = Attempts::default();
        loop {
            let error = match self.send_once(request.clone(), &line, attempts.failures() + 1).await {
                Ok(answer) if answer.is_success() => return Ok(answer),
                Ok(answer) => Outcome::from_answer(answer, attempts.failures() + 1),
                Err(error) => Outcome { class: error.class(), retry_after: None, error },
            };
            match attempts.next_wait(error.class, idempotent, error.retry_after, &self.jitter) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error.error),
            }
        }
    }

    async fn send_once(&self, mut request: Request, line: &RequestLine, attempt: u32) -> Result<Answer, Error> {
        // Disables the pipeline's status check, which would turn an error response into text.
        let options = PipelineSendOptions { skip_checks: true, ..PipelineSendOptions::default() };
        let raw: RawResponse = self
            .pipeline
            .send(&Context::new(), &mut request, Some(options))
            .await
            .map_err(|error| transport_error(&error, line, attempt))?;
        let (status, headers, body): (_, Headers, _) = raw.deconstruct();
        Ok(Answer::new(line.clone(), status.into(), &headers, Bytes::from(body)))
    }
}

struct Outcome {
    error: Error,
    class: ErrorClass,
    retry_after: Option<std::time::Duration>,
}

impl Outcome {
    fn from_answer(answer: Answer, attempts: u32) -> Self {
        let detail = ErrorDetail::read(answer.status, &answer.body);
        let class = classify::classify_answer(answer.status, &detail);
        let error = Error::Answered {
            request: answer.request,
            status: answer.status,
            detail: Box::new(detail),
            class,
            correlation_id: answer.correlation_id,
            attempts,
        };
        Self { error, class, retry_after: answer.retry_after }
    }
}

/// Converts a pipeline error to its message. Its `Debug` output can contain a whole response of the token endpoint.
fn transport_error(error: &azure_core::Error, line: &RequestLine, attempts: u32) -> Error {
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = inner {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Error::Refused { request: line.clone(), why: refusal.to_string() };
        }
        inner = cause.source();
    }
    let cause = kiln_types::error_chain::to_line(error);
    match error.kind() {
        ErrorKind::Credential => Error::Login { request: line.clone(), cause },
        ErrorKind::Other => Error::Refused { request: line.clone(), why: cause },
        _ => Error::Unanswered { request: line.clone(), cause, attempts },
    }
}
