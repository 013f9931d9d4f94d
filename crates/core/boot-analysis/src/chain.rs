//! The critical chain, byte for byte as `systemd-analyze critical-chain` prints it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::model::{Boot, Unit};
use crate::span::Usec;
use crate::time::NotFinished;

const HEADER: &str = "The time when unit became active or started is printed after the \"@\" character.\n\
                      The time the unit took to start is printed after the \"+\" character.\n\n";

/// Output limit. Each line is indented deeper than the one before it, so a made-up capture of 100,000 units in a row would print 20 GB.
const MAX_LENGTH: usize = 32 << 20;

/// The output of `systemd-analyze critical-chain`: below each unit, the unit in its `After=` that became active last. Units that became
/// active within `fuzz` of the last one are printed too.
pub fn chain(boot: &Boot, unit: &str, fuzz: Usec) -> Result<String, NotFinished> {
    let boot = &*crate::time::as_analyzed(boot);
    let finish = crate::time::finished(boot)?;
    // Without any started unit, systemd-analyze prints nothing, not even the header.
    if !boot.units.values().any(Unit::is_started) {
        return Ok(String::new());
    }
    let id = boot.id(unit);
    let mut text = HEADER.to_owned();
    if let Some(root) = boot.started(id) {
        line(boot, &mut text, Branches::default(), None, id, root, true);
    }
    let mut printer = Printer { boot, fuzz, finish, visited: BTreeSet::new(), text };
    printer.print_below(unit);
    Ok(printer.text)
}

struct Printer<'a> {
    boot: &'a Boot,
    fuzz: Usec,
    finish: Usec,
    visited: BTreeSet<&'a str>,
    text: String,
}

impl<'a> Printer<'a> {
    fn print_below(&mut self, name: &'a str) {
        // systemd-analyze remembers the name from the command line. If that is an alias, a cycle back to the unit is followed once more.
        self.visited.insert(name);
        // An explicit stack: a recursion could overflow on a hostile capture.
        let mut open = vec![(self.latest(name), 0, Branches::default())];
        while let Some((chosen, done, branches)) = open.last_mut() {
            if self.text.len() > MAX_LENGTH {
                self.text.push_str("...\n");
                return;
            }
            let Some((dependency, unit)) = chosen.get(*done).copied() else {
                open.pop();
                continue;
            };
            *done += 1;
            let last = *done == chosen.len();
            let (here, below) = (*branches, branches.below(!last));
            line(self.boot, &mut self.text, here, Some(last), dependency, unit, false);
            if !self.visited.insert(dependency) {
                let _ = writeln!(self.text, "{below}\u{2514}\u{2500}...");
                continue;
            }
            open.push((self.latest(dependency), 0, below));
        }
    }

    /// The units that are printed below a unit, latest first.
    fn latest(&self, name: &str) -> Vec<(&'a str, &'a Unit)> {
        let Some(unit) = self.boot.unit(name) else { return Vec::new() };
        let active = |unit: &Unit| unit.activated.unwrap_or_default();
        let mut all: Vec<(&str, &Unit)> = unit
            .after
            .iter()
            // systemd-analyze looks up times by a unit's primary name, so it skips an alias in After=.
            .filter_map(|name| self.boot.units.get(name).map(|unit| (name.as_str(), unit)))
            .filter(|(_, unit)| unit.is_started() && active(unit) > Usec::ZERO && active(unit) <= self.finish)
            .collect();
        // A stable sort: ties keep the order of After=.
        all.sort_by_key(|(_, unit)| std::cmp::Reverse(active(unit)));
        let Some(latest) = all.first().map(|(_, unit)| active(unit)) else { return Vec::new() };
        all.retain(|(_, unit)| latest - active(unit) <= self.fuzz);
        all
    }
}

/// The branches that are still open to the left of a line. systemd-analyze stores them as bits of a 32-bit word, so from the 33rd level on
/// the first ones are lost and later ones appear in their place.
#[derive(Clone, Copy, Default)]
struct Branches {
    level: u32,
    open: u32,
}

impl Branches {
    fn below(self, more: bool) -> Self {
        Self { level: self.level + 1, open: self.open << 1 | u32::from(more) }
    }
}

impl std::fmt::Display for Branches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (0..self.level).rev().try_for_each(|level| {
            let is_open = self.open.wrapping_shr(level) & 1 == 1;
            f.write_str(if is_open { "\u{2502} " } else { "  " })
        })
    }
}

fn line(boot: &Boot, text: &mut String, branches: Branches, last: Option<bool>, name: &str, unit: &Unit, root: bool) {
    let userspace = boot.userspace();
    let (activating, activated) = (unit.activating.unwrap_or_default(), unit.activated.unwrap_or_default());
    let _ = write!(text, "{branches}");
    if let Some(last) = last {
        text.push_str(if last { "\u{2514}\u{2500}" } else { "\u{251c}\u{2500}" });
    }
    let time = unit.time();
    let _ = if time > Usec::ZERO && root {
        writeln!(text, "{name} +{time}")
    } else if time > Usec::ZERO {
        writeln!(text, "{name} @{} +{time}", activating - userspace)
    } else if activated > userspace {
        writeln!(text, "{name} @{}", activated - userspace)
    } else {
        writeln!(text, "{name}")
    };
}
