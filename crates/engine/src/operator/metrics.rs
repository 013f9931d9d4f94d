//! The operator's metrics in the text format of Prometheus.
//!
//! [`METRICS`] is the list of all metrics; `docs/reference/operator.md` is generated from it, and a metric that is not in it cannot be set.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A metric of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricInfo {
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Gauge,
    Counter,
    /// With `_sum` and `_count` and without quantiles.
    Summary,
}

impl MetricKind {
    /// Returns the name in the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Summary => "summary",
        }
    }
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricInfo {
    MetricInfo { name, kind, labels, help }
}

/// All metrics, in alphabetical order.
pub const METRICS: [MetricInfo; 18] = [
    metric("kiln_drains_running", MetricKind::Gauge, &[], "Nodes that are drained now."),
    metric("kiln_drains_total", MetricKind::Counter, &["result"], "Ended drains; `result` is `done` or `failed`."),
    metric("kiln_frozen", MetricKind::Gauge, &[], "Freezes in force."),
    metric("kiln_nodes_in_flight", MetricKind::Gauge, &[], "Nodes that a Rollout has started and not ended."),
    metric("kiln_operator_leader", MetricKind::Gauge, &[], "1 if this operator has the lease, else 0."),
    metric(
        "kiln_operator_reconcile_errors_total",
        MetricKind::Counter,
        &["controller"],
        "Reconciliations that failed and are tried again; `controller` is `rollout`, `pool`, `node`, `object`, `prototype` or `image`.",
    ),
    metric("kiln_operator_reconcile_seconds", MetricKind::Summary, &["controller"], "Duration of reconciliations."),
    metric("kiln_operator_reconcile_total", MetricKind::Counter, &["controller"], "Reconciliations."),
    metric("kiln_operator_synced", MetricKind::Gauge, &[], "1 if all objects have been listed once, else 0."),
    metric("kiln_operator_watch_errors_total", MetricKind::Counter, &["kind"], "Failures of watches."),
    metric(
        "kiln_operator_writes_total",
        MetricKind::Counter,
        &["resource"],
        "Writes to the API server without leases.",
    ),
    metric("kiln_pool_nodes", MetricKind::Gauge, &["pool"], "Nodes of a Pool."),
    metric(
        "kiln_pool_nodes_unavailable",
        MetricKind::Gauge,
        &["pool"],
        "Nodes of a Pool that are not Ready or are cordoned.",
    ),
    metric(
        "kiln_pool_nodes_up_to_date",
        MetricKind::Gauge,
        &["pool"],
        "Nodes of a Pool on which its target is in force and committed.",
    ),
    metric(
        "kiln_rollout_nodes",
        MetricKind::Gauge,
        &["rollout", "state"],
        "Nodes of a Rollout; `state` is `waiting`, `in_flight`, `updated` or `failed`.",
    ),
    metric("kiln_rollout_phase", MetricKind::Gauge, &["rollout", "phase"], "1 for the phase of a Rollout."),
    metric(
        "kiln_rollout_waiting",
        MetricKind::Gauge,
        &["rollout", "reason"],
        "1 for the reason in `status.waitingFor` of a Rollout.",
    ),
    metric(
        "kiln_rollout_wave",
        MetricKind::Gauge,
        &["rollout"],
        "Number of the wave that is under way, starting at 1.",
    ),
];

/// Returns the page about the operator's metrics and addresses, `docs/reference/operator.md`.
pub fn operator_reference_page() -> String {
    let mut page = String::from(
        "# Metrics of the operator\n\n\
         `kiln operator` serves these paths on the address of `--listen`. This page is generated from \
         `crates/engine/src/operator/metrics.rs`.\n\n\
         | path | answer |\n|---|---|\n\
         | `/metrics` | the metrics below in the text format of Prometheus |\n\
         | `/healthz` | 200 while the process runs |\n\
         | `/readyz` | 200 once all objects have been listed, else 503 with the missing kinds. An operator without the lease is ready, too. |\n\n\
         | metric | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for MetricInfo { name, kind, labels, help } in &METRICS {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(page, "| `{name}` | {} | {} | {help} |", kind.as_str(), labels.join(", "));
    }
    page
}

/// The values of a metric by the values of its labels.
type Series = BTreeMap<Vec<String>, Sample>;

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    value: f64,
    /// The number of observations of a summary.
    count: u64,
}

/// The current values of all metrics.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    values: Mutex<BTreeMap<&'static str, Series>>,
}

impl Metrics {
    /// Sets a gauge.
    pub(super) fn set(&self, name: &str, labels: &[&str], value: f64) {
        self.change(name, labels, |sample| sample.value = value);
    }

    /// Increases a counter.
    pub(super) fn add(&self, name: &str, labels: &[&str], value: f64) {
        self.change(name, labels, |sample| sample.value += value);
    }

    /// Adds an observation to a summary.
    pub(super) fn observe(&self, name: &str, labels: &[&str], value: f64) {
        self.change(name, labels, |sample| {
            sample.value += value;
            sample.count += 1;
        });
    }

    /// Removes all values of these metrics, so that deleted objects disappear.
    pub(super) fn clear(&self, names: &[&str]) {
        self.values().retain(|name, _| !names.contains(name));
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<&'static str, Series>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: &str, labels: &[&str], change: impl FnOnce(&mut Sample)) {
        let Some(info) = METRICS.iter().find(|info| info.name == name) else {
            debug_assert!(false, "metric `{name}` is not in METRICS");
            return;
        };
        debug_assert_eq!(info.labels.len(), labels.len(), "labels of `{name}`");
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        change(self.values().entry(info.name).or_default().entry(labels).or_default());
    }

    /// The values in the text format. A metric without labels that was never set is 0.
    pub(super) fn text(&self) -> String {
        let values = self.values();
        let mut text = String::new();
        let none = Series::from([(Vec::new(), Sample::default())]);
        for info in &METRICS {
            let series = match values.get(info.name) {
                Some(series) => series,
                None if info.labels.is_empty() => &none,
                None => continue,
            };
            let MetricInfo { name, kind, help, .. } = info;
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str());
            for (labels, sample) in series {
                let labels = label_text(info.labels, labels);
                let _ = match kind {
                    MetricKind::Summary => {
                        writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {}", sample.value, sample.count)
                    }
                    _ => writeln!(text, "{name}{labels} {}", sample.value),
                };
            }
        }
        text
    }
}

fn label_text(names: &[&str], values: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let escape = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let pairs: Vec<String> =
        names.iter().zip(values).map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_sorted_and_documented() {
        let names: Vec<&str> = METRICS.iter().map(|info| info.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        let page = operator_reference_page();
        for name in names {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn committed_page_matches_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/operator.md");
        if std::env::var_os("KILN_BLESS").is_some() {
            std::fs::write(path, operator_reference_page()).expect("the page is written");
        }
        assert_eq!(std::fs::read_to_string(path).expect("the page exists"), operator_reference_page());
    }

    #[test]
    fn values_are_written_in_the_text_format() {
        let metrics = Metrics::default();
        metrics.set("kiln_operator_leader", &[], 1.0);
        metrics.set("kiln_rollout_nodes", &["a \"quoted\"\n\\ name", "updated"], 3.0);
        metrics.observe("kiln_operator_reconcile_seconds", &["rollout"], 0.25);
        metrics.observe("kiln_operator_reconcile_seconds", &["rollout"], 0.5);
        metrics.add("kiln_drains_total", &["done"], 1.0);
        metrics.add("kiln_drains_total", &["done"], 1.0);
        let text = metrics.text();
        for line in [
            "# TYPE kiln_operator_leader gauge",
            "kiln_operator_leader 1",
            "kiln_rollout_nodes{rollout=\"a \\\"quoted\\\"\\n\\\\ name\",state=\"updated\"} 3",
            "kiln_operator_reconcile_seconds_sum{controller=\"rollout\"} 0.75",
            "kiln_operator_reconcile_seconds_count{controller=\"rollout\"} 2",
            "kiln_drains_total{result=\"done\"} 2",
            "kiln_frozen 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("kiln_pool_nodes"), "{text}");
        metrics.clear(&["kiln_rollout_nodes"]);
        assert!(!metrics.text().contains("kiln_rollout_nodes"));
    }
}
