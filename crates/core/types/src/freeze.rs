//! Frozen file systems: how long they may stay frozen, and what the program that freezes them reports.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long the file systems of a donor may stay frozen. After this time kilnd thaws them, whether or not it was asked to.
pub const FREEZE_WINDOW: Duration = Duration::from_secs(9);

/// When systemd on the donor thaws the file systems if kilnd has not. It is long enough that it never interferes with a kilnd that is alive.
pub const THAW_TIMER: Duration = Duration::from_secs(30);

/// Why a freeze ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FreezeEnd {
    /// The thaw was requested while the file systems were frozen.
    Requested,
    /// [`FREEZE_WINDOW`] was over.
    WindowOver,
    /// A file system was not frozen any more: something else had thawed it.
    ThawedElsewhere,
}

/// A freeze that has ended, as measured by the process that froze the file systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreezeReport {
    /// The run that requested the freeze.
    pub run: String,
    /// The mount points of the frozen file systems, in the order in which they were frozen.
    pub file_systems: Vec<String>,
    /// From before the first file system was frozen until the last one was thawed.
    pub frozen_ms: u64,
    pub end: FreezeEnd,
}

/// The result of a check that nothing is frozen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThawReport {
    /// The mount points that were still frozen and are thawed now.
    pub thawed: Vec<String>,
    /// The run's last freeze, if its report exists.
    pub freeze: Option<FreezeReport>,
}

impl ThawReport {
    /// How long the file systems were frozen, if they stayed frozen until a thaw was requested. Only then is everything that was done
    /// meanwhile known to have happened on frozen file systems.
    pub fn frozen_until_requested(&self) -> Option<Duration> {
        let freeze = self.freeze.as_ref().filter(|freeze| freeze.end == FreezeEnd::Requested)?;
        self.thawed.is_empty().then_some(Duration::from_millis(freeze.frozen_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(end: FreezeEnd, thawed: &[&str]) -> ThawReport {
        let freeze = FreezeReport { run: "r1".to_owned(), file_systems: vec!["/".to_owned()], frozen_ms: 2_300, end };
        ThawReport { thawed: thawed.iter().map(ToString::to_string).collect(), freeze: Some(freeze) }
    }

    #[test]
    fn only_a_freeze_that_lasted_until_its_thaw_was_requested_counts() {
        let lasted = |report: ThawReport| report.frozen_until_requested();
        assert_eq!(lasted(report(FreezeEnd::Requested, &[])), Some(Duration::from_millis(2_300)));
        for end in [FreezeEnd::WindowOver, FreezeEnd::ThawedElsewhere] {
            assert_eq!(lasted(report(end, &[])), None);
        }
        assert_eq!(lasted(report(FreezeEnd::Requested, &["/"])), None, "another freeze than the reported one");
        assert_eq!(lasted(ThawReport::default()), None, "kilnd was killed");
    }

    #[test]
    fn window_is_below_ten_seconds_and_ends_before_the_timer() {
        assert!(FREEZE_WINDOW < Duration::from_secs(10) && FREEZE_WINDOW * 3 < THAW_TIMER);
    }
}
