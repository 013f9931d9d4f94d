//! Parser for captures: the output of `systemctl show` for the manager and for all units.

use crate::model::{Boot, Manager, Unit, UnitName};
use crate::span::Usec;

/// The unit properties that a capture must contain, for `systemctl show --property`.
pub const UNIT_PROPERTIES: &str = "Id,Names,Type,LoadState,ActiveState,Result,InactiveExitTimestampMonotonic,\
ActiveEnterTimestampMonotonic,ActiveExitTimestampMonotonic,InactiveEnterTimestampMonotonic,ExecMainStartTimestampMonotonic,\
After,Before,Requires,Wants,BindsTo,TriggeredBy,ConditionResult";

/// A text that is not a capture of a boot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCapture {
    #[error(
        "the capture has no units; expected blocks that start with `Id=`, as `systemctl show --all '*'` prints them"
    )]
    NoUnit,
    #[error(
        "the capture has no `UserspaceTimestampMonotonic`; expected the output of `systemctl show` before the units"
    )]
    NoManager,
    #[error("line {line}: invalid `{key}` `{value}`; expected a number of microseconds")]
    BadTime {
        /// Counted from 1.
        line: usize,
        key: &'static str,
        /// At most 40 characters.
        value: String,
    },
}

/// Parses a capture: the manager's block, then one block per unit, separated by empty lines. Unknown keys are ignored.
pub fn parse(text: &str) -> Result<Boot, BadCapture> {
    let mut boot = Boot::default();
    let mut block = Block::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            std::mem::take(&mut block).finish(&mut boot);
            continue;
        }
        // A value such as Description= can have several lines. A line without `=` continues the previous value.
        if let Some((key, value)) = line.split_once('=') {
            block.set(index + 1, key, value)?;
        }
    }
    block.finish(&mut boot);
    if boot.units.is_empty() {
        return Err(BadCapture::NoUnit);
    }
    if boot.manager.userspace.is_none() {
        return Err(BadCapture::NoManager);
    }
    Ok(boot)
}

#[derive(Default)]
struct Block {
    id: Option<UnitName>,
    names: Vec<UnitName>,
    unit: Unit,
    manager: Manager,
    is_manager: bool,
}

impl Block {
    fn set(&mut self, line: usize, key: &str, value: &str) -> Result<(), BadCapture> {
        let time = |key: &'static str| match value {
            "" | "[not set]" => Ok(None),
            value => value.parse().map(|usec| Some(Usec(usec))).map_err(|_| BadCapture::BadTime {
                line,
                key,
                value: value.chars().take(40).collect(),
            }),
        };
        let word = || (!value.is_empty()).then(|| value.to_owned());
        match key {
            "Id" => self.id = (!value.is_empty()).then(|| unquoted(value).into()),
            "Names" => self.names = names(value),
            "InactiveExitTimestampMonotonic" => self.unit.activating = time("InactiveExitTimestampMonotonic")?,
            "ActiveEnterTimestampMonotonic" => self.unit.activated = time("ActiveEnterTimestampMonotonic")?,
            "ActiveExitTimestampMonotonic" => self.unit.deactivating = time("ActiveExitTimestampMonotonic")?,
            "InactiveEnterTimestampMonotonic" => self.unit.deactivated = time("InactiveEnterTimestampMonotonic")?,
            "ExecMainStartTimestampMonotonic" => self.unit.exec_start = time("ExecMainStartTimestampMonotonic")?,
            "After" => {
                self.unit.after = names(value);
                self.unit.order_recorded = true;
            }
            "Before" => self.unit.before = names(value),
            "Wants" => self.unit.wants = names(value),
            "Requires" | "BindsTo" => self.unit.requires.extend(names(value)),
            "TriggeredBy" => self.unit.triggered_by = names(value),
            "Type" => self.unit.service_type = word(),
            "LoadState" => self.unit.load_state = word(),
            "Result" => self.unit.result = word(),
            "ConditionResult" => self.unit.condition = Some(value == "yes"),
            "FirmwareTimestampMonotonic" => self.manager.firmware = time("FirmwareTimestampMonotonic")?,
            "LoaderTimestampMonotonic" => self.manager.loader = time("LoaderTimestampMonotonic")?,
            "InitRDTimestampMonotonic" => self.manager.initrd = time("InitRDTimestampMonotonic")?,
            "GeneratorsFinishTimestampMonotonic" => {
                self.manager.generators_finish = time("GeneratorsFinishTimestampMonotonic")?;
            }
            "UnitsLoadFinishTimestampMonotonic" => {
                self.manager.units_load_finish = time("UnitsLoadFinishTimestampMonotonic")?;
            }
            "FinishTimestampMonotonic" => self.manager.finish = time("FinishTimestampMonotonic")?,
            "UserspaceTimestampMonotonic" => {
                self.manager.userspace = time("UserspaceTimestampMonotonic")?;
                self.is_manager = true;
            }
            "Version" => self.manager.version = word(),
            "Virtualization" => self.manager.virtualization = word(),
            _ => {}
        }
        Ok(())
    }

    fn finish(self, boot: &mut Boot) {
        if self.is_manager {
            boot.manager = self.manager;
            return;
        }
        let Some(id) = self.id else { return };
        for name in self.names.into_iter().filter(|name| *name != id) {
            boot.aliases.insert(name, id.clone());
        }
        let unit = Unit { index: boot.units.len(), ..self.unit };
        boot.units.entry(id).or_insert(unit);
    }
}

/// Parses a list of unit names. systemd quotes a name that contains a backslash, and doubles the backslash.
fn names(list: &str) -> Vec<UnitName> {
    let mut all = Vec::new();
    let mut rest = list.trim_start();
    while !rest.is_empty() {
        let (item, after) = match rest.strip_prefix('"') {
            Some(quoted) => rest.split_at(quoted_end(quoted) + 1),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        all.push(unquoted(item).into());
        rest = after.trim_start();
    }
    all
}

/// Length of a quoted name up to and including its closing quote; the whole text if there is none.
fn quoted_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn unquoted(item: &str) -> String {
    match item.strip_prefix('"').map(|item| item.strip_suffix('"').unwrap_or(item)) {
        None => item.to_owned(),
        Some(inner) => {
            let mut text = String::with_capacity(inner.len());
            let mut characters = inner.chars();
            while let Some(character) = characters.next() {
                text.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    const MANAGER: &str = "UserspaceTimestampMonotonic=10\nFinishTimestampMonotonic=90\n\n";

    #[test]
    fn a_unit_is_parsed_with_its_times_and_ordering() {
        let boot = parse(&format!("{MANAGER}Id=a.service\nNames=a.service b.service\nAfter=x.target \"y\\\\x2dz.mount\" w.slice\nInactiveExitTimestampMonotonic=20\nActiveEnterTimestampMonotonic=0\n")).unwrap();
        let unit = boot.unit("b.service").unwrap();
        let after: Vec<_> = unit.after.iter().map(UnitName::as_str).collect();
        assert_eq!(after, ["x.target", "y\\x2dz.mount", "w.slice"]);
        assert_eq!((unit.activating, unit.activated, unit.deactivated), (Some(Usec(20)), Some(Usec::ZERO), None));
    }

    #[test]
    fn a_missing_key_is_none_and_not_zero() {
        let boot = parse(&format!("{MANAGER}Id=a.service\n")).unwrap();
        assert_eq!(boot.unit("a.service").unwrap().activating, None);
        let no_finish = parse("UserspaceTimestampMonotonic=10\n\nId=a.service\n").unwrap();
        assert_eq!(crate::time(&no_finish), Err(crate::NotFinished::Unknown));
    }

    #[test]
    fn a_capture_without_units_or_manager_is_rejected() {
        assert_eq!(parse(MANAGER), Err(BadCapture::NoUnit));
        assert_eq!(parse("Id=a.service\n"), Err(BadCapture::NoManager));
        let error = parse(&format!("{MANAGER}Id=a.service\nInactiveExitTimestampMonotonic=soon\n")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 5: invalid `InactiveExitTimestampMonotonic` `soon`; expected a number of microseconds"
        );
    }

    #[test]
    fn a_line_of_ten_megabytes_and_a_hundred_thousand_units_are_parsed() {
        let mut text = format!("{MANAGER}Description={}\n", "x".repeat(10 << 20));
        for index in 0..100_000 {
            let _ = write!(
                text,
                "\nId=u{index}.service\nAfter=u{}.service\nInactiveExitTimestampMonotonic={index}\nActiveEnterTimestampMonotonic={index}\n",
                index + 1
            );
        }
        let boot = parse(&text).unwrap();
        assert_eq!(boot.units.len(), 100_000);
        // The chain is 100,000 levels deep; a recursive walk would overflow the stack.
        assert!(crate::chain(&boot, "u0.service", Usec::ZERO).unwrap().len() > 100);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "(Id|After|Names|InactiveExitTimestampMonotonic|[a-zA-Z]{0,4})=[ \"\\\\a-z0-9.é]{0,12}(\n|\n\n|=)".prop_flat_map(|one| prop::collection::vec(Just(one), 0..20)).prop_map(|all| all.concat())) {
            let _ = parse(&text);
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
