//! ARM's token buckets, and the headers that expose them.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;

use super::call::Call;
use super::error::ArmError;
use super::families;

/// The limits published since 2024, per region, subscription and principal: bucket size and refill per second.
const READS: (f64, f64) = (250.0, 25.0);
const WRITES: (f64, f64) = (200.0, 10.0);
const DELETES: (f64, f64) = (200.0, 10.0);

/// The token buckets of all callers.
#[derive(Debug)]
pub(crate) struct Throttle {
    on: bool,
    buckets: HashMap<(String, &'static str), (f64, Timestamp)>,
}

impl Throttle {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, buckets: HashMap::new() }
    }

    /// Counts the call and sets the headers with the remaining number, or rejects it. `now` is wall time, because clients wait in real
    /// seconds.
    pub(super) fn headers(
        &mut self,
        call: &Call,
        families: &[families::Family],
        now: Timestamp,
        headers: &mut HeaderMap,
    ) -> Result<(), ArmError> {
        let (name, (size, refill)) = match call.method {
            Method::GET | Method::HEAD => ("reads", READS),
            Method::DELETE => ("deletes", DELETES),
            _ => ("writes", WRITES),
        };
        let (left, since) = self.buckets.entry((call.caller.object_id.clone(), name)).or_insert((size, now));
        let passed = now.duration_since(*since).as_secs_f64().max(0.0);
        let tokens = passed.mul_add(refill, *left).min(size);
        if self.on && tokens < 1.0 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at most one second per missing token"
            )]
            let wait = ((1.0 - tokens) / refill).ceil().max(1.0) as u32;
            return Err(by_arm(wait));
        }
        (*left, *since) = (if self.on { tokens - 1.0 } else { tokens }, now);
        let remaining = left.floor();
        let name = format!("x-ms-ratelimit-remaining-subscription-{name}");
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), remaining.to_string().parse()) {
            headers.insert(name, value);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between zero and the size of the bucket, a few thousand"
        )]
        let used = 1 + (size - remaining).max(0.0) as u64;
        let families: Vec<String> = families
            .iter()
            .map(|(family, limit)| format!("Microsoft.Compute/{family};{}", limit.saturating_sub(used)))
            .collect();
        if let (false, Ok(value)) = (families.is_empty(), families.join(",").parse()) {
            headers.insert(super::REMAINING, value);
            headers.insert("x-ms-request-charge", HeaderValue::from_static("1"));
        }
        Ok(())
    }
}

/// ARM's own 429.
pub(super) fn by_arm(wait: u32) -> ArmError {
    let mut error = ArmError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "SubscriptionRequestsThrottled",
        format!(
            "Number of requests for the subscription and operation group exceeded the limit. Please retry after {wait} seconds."
        ),
    );
    error.retry_after = Some(wait);
    error
}

/// Compute's 429: the code is `OperationNotAllowed`, and the details contain the reason.
pub(super) fn by_compute(wait: u32) -> ArmError {
    let mut error = ArmError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "OperationNotAllowed",
        "The server rejected the request because too many requests have been received for this subscription.",
    )
    .detail(
        "TooManyRequests",
        &format!(
            "{{\"operationGroup\":\"PutVMScaleSet3Min\",\"allowedRequestCount\":200,\"retryAfterSeconds\":{wait}}}"
        ),
    );
    error.retry_after = Some(wait);
    error
}
