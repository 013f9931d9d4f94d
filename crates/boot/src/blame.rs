//! How long each unit took to start.

use std::fmt::Write as _;

use crate::model::Boot;
use crate::span::Usec;
use crate::time::NotFinished;

/// What `systemd-analyze blame` prints: units that took time, the longest first.
pub fn blame(boot: &Boot) -> Result<String, NotFinished> {
    crate::time::finished(boot)?;
    let mut all: Vec<(Usec, usize, &str)> = boot
        .units
        .iter()
        .filter(|(_, unit)| unit.is_started())
        .map(|(name, unit)| (unit.time(), unit.index, name.as_str()))
        .filter(|(time, _, _)| *time > Usec::ZERO)
        .collect();
    all.sort_by_key(|(time, index, _)| (std::cmp::Reverse(*time), *index));
    let width = all.iter().map(|(time, _, _)| time.to_string().len()).max().unwrap_or_default();
    Ok(all.iter().fold(String::new(), |mut text, (time, _, name)| {
        let _ = writeln!(text, "{time:>width$} {name}");
        text
    }))
}
