//! The versions that no canary has proven yet.

use std::collections::BTreeSet;

use kiln_types::VersionNumber;

use crate::journal::{Outcome, Run};
use crate::step::Step;

/// The versions whose runs failed before they included them, and that no other run included or rejected. Such a version is excluded only
/// because its run could not finish, so it says nothing about the patch that it was created from.
pub fn not_proven(runs: &[Run]) -> BTreeSet<VersionNumber> {
    let failed = |run: &&Run| matches!(run.closed, Some((_, Outcome::Failed { .. }))) && !run.is_done(Step::Include);
    let judged = |run: &&Run| run.is_done(Step::Include) || run.rejected().is_some();
    let judged: BTreeSet<&VersionNumber> = runs.iter().filter(judged).map(|run| &run.header.version).collect();
    let unproven = runs.iter().filter(failed).map(|run| &run.header.version);
    unproven.filter(|version| !judged.contains(version)).cloned().collect()
}
