//! Collecting what an interrupted creation or deletion left behind.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_types::{LAUNCH_DONE, LAUNCH_TAG, Machine, MachineName, MachineState, Machines, OWNER_TAG};
use serde::Serialize;

/// How old a launch must be to count as abandoned. Azure gives up on a machine that does not boot after about twenty minutes, so a running
/// launch is younger.
pub const ABANDONED_AFTER: Duration = Duration::from_mins(30);

/// The state of a launch, which decides whether its parts are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchState {
    Complete,
    /// It may still be running.
    Recent,
    /// Its start is not known because someone else changed the tag. Its parts are kept.
    Undated,
    /// The launching process is gone. Its parts are removed.
    Abandoned,
}

/// A machine, or parts of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    pub name: MachineName,
    /// Whether the machine itself exists.
    pub whole: bool,
    pub parts: Vec<String>,
    /// The start of its launch, if known.
    pub begun: Option<Timestamp>,
    pub launch: LaunchState,
}

/// The result of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collected {
    pub removed: Vec<Leftover>,
    pub kept: Vec<Leftover>,
}

/// Determines which machines were abandoned.
pub fn leftovers(machines: &[Machine], now: Timestamp, abandoned_after: Duration) -> Vec<Leftover> {
    machines.iter().map(|machine| leftover(machine, now, abandoned_after)).collect()
}

fn leftover(machine: &Machine, now: Timestamp, abandoned_after: Duration) -> Leftover {
    let tag = machine.tags.get(LAUNCH_TAG).map(String::as_str);
    let begun: Option<Timestamp> = tag.and_then(|tag| tag.parse().ok());
    let whole = matches!(machine.state, MachineState::Present { .. });
    let abandoned_after = SignedDuration::try_from(abandoned_after).unwrap_or(SignedDuration::MAX);
    let launch = match (tag, begun) {
        (Some(LAUNCH_DONE), _) if whole => LaunchState::Complete,
        // A start in the future comes from a clock that is ahead, and counts as recent.
        (_, Some(begun)) if now.duration_since(begun) >= abandoned_after => LaunchState::Abandoned,
        (_, Some(_)) => LaunchState::Recent,
        // The launch was complete and the machine is gone: a deletion was interrupted.
        (Some(LAUNCH_DONE), None) => LaunchState::Abandoned,
        (_, None) => LaunchState::Undated,
    };
    Leftover { name: machine.name.clone(), whole, parts: machine.parts.clone(), begun, launch }
}

/// Removes the abandoned parts with the owner's tag and nothing else. With `dry_run` nothing is removed.
pub async fn collect<M: Machines>(
    machines: &M,
    owner: &str,
    now: Timestamp,
    abandoned_after: Duration,
    dry_run: bool,
) -> Result<Collected, M::Error> {
    let found = machines.list(OWNER_TAG, owner).await?;
    let mut collected = Collected { removed: Vec::new(), kept: Vec::new() };
    for (machine, leftover) in found.iter().zip(leftovers(&found, now, abandoned_after)) {
        if leftover.launch != LaunchState::Abandoned {
            collected.kept.push(leftover);
            continue;
        }
        if !dry_run {
            machines.collect(machine, OWNER_TAG, owner).await?;
        }
        collected.removed.push(leftover);
    }
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use kiln_types::{Provisioning, Tags};

    use super::*;

    fn launch(whole: bool, tag: Option<&str>) -> LaunchState {
        let state = if whole {
            MachineState::Present { provisioning: Provisioning::Succeeded, vm_id: None }
        } else {
            MachineState::Fragment
        };
        let tags: Tags = tag.into_iter().map(|tag| (LAUNCH_TAG.to_owned(), tag.to_owned())).collect();
        let machine = Machine { name: "m".parse().unwrap(), state, parts: Vec::new(), tags };
        leftovers(&[machine], "2026-11-16T01:00:00Z".parse().unwrap(), ABANDONED_AFTER)[0].launch
    }

    #[test]
    fn machine_of_a_complete_launch_is_kept() {
        assert_eq!(launch(true, Some("done")), LaunchState::Complete);
        assert_eq!(launch(true, Some("2026-11-16T00:30:00Z")), LaunchState::Abandoned);
        assert_eq!(launch(true, Some("2026-11-16T00:30:01Z")), LaunchState::Recent);
    }

    #[test]
    fn parts_without_a_machine_are_abandoned() {
        assert_eq!(launch(false, Some("2026-11-16T00:00:00Z")), LaunchState::Abandoned);
        assert_eq!(launch(false, Some("2026-11-16T00:59:00Z")), LaunchState::Recent);
        assert_eq!(launch(false, Some("done")), LaunchState::Abandoned);
    }

    #[test]
    fn launches_without_a_start_or_with_a_future_one_are_kept() {
        for whole in [true, false] {
            assert_eq!(launch(whole, None), LaunchState::Undated);
            assert_eq!(launch(whole, Some("yesterday")), LaunchState::Undated);
            assert_eq!(launch(whole, Some("2027-01-01T00:00:00Z")), LaunchState::Recent);
        }
    }
}
