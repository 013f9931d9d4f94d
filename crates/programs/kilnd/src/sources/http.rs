//! HTTP requests to services of the host, with retries.

use std::io;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::RETRY_AFTER;

use crate::sources::error::Error;
use crate::sources::retry::{Next, Outcome, Rules};
use crate::sources::wait::Wait;

/// A lost packet is retransmitted after one second, so a service that has not answered after two is down. Not longer: an attempt that
/// started before the machine had its address cannot succeed and delays the next one.
const CONNECT: Duration = Duration::from_secs(2);
/// Time limit of a whole request.
const REQUEST: Duration = Duration::from_secs(20);
/// Size limit of a response.
const BODY: u64 = 1 << 20;
/// How much of an error response is shown.
const SHOWN: usize = 200;

/// A client for services of the host. It uses no proxy and follows no redirects.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    agent: Agent,
    /// Spreads the retries of machines that start together.
    seed: u64,
}

/// A GET request, or a POST with a body.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) url: String,
    pub(crate) headers: &'a [(&'static str, &'a str)],
    /// If set, the method is POST.
    pub(crate) body: Option<&'a [u8]>,
}

struct Response {
    status: u16,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Http {
    pub(crate) fn new(seed: u64) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REQUEST))
            // Requests are minutes apart, so idle connections would be dead.
            .max_idle_connections(0)
            .user_agent(concat!("kilnd/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.new_agent(), seed }
    }

    /// Sends a request until it is answered, by the rules of the service.
    pub(crate) fn request(&self, request: &HttpRequest<'_>, rules: Rules, wait: &dyn Wait) -> Result<Vec<u8>, Error> {
        let started = wait.now();
        let (mut attempts, mut attempt) = (0, 0);
        loop {
            attempts += 1;
            let result = self.send(request);
            let outcome = match &result {
                Ok(answer) => Outcome::Status { status: answer.status, retry_after: answer.retry_after },
                Err(ureq::Error::Io(error)) if has_no_route(error) => Outcome::NoRoute,
                Err(ureq::Error::BadUri(_) | ureq::Error::BodyExceedsLimit(_)) => {
                    return Err(Error::Response { url: request.url.clone(), reason: summary(&result) });
                }
                Err(_) => Outcome::Broken,
            };
            // Attempts without a route do not lengthen the pauses, because they do not reach the service.
            attempt += u32::from(outcome != Outcome::NoRoute);
            let waited = wait.now().saturating_sub(started);
            match rules.next(attempt, waited, outcome, self.seed) {
                Next::Accept => return Ok(result.map(|answer| answer.body).unwrap_or_default()),
                Next::Refuse => {
                    let status = if let Outcome::Status { status, .. } = outcome { status } else { 0 };
                    return Err(Error::Refused { url: request.url.clone(), status, message: summary(&result) });
                }
                Next::GiveUp => {
                    let last = summary(&result);
                    return Err(Error::Deadline { url: request.url.clone(), waited, attempts, last });
                }
                Next::After(pause) => wait.sleep(pause),
                Next::OnNetwork(at_most) => wait.network(at_most),
            }
        }
    }

    fn send(&self, request: &HttpRequest<'_>) -> Result<Response, ureq::Error> {
        let mut response = match request.body {
            None => {
                let builder = request
                    .headers
                    .iter()
                    .fold(self.agent.get(&request.url), |r, (name, value)| r.header(*name, *value));
                builder.call()?
            }
            Some(body) => {
                let builder = request
                    .headers
                    .iter()
                    .fold(self.agent.post(&request.url), |r, (name, value)| r.header(*name, *value));
                builder.send(body)?
            }
        };
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BODY).read_to_vec()?;
        Ok(Response { status, retry_after: retry_after.map(Duration::from_secs), body })
    }
}

fn has_no_route(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkDown
    )
}

/// The result of an attempt in one line.
fn summary(result: &Result<Response, ureq::Error>) -> String {
    match result {
        Ok(answer) => {
            let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(SHOWN)]);
            let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{} {}", answer.status, line.trim())
        }
        Err(error) => error.to_string(),
    }
}
