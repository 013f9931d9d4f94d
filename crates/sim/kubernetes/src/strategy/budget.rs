//! Disruption budgets.

use serde_json::{Value, json};

use crate::error::FieldError;

/// No disruption is allowed until the pods are counted.
pub(crate) fn prepare(budget: &mut Value) {
    crate::meta::child(budget, "spec");
    budget["status"] = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
}

pub(crate) fn check(budget: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    let spec = &budget["spec"];
    let [min, max] = ["minAvailable", "maxUnavailable"].map(|field| &spec[field]);
    if !min.is_null() && !max.is_null() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        causes.push(FieldError::invalid("spec", spec, why));
    }
    for (field, value) in [("spec.minAvailable", min), ("spec.maxUnavailable", max)] {
        let valid = match value {
            Value::Null => true,
            Value::Number(number) => number.as_i64().is_some_and(|number| number >= 0),
            Value::String(text) => percent(text).is_some_and(|percent| percent <= 100),
            _ => false,
        };
        if !valid {
            causes.push(FieldError::invalid(field, value, "must be a number of 0 or more, or a percentage up to 100%"));
        }
    }
    causes
}

/// The number before a percent sign.
pub(crate) fn percent(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse().ok()
}
