//! Units by the time they took to start.

use std::fmt::Write as _;

use serde::Serialize;

use crate::model::{Boot, UnitName};
use crate::span::Usec;
use crate::time::NotFinished;

/// A unit and its start-up time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blamed {
    pub unit: UnitName,
    pub time: Usec,
}

/// Units that took measurable time to start, longest first. Ties keep the order of the capture.
pub fn blamed(boot: &Boot) -> Result<Vec<Blamed>, NotFinished> {
    let boot = crate::time::as_analyzed(boot);
    crate::time::finished(&boot)?;
    let mut all: Vec<(Usec, usize, &UnitName)> = boot
        .units
        .iter()
        .filter(|(_, unit)| unit.is_started())
        .map(|(name, unit)| (unit.time(), unit.index, name))
        .filter(|(time, _, _)| *time > Usec::ZERO)
        .collect();
    all.sort_by_key(|(time, index, _)| (std::cmp::Reverse(*time), *index));
    Ok(all.into_iter().map(|(time, _, unit)| Blamed { unit: unit.clone(), time }).collect())
}

/// The output of `systemd-analyze blame`.
pub fn blame(boot: &Boot) -> Result<String, NotFinished> {
    let blamed = blamed(boot)?;
    let width = blamed.iter().map(|one| one.time.to_string().len()).max().unwrap_or_default();
    Ok(blamed.iter().fold(String::new(), |mut text, Blamed { unit, time }| {
        let _ = writeln!(text, "{time:>width$} {unit}");
        text
    }))
}
