//! The documented differences between the embedded and the real Azure.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../../../docs/reference/embedded-azure.md");

/// A row of the table: the request, the difference, and why it exists.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(super) struct Row {
    request: String,
    difference: String,
}

/// A difference between a recorded answer and the one of the embedded Azure.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
#[expect(clippy::struct_field_names, reason = "the column of the table")]
pub(super) struct Difference {
    pub(super) request: String,
    pub(super) difference: String,
    /// A recording that shows it.
    pub(super) seen_in: String,
}

/// The rows of the table of differences.
pub(super) fn rows() -> Vec<Row> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with("Differences from the recordings"));
    let lines = section.expect("the section of differences").lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [request, difference, reason] = cells[..] else { panic!("not three cells: {line}") };
            assert!(!reason.is_empty(), "no reason: {line}");
            let [request, difference] = [request, difference].map(|cell| cell.trim_matches('`').to_owned());
            Row { request, difference }
        })
        .collect()
}

/// Compares what was found with the table: undocumented differences, and rows whose difference no longer exists.
pub(super) fn judge(found: &[Difference], rows: &[Row]) -> Vec<String> {
    let mut used = BTreeSet::new();
    let mut errors = BTreeSet::new();
    for one in found {
        let row = rows.iter().find(|row| row.request == one.request && row.difference == one.difference);
        match row {
            Some(row) => {
                used.insert(row);
            }
            None => {
                errors.insert(format!("undocumented: `{}` | `{}` (in {})", one.request, one.difference, one.seen_in));
            }
        }
    }
    let stale = rows.iter().filter(|row| !used.contains(row));
    errors.extend(stale.map(|row| format!("no longer different: `{}` | `{}`", row.request, row.difference)));
    errors.into_iter().collect()
}

#[test]
fn undocumented_differences_and_stale_rows_are_errors() {
    let found = |request: &str, difference: &str| Difference {
        request: request.to_owned(),
        difference: difference.to_owned(),
        seen_in: "f".to_owned(),
    };
    let row = |request: &str, difference: &str| Row { request: request.to_owned(), difference: difference.to_owned() };
    let rows = [row("GET a/*", "missing b.c"), row("PUT a", "status 200")];
    assert_eq!(
        judge(&[found("GET a/*", "missing b.c"), found("GET a/*/b", "missing b.c")], &rows),
        ["no longer different: `PUT a` | `status 200`", "undocumented: `GET a/*/b` | `missing b.c` (in f)"]
    );
}
