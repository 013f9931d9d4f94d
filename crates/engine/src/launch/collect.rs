//! What a killed creation or deletion left, and how it is told from what somebody keeps.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_types::{LAUNCH_DONE, LAUNCH_TAG, Machine, MachineName, MachineState, Machines, OWNER_TAG};
use serde::Serialize;

/// How old a launch must be before it counts as left. Azure gives up on a machine that does not boot after some twenty minutes; a launch that
/// is still going on is younger than that.
pub const PATIENCE: Duration = Duration::from_mins(30);

/// What is done about a machine or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Its maker knows of it.
    Kept,
    /// Its launch is too young to be given up.
    Young,
    /// Nobody says when its launch began: it was changed by another hand, and is left.
    Undated,
    /// Its maker is gone.
    Left,
}

/// A machine that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    pub name: MachineName,
    /// Whether the machine itself is there, or only parts of it.
    pub whole: bool,
    pub parts: Vec<String>,
    /// When its launch began, where that is known.
    pub begun: Option<Timestamp>,
    /// What is done about it.
    pub fate: Fate,
}

/// What a collection did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collected {
    /// What was removed, or would be.
    pub removed: Vec<Leftover>,
    /// What was not, and why.
    pub kept: Vec<Leftover>,
}

/// Judges machines: which were left by a maker that is gone.
pub fn leftovers(machines: &[Machine], now: Timestamp, patience: Duration) -> Vec<Leftover> {
    machines.iter().map(|machine| judge(machine, now, patience)).collect()
}

fn judge(machine: &Machine, now: Timestamp, patience: Duration) -> Leftover {
    let word = machine.tags.get(LAUNCH_TAG).map(String::as_str);
    let begun: Option<Timestamp> = word.and_then(|word| word.parse().ok());
    let whole = matches!(machine.state, MachineState::Present { .. });
    let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
    let fate = match (word, begun) {
        (Some(LAUNCH_DONE), _) if whole => Fate::Kept,
        // A launch of the future has a clock that runs ahead; it is no older than one that begins now.
        (_, Some(begun)) if now.duration_since(begun) >= patience => Fate::Left,
        (_, Some(_)) => Fate::Young,
        // The machine is gone and its maker knew of it: a deletion was killed.
        (Some(LAUNCH_DONE), None) => Fate::Left,
        (_, None) => Fate::Undated,
    };
    Leftover { name: machine.name.clone(), whole, parts: machine.parts.clone(), begun, fate }
}

/// Removes what carries the owner's tag and was left, and nothing else. With `pretend` it is only said.
pub async fn collect<M: Machines>(
    machines: &M,
    owner: &str,
    now: Timestamp,
    patience: Duration,
    pretend: bool,
) -> Result<Collected, M::Error> {
    let found = machines.list(OWNER_TAG, owner).await?;
    let mut collected = Collected { removed: Vec::new(), kept: Vec::new() };
    for (machine, leftover) in found.iter().zip(leftovers(&found, now, patience)) {
        if leftover.fate != Fate::Left {
            collected.kept.push(leftover);
            continue;
        }
        if !pretend {
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

    fn fate(whole: bool, word: Option<&str>) -> Fate {
        let state = if whole {
            MachineState::Present { provisioning: Provisioning::Succeeded, vm_id: None }
        } else {
            MachineState::Fragment
        };
        let tags: Tags = word.into_iter().map(|word| (LAUNCH_TAG.to_owned(), word.to_owned())).collect();
        let machine = Machine { name: "m".parse().unwrap(), state, parts: Vec::new(), tags };
        leftovers(&[machine], "2026-11-16T01:00:00Z".parse().unwrap(), PATIENCE)[0].fate
    }

    #[test]
    fn a_machine_is_kept_once_its_maker_knows_of_it() {
        assert_eq!(fate(true, Some("done")), Fate::Kept);
        assert_eq!(fate(true, Some("2026-11-16T00:30:00Z")), Fate::Left);
        assert_eq!(fate(true, Some("2026-11-16T00:30:01Z")), Fate::Young);
    }

    #[test]
    fn a_part_without_its_machine_is_left_by_a_launch_or_by_a_deletion() {
        assert_eq!(fate(false, Some("2026-11-16T00:00:00Z")), Fate::Left);
        assert_eq!(fate(false, Some("2026-11-16T00:59:00Z")), Fate::Young);
        assert_eq!(fate(false, Some("done")), Fate::Left);
    }

    #[test]
    fn what_says_no_time_and_what_says_a_later_one_are_not_touched() {
        for whole in [true, false] {
            assert_eq!(fate(whole, None), Fate::Undated);
            assert_eq!(fate(whole, Some("yesterday")), Fate::Undated);
            assert_eq!(fate(whole, Some("2027-01-01T00:00:00Z")), Fate::Young);
        }
    }
}
