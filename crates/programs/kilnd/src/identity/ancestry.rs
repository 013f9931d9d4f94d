//! The machines that had this disk or an ancestor of it, one line each, oldest first.

use std::time::Duration;

use crate::os::{Durability, Root, clock};
use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::ANCESTRY;
use kiln_types::Ancestor;
use serde::{Deserialize, Serialize};

/// The transfer of a disk to another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transfer {
    /// The time, by the clock of the new machine.
    pub at: String,
    /// The previous machine; empty for the first one.
    #[serde(default)]
    pub from: String,
    /// The new machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The image version in between, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_version: Option<String>,
    /// The run that created the version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Reads all transfers. Truncated lines are skipped.
pub fn read(root: &Root) -> Result<Vec<Transfer>, crate::os::Error> {
    let bytes = root.read_if_exists(ANCESTRY)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The image versions of transfers.
pub fn versions(transfers: &[Transfer]) -> Vec<Ancestor> {
    let known = transfers.iter().filter_map(|one| {
        one.image_version.clone().map(|image_version| Ancestor { image_version, run: one.run.clone() })
    });
    known.collect()
}

/// Adds a transfer. A repeated reset adds it only once.
pub(super) fn add(root: &Root, from: &str, to: Option<&str>, wall: Duration) -> Result<(), crate::os::Error> {
    let mut all = read(root)?;
    if all.last().is_some_and(|last| last.from == from && last.to.as_deref() == to) {
        return Ok(());
    }
    let at = clock::rfc3339(wall);
    all.push(Transfer { at, from: from.to_owned(), to: to.map(str::to_owned), image_version: None, run: None });
    write(root, &all)
}

/// Records the image version of this machine in its transfer, or in a new entry.
pub fn note_version(root: &Root, to: &str, version: &str, wall: Duration) -> Result<(), crate::os::Error> {
    let mut all = read(root)?;
    let version = Some(version.to_owned());
    match all.last_mut().filter(|last| last.to.as_deref() == Some(to)) {
        Some(last) if last.image_version == version => return Ok(()),
        Some(last) => last.image_version = version,
        None => all.push(Transfer {
            at: clock::rfc3339(wall),
            from: String::new(),
            to: Some(to.to_owned()),
            image_version: version,
            run: None,
        }),
    }
    write(root, &all)
}

fn write(root: &Root, all: &[Transfer]) -> Result<(), crate::os::Error> {
    let lines: Vec<String> = all.iter().filter_map(|transfer| serde_json::to_string(transfer).ok()).collect();
    let text = lines.join("\n") + "\n";
    root.write_all(&[DesiredFile::new(ANCESTRY, text, 0o644)], Durability::Later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_is_added_once_and_broken_lines_are_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        for _ in 0..2 {
            add(&root, "a", Some("b"), Duration::ZERO).expect("added");
        }
        add(&root, "b", Some("c"), Duration::ZERO).expect("added");
        let all = read(&root).expect("read");
        assert_eq!(all.iter().map(|one| one.from.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(all[0].at, "1970-01-01T00:00:00Z");
        let path = folder.path().join("var/lib/kiln/ancestry.log");
        let mut text = std::fs::read_to_string(&path).expect("read");
        text.push_str("{\"at\":\"x\",\"from\":\"c\",\"imageVersion\":\"2026.11.15\",\"run\":\"r\"}\n{\"at\":");
        std::fs::write(&path, text).expect("write");
        let versions = versions(&read(&root).expect("read"));
        assert_eq!(versions, [Ancestor { image_version: "2026.11.15".to_owned(), run: Some("r".to_owned()) }]);
    }

    #[test]
    fn image_version_is_recorded_in_the_transfer() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        for _ in 0..2 {
            note_version(&root, "a", "1.0.0", Duration::ZERO).expect("recorded");
        }
        add(&root, "a", Some("b"), Duration::ZERO).expect("added");
        note_version(&root, "b", "2.0.0", Duration::ZERO).expect("recorded");
        let all = read(&root).expect("read");
        let entries: Vec<(&str, Option<&str>, Option<&str>)> =
            all.iter().map(|one| (one.from.as_str(), one.to.as_deref(), one.image_version.as_deref())).collect();
        assert_eq!(entries, [("", Some("a"), Some("1.0.0")), ("a", Some("b"), Some("2.0.0"))]);
    }
}
