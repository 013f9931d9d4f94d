//! The only code that reads clocks.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Time since boot, including suspension. Used for deadlines, because it is never adjusted.
pub fn boot_time() -> Duration {
    duration(clock_gettime(ClockId::Boottime))
}

/// Time since 1970. Only for display, because it may be wrong early in a boot.
pub fn wall() -> Duration {
    duration(clock_gettime(ClockId::Realtime))
}

/// A time since 1970 in RFC 3339: `2026-11-16T03:26:32Z`.
pub fn rfc3339(wall: Duration) -> String {
    let seconds = wall.as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil calendar in eras of 400 years that start in March, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

fn duration(time: Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_matches_date() {
        // date -u -d @N +%FT%TZ
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn clocks_are_plausible() {
        let first = boot_time();
        assert!(first > Duration::ZERO && boot_time() >= first);
        assert!(wall() > Duration::from_secs(1_700_000_000));
    }
}
