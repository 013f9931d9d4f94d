//! The result of a check, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::Purpose;

/// The version of the JSON format. Adding a field or an id does not change it; renaming a field or changing its meaning does.
pub const SCHEMA: u32 = 1;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A machine does not become a node.
    Blocker,
    /// A part does not work, or another program undoes what kilnd does.
    Warning,
    /// Worth knowing; kilnd handles it, or it costs time.
    Note,
}

/// Something that is missing or in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable between versions, for programs that read the report.
    pub id: &'static str,
    pub severity: Severity,
    /// The file or unit that it is about.
    pub path: String,
    /// One sentence in lower case.
    pub message: String,
    pub fix: String,
}

/// All findings, blockers first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    pub purpose: Purpose,
    pub findings: Vec<Finding>,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Blocker => "blocker",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Report {
    pub(super) fn new(purpose: Purpose, mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| (a.severity, a.id, &a.path, &a.message).cmp(&(b.severity, b.id, &b.path, &b.message)));
        findings.dedup();
        Self { schema: SCHEMA, purpose, findings }
    }

    /// The findings that keep a machine from becoming a node.
    pub fn blockers(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Blocker)
    }

    /// Whether a machine can become a node.
    pub fn is_usable(&self) -> bool {
        self.blockers().next().is_none()
    }

    /// The report for people: one finding per line with its fix, then the totals.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            _ = writeln!(text, "{} {}: {}", finding.severity.as_str(), finding.id, finding.message);
            _ = writeln!(text, "  fix: {}", finding.fix);
        }
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        let plural = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
        let totals = [Severity::Blocker, Severity::Warning, Severity::Note].map(|one| plural(count(one), one.as_str()));
        text.push_str(&totals.join(", "));
        text.push('\n');
        text
    }

    /// The report for programs.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a report has string keys");
        text + "\n"
    }

    /// The first blocker in one sentence, and how many more there are.
    pub fn sentence(&self) -> Option<String> {
        let more = self.blockers().count().saturating_sub(1);
        let first = self.blockers().next()?;
        let more = if more == 0 { String::new() } else { format!(" (and {more} more: run `kilnd check-image`)") };
        Some(format!("{}{more}", first.message))
    }
}
