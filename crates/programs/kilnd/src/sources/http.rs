//! One request to a service of the host, and the same again until it is answered.

use std::io;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::RETRY_AFTER;

use crate::sources::error::Error;
use crate::sources::retry::{Next, Outcome, Rules};
use crate::sources::wait::Wait;

/// A lost packet is sent again after one second; a service on the same host that has not answered then is away. Not longer: an attempt
/// that began before the machine had its address never succeeds, and holds up the one that would.
const CONNECT: Duration = Duration::from_secs(2);
/// One whole request.
const REQUEST: Duration = Duration::from_secs(20);
/// No answer of these services is as long.
const BODY: u64 = 1 << 20;
/// As much of a refusal as a person reads.
const SHOWN: usize = 200;

/// Talks to services of the host: never through a proxy, never to where an answer redirects.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    agent: Agent,
    /// Makes machines that start together ask apart.
    chance: u64,
}

/// What to ask.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) url: String,
    pub(crate) headers: &'a [(&'static str, &'a str)],
    /// A body makes it a POST.
    pub(crate) body: Option<&'a [u8]>,
}

struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Http {
    pub(crate) fn new(chance: u64) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REQUEST))
            // ToObserve are minutes apart; a kept connection would only be found dead.
            .max_idle_connections(0)
            .user_agent(concat!("kilnd/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.new_agent(), chance }
    }

    /// Asks until there is an answer, by the rules of the service.
    pub(crate) fn ask(&self, ask: &Ask<'_>, rules: Rules, wait: &dyn Wait) -> Result<Vec<u8>, Error> {
        let started = wait.now();
        let (mut attempts, mut attempt) = (0, 0);
        loop {
            attempts += 1;
            let result = self.send(ask);
            let outcome = match &result {
                Ok(answer) => Outcome::Status { status: answer.status, retry_after: answer.retry_after },
                Err(ureq::Error::Io(error)) if has_no_route(error) => Outcome::NoRoute,
                Err(ureq::Error::BadUri(_) | ureq::Error::BodyExceedsLimit(_)) => {
                    return Err(Error::Answer { url: ask.url.clone(), reason: told(&result) });
                }
                Err(_) => Outcome::Broken,
            };
            // Attempts without a route say nothing of the service: they do not lengthen its pauses.
            attempt += u32::from(outcome != Outcome::NoRoute);
            let waited = wait.now().saturating_sub(started);
            match rules.next(attempt, waited, outcome, self.chance) {
                Next::Take => return Ok(result.map(|answer| answer.body).unwrap_or_default()),
                Next::Refuse => {
                    let status = if let Outcome::Status { status, .. } = outcome { status } else { 0 };
                    return Err(Error::Refused { url: ask.url.clone(), status, message: told(&result) });
                }
                Next::GiveUp => {
                    let last = told(&result);
                    return Err(Error::Deadline { url: ask.url.clone(), waited, attempts, last });
                }
                Next::After(pause) => wait.sleep(pause),
                Next::OnNetwork(at_most) => wait.network(at_most),
            }
        }
    }

    fn send(&self, ask: &Ask<'_>) -> Result<Answer, ureq::Error> {
        let mut response = match ask.body {
            None => {
                let request =
                    ask.headers.iter().fold(self.agent.get(&ask.url), |r, (name, value)| r.header(*name, *value));
                request.call()?
            }
            Some(body) => {
                let request =
                    ask.headers.iter().fold(self.agent.post(&ask.url), |r, (name, value)| r.header(*name, *value));
                request.send(body)?
            }
        };
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BODY).read_to_vec()?;
        Ok(Answer { status, retry_after: retry_after.map(Duration::from_secs), body })
    }
}

fn has_no_route(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkDown
    )
}

/// What an attempt ended with, in a line.
fn told(result: &Result<Answer, ureq::Error>) -> String {
    match result {
        Ok(answer) => {
            let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(SHOWN)]);
            let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{} {}", answer.status, line.trim())
        }
        Err(error) => error.to_string(),
    }
}
