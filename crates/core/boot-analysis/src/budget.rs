//! Limits on the duration of a boot, for CI pipelines that fail when one is exceeded.

use serde::Serialize;

use crate::model::{Boot, UnitName};
use crate::span::Usec;

/// One line of a budget file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    pub measure: Measure,
    pub limit: Usec,
}

/// The quantity that a line limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "unit")]
pub enum Measure {
    /// From PID 1 until the job queue was empty.
    Boot,
    /// From PID 1 to the start of a unit.
    Start(UnitName),
    /// From the start of a unit until it was active.
    Time(UnitName),
}

/// A line that is not a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: invalid limit `{text}`; expected `boot < 30s`, `kubelet.service start < 12s` or `docker.service time < 4s`"
)]
pub struct BadLimit {
    /// Counted from 1.
    pub line: usize,
    pub text: String,
}

/// A limit with the measured value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    #[serde(flatten)]
    pub limit: Limit,
    /// `None` when the capture lacks a timestamp. Such a limit counts as exceeded.
    pub took: Option<Usec>,
    pub kept: bool,
}

/// Parses a budget: one limit per line, `#` starts a comment.
pub fn parse(text: &str) -> Result<Vec<Limit>, BadLimit> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let plain = line.split('#').next().unwrap_or_default().trim();
        if plain.is_empty() {
            continue;
        }
        all.push(limit(plain).ok_or_else(|| BadLimit { line: index + 1, text: line.chars().take(80).collect() })?);
    }
    Ok(all)
}

fn limit(line: &str) -> Option<Limit> {
    let (measure, limit) = line.split_once('<')?;
    let limit = limit.trim().parse().ok()?;
    let words: Vec<&str> = measure.split_whitespace().collect();
    let measure = match words[..] {
        ["boot"] => Measure::Boot,
        [unit, "start"] if unit.contains('.') => Measure::Start(unit.into()),
        [unit, "time"] if unit.contains('.') => Measure::Time(unit.into()),
        _ => return None,
    };
    Some(Limit { measure, limit })
}

/// Checks a boot against a budget.
pub fn judge(boot: &Boot, limits: &[Limit]) -> Vec<Judged> {
    let judged = limits.iter().map(|limit| {
        let took = match &limit.measure {
            Measure::Boot => crate::time::finished(boot).ok().map(|finish| finish - boot.userspace()),
            Measure::Start(unit) => {
                boot.started(unit.as_str()).and_then(|unit| unit.activating).map(|at| at - boot.userspace())
            }
            Measure::Time(unit) => boot.started(unit.as_str()).and_then(crate::model::Unit::took),
        };
        Judged { limit: limit.clone(), took, kept: took.is_some_and(|took| took < limit.limit) }
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::tests::boot;

    #[test]
    fn a_limit_that_is_exceeded_or_cannot_be_measured_is_not_kept() {
        let limits = parse("# ours\nboot < 120s\nkubelet.service start < 1s\nkubelet.service time < 1s # quick\ngone.service start < 9s\n").unwrap();
        let judged = judge(&boot("kubelet.service 1500 40"), &limits);
        assert_eq!(judged.iter().map(|one| one.kept).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!(judged[1].took, Some(Usec(1_500_000)));
        assert_eq!(judged[3].took, None);
    }

    #[test]
    fn a_unit_without_a_recorded_end_exceeds_every_time_limit() {
        let limits = parse("docker.service time < 4s").unwrap();
        let judged = |ends: &str| {
            let text = format!(
                "UserspaceTimestampMonotonic=10\n\nId=docker.service\nInactiveExitTimestampMonotonic=20\n{ends}"
            );
            let one = judge(&crate::capture::parse(&text).unwrap(), &limits).remove(0);
            (one.took, one.kept)
        };
        assert_eq!(judged(""), (None, false));
        assert_eq!(judged("ActiveEnterTimestampMonotonic=0\nInactiveEnterTimestampMonotonic=0\n"), (None, false));
        assert_eq!(judged("ActiveEnterTimestampMonotonic=50\n"), (Some(Usec(30)), true));
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let error = parse("boot < 3s\nkubelet is fast\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(parse("kubelet start < 1s").is_err() && parse("boot < soon").is_err());
    }
}
