//! What a boot may take, for a pipeline that fails when it takes more.

use serde::Serialize;

use crate::model::{Boot, UnitName};
use crate::span::Usec;

/// One line of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// What is limited.
    pub what: What,
    /// To how much.
    pub limit: Usec,
}

/// What a line limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "of", content = "unit")]
pub enum What {
    /// From PID 1 to the last job.
    Boot,
    /// From PID 1 to the start of a unit.
    Start(UnitName),
    /// From the start of a unit until it is active.
    Time(UnitName),
}

/// A line that is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}`: write `boot < 30s`, `kubelet.service start < 12s` or `docker.service time < 4s`")]
pub struct BadLimit {
    /// From 1.
    pub line: usize,
    pub text: String,
}

/// A limit and what the boot made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    #[serde(flatten)]
    pub limit: Limit,
    /// What it took; none when the boot does not say, which keeps no budget.
    pub took: Option<Usec>,
    /// Whether it held.
    pub kept: bool,
}

/// Reads a budget: a limit per line, `#` begins a comment.
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
    let (what, limit) = line.split_once('<')?;
    let limit = limit.trim().parse().ok()?;
    let words: Vec<&str> = what.split_whitespace().collect();
    let what = match words[..] {
        ["boot"] => What::Boot,
        [unit, "start"] if unit.contains('.') => What::Start(unit.into()),
        [unit, "time"] if unit.contains('.') => What::Time(unit.into()),
        _ => return None,
    };
    Some(Limit { what, limit })
}

/// Holds a boot against a budget.
pub fn judge(boot: &Boot, limits: &[Limit]) -> Vec<Judged> {
    let judged = limits.iter().map(|limit| {
        let took = match &limit.what {
            What::Boot => crate::time::finished(boot).ok().map(|finish| finish - boot.userspace()),
            What::Start(unit) => {
                boot.started(unit.as_str()).and_then(|unit| unit.activating).map(|at| at - boot.userspace())
            }
            What::Time(unit) => boot.started(unit.as_str()).and_then(crate::model::Unit::took),
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
    fn a_limit_that_is_broken_or_cannot_be_judged_is_not_kept() {
        let limits = parse("# ours\nboot < 120s\nkubelet.service start < 1s\nkubelet.service time < 1s # quick\ngone.service start < 9s\n").unwrap();
        let judged = judge(&boot("kubelet.service 1500 40"), &limits);
        assert_eq!(judged.iter().map(|one| one.kept).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!(judged[1].took, Some(Usec(1_500_000)));
        assert_eq!(judged[3].took, None);
    }

    #[test]
    fn a_unit_of_which_an_end_is_missing_or_that_still_starts_keeps_no_limit_of_its_time() {
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
    fn a_line_that_is_no_limit_is_named() {
        let error = parse("boot < 3s\nkubelet is fast\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(parse("kubelet start < 1s").is_err() && parse("boot < soon").is_err());
    }
}
