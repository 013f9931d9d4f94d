//! Queries to Prometheus servers, for the gate `prometheus`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_rollout::{Query, Reading};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::task::JoinSet;

use super::writes::Shared;

/// Prometheus itself ends a query after two minutes by default; a gate that needs longer is not a gate.
const LIMIT: Duration = Duration::from_secs(30);
/// Answers are one number; a larger one is not read to its end.
const LONGEST: usize = 1 << 20;

/// Name of the rollout and index of the query.
type Key = (String, usize);

/// Running queries and the latest readings.
pub(super) struct Queries {
    shared: Arc<Shared>,
    readings: Arc<Mutex<BTreeMap<Key, Option<Reading>>>>,
    tasks: JoinSet<()>,
}

impl Queries {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, readings: Arc::default(), tasks: JoinSet::new() }
    }

    /// The readings of a rollout.
    pub(super) fn readings(&self, rollout: &str) -> Vec<Reading> {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let own = readings.iter().filter(|((name, _), _)| name == rollout);
        own.filter_map(|(_, reading)| reading.clone()).collect()
    }

    /// Runs a query, unless it is running.
    pub(super) fn start(&mut self, rollout: &str, index: usize, query: &Query) {
        while self.tasks.try_join_next().is_some() {}
        let key = (rollout.to_owned(), index);
        {
            let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
            // A key without a reading is a query that runs.
            if readings.insert(key.clone(), None).is_some_and(|reading| reading.is_none()) {
                return;
            }
        }
        let (shared, readings, query) = (self.shared.clone(), self.readings.clone(), query.clone());
        self.tasks.spawn(async move {
            let value = ask(&query).await;
            let reading = Reading { query: index, at: (shared.options.clock)(), value };
            readings.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Some(reading));
            shared.stores.changed.notify_one();
        });
    }

    /// Forgets the readings of rollouts that ended.
    pub(super) fn retain(&mut self, open: impl Fn(&str) -> bool) {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).retain(|(rollout, _), _| open(rollout));
    }
}

async fn ask(query: &Query) -> Result<f64, String> {
    let text = utf8_percent_encode(&query.query, NON_ALPHANUMERIC);
    let url = format!("{}/api/v1/query?query={text}", query.url.trim_end_matches('/'));
    let failed = |error: reqwest::Error| kiln_types::error_chain::to_line(&error.without_url());
    let client = reqwest::Client::builder().timeout(LIMIT).build().map_err(failed)?;
    let mut response = client.get(url).send().await.map_err(failed)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        body.extend_from_slice(&part);
        if body.len() > LONGEST {
            return Err(format!("the answer is longer than {LONGEST} bytes"));
        }
    }
    if !status.is_success() {
        let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
        return Err(format!("the server answered {status}: {text}"));
    }
    first_sample(&body)
}

/// The value of the first sample in an answer.
fn first_sample(body: &[u8]) -> Result<f64, String> {
    #[derive(Deserialize)]
    struct Answer {
        data: Data,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        result_type: String,
        result: serde_json::Value,
    }
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| format!("not an answer of Prometheus: {error}"))?;
    let value = match answer.data.result_type.as_str() {
        "vector" => answer.data.result.pointer("/0/value/1"),
        "scalar" => answer.data.result.pointer("/1"),
        other => return Err(format!("the query returns a {other}; expected a scalar or an instant vector")),
    };
    let text = value.and_then(|value| value.as_str()).ok_or("the query returned no samples")?;
    match text.parse::<f64>() {
        Ok(number) if !number.is_nan() => Ok(number),
        _ => Err(format!("the first sample is `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_of_a_vector_or_a_scalar_is_read() {
        let vector =
            br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.25"]}]}}"#;
        assert_eq!(first_sample(vector), Ok(0.25));
        assert_eq!(first_sample(br#"{"data":{"resultType":"scalar","result":[1,"3"]}}"#), Ok(3.0));
    }

    #[test]
    fn answer_without_a_number_is_inconclusive() {
        for (body, reason) in [
            (r#"{"data":{"resultType":"vector","result":[]}}"#, "no samples"),
            (r#"{"data":{"resultType":"vector","result":[{"value":[1,"NaN"]}]}}"#, "`NaN`"),
            (r#"{"data":{"resultType":"matrix","result":[]}}"#, "returns a matrix"),
            ("<html>", "not an answer"),
        ] {
            let error = first_sample(body.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }
}
