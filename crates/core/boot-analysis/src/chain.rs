//! The critical chain, byte for byte as `systemd-analyze critical-chain` prints it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::model::{Boot, Unit, UnitName};
use crate::span::Usec;
use crate::time::NotFinished;

const HEADER: &str = "The time when unit became active or started is printed after the \"@\" character.\n\
                      The time the unit took to start is printed after the \"+\" character.\n\n";

/// A chain that is longer than this is made up: each line is deeper than the one before, and 100,000 units behind each other would be 20 GB.
const LONGEST: usize = 32 << 20;

/// The chain of one unit: of those that it waited for the last, of those that this one waited for the last, and so on. Others that came within
/// `fuzz` of the last are shown too.
pub fn chain(boot: &Boot, unit: &str, fuzz: Usec) -> Result<String, NotFinished> {
    let boot = &*crate::time::as_analyzed(boot);
    let finish = crate::time::finished(boot)?;
    // Without a started unit systemd-analyze has no times to look up, and prints not even its header.
    if !boot.units.values().any(Unit::is_started) {
        return Ok(String::new());
    }
    let id = boot.id(unit);
    let mut text = HEADER.to_owned();
    if let Some(root) = boot.started(id) {
        line(boot, &mut text, Branches::default(), None, id, root, true);
    }
    let mut printer = Printer { boot, fuzz, finish, seen: BTreeSet::new(), text };
    printer.below(unit);
    Ok(printer.text)
}

struct Printer<'a> {
    boot: &'a Boot,
    fuzz: Usec,
    finish: Usec,
    seen: BTreeSet<&'a str>,
    text: String,
}

impl<'a> Printer<'a> {
    fn below(&mut self, name: &'a str) {
        // Under the name that was asked for: the tool does not know an alias again.
        self.seen.insert(name);
        // Chains are as deep as units are ordered: a walk, not a recursion, so that a hostile capture cannot end the stack.
        let mut open = vec![(self.next(name), 0, Branches::default())];
        while let Some((chosen, done, branches)) = open.last_mut() {
            if self.text.len() > LONGEST {
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
            if !self.seen.insert(dependency) {
                let _ = writeln!(self.text, "{below}\u{2514}\u{2500}...");
                continue;
            }
            open.push((self.next(dependency), 0, below));
        }
    }

    /// What is printed below a unit, the latest first.
    fn next(&self, name: &str) -> Vec<(&'a str, &'a Unit)> {
        let Some(unit) = self.boot.unit(name) else { return Vec::new() };
        let active = |unit: &Unit| unit.activated.unwrap_or_default();
        let mut all: Vec<(&str, &Unit)> = unit
            .after
            .iter()
            // systemd-analyze looks up times by a unit's primary name, so it skips an alias in After=.
            .filter_map(|name| self.boot.units.get(name).map(|unit| (name.as_str(), unit)))
            .filter(|(_, unit)| unit.is_started() && active(unit) > Usec::ZERO && active(unit) <= self.finish)
            .collect();
        // Ties stay in the order of After=.
        all.sort_by_key(|(_, unit)| std::cmp::Reverse(active(unit)));
        let Some(latest) = all.first().map(|(_, unit)| active(unit)) else { return Vec::new() };
        all.retain(|(_, unit)| latest - active(unit) <= self.fuzz);
        all
    }
}

/// The branches that are still open left of a line. The tool keeps them in the bits of one word: from the 33rd level on it has forgotten the
/// first, and shows a later one in their place.
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

/// A name, for those who build boots.
impl From<String> for UnitName {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}
