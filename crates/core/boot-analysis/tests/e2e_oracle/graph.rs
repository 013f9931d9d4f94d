//! Random boots with ties, ordering cycles, aliases, failed and late units, and orderings after units that do not exist.

use std::collections::BTreeMap;

use kiln_boot_analysis::{Boot, Manager, Unit, UnitName, Usec};

use crate::dice::Dice;

/// The oracle runs `systemd-analyze --user`, which counts times from the start of the manager, as it does in a container.
const CONTAINER: &str = "systemd-nspawn";

/// A unit name, some with characters that systemd escapes.
fn name(index: u64, dice: &mut Dice) -> String {
    let kinds = ["service", "target", "socket", "mount", "device", "slice"];
    let kind = kinds[dice.place(kinds.len())];
    match dice.below(6) {
        0 => format!("dev-disk-by\\x2dlabel-d{index}.{kind}"),
        1 => format!("getty@tty{index}.{kind}"),
        2 => format!("{index}-numbered.{kind}"),
        _ => format!("unit{index}.{kind}"),
    }
}

/// A random boot. No time is before the start of user space: `systemd-analyze --user` would abort.
pub(crate) fn boot(seed: u64) -> Boot {
    let mut dice = Dice::new(seed);
    let userspace = 1_000 + dice.below(5_000_000);
    let count = 2 + dice.below(24);
    let names: Vec<String> = (0..count).map(|index| name(index, &mut dice)).collect();
    // Coarse times cause ties.
    let grain = [1, 1_000, 250_000, 1_000_000][dice.place(4)];
    let length = 1 + dice.below(3) * 40_000_000 + dice.below(200_000_000);
    let finish = userspace + length;
    // In every fifth boot, units start within 50 µs of user space. One that starts in the same microsecond counts as not started.
    let spread = if seed % 5 == 4 { 50 } else { length * 5 / 4 };
    let at = |dice: &mut Dice| userspace + dice.below(spread) / grain * grain;
    let mut units = BTreeMap::new();
    for (index, name) in names.iter().enumerate() {
        let activating = if dice.chance(10) { 0 } else { at(&mut dice) };
        let took = if dice.chance(3) { 0 } else { dice.below(20_000_000) / grain * grain };
        let mut unit = Unit { index, activating: Some(Usec(activating)), ..Unit::default() };
        let ends = Usec(activating + took);
        let zero = Usec::ZERO;
        match dice.below(8) {
            // Failed before it was active.
            0 if activating > 0 => {
                (unit.activated, unit.deactivating, unit.deactivated) = (Some(zero), Some(zero), Some(ends));
            }
            // Active since the start of the manager, as after a reload.
            1 if activating > 0 => (unit.activated, unit.deactivated) = (Some(Usec(userspace)), Some(zero)),
            _ if activating > 0 => (unit.activated, unit.deactivated) = (Some(ends), Some(zero)),
            _ => (unit.activated, unit.deactivated) = (Some(zero), Some(zero)),
        }
        let orders = dice.below(5);
        unit.after = (0..orders)
            .map(|_| match dice.below(12) {
                0 => "missing.service".into(),
                // An alias. systemd writes primary names here, and systemd-analyze skips anything else.
                1 if seed.is_multiple_of(2) => "default.target".into(),
                _ => UnitName::from(names[dice.place(names.len())].as_str()),
            })
            .collect();
        unit.after.dedup();
        units.insert(UnitName::from(name.as_str()), unit);
    }
    let root = UnitName::from(names[0].as_str());
    // In every third boot the unit behind the alias `default.target` is in an ordering cycle.
    if seed % 3 == 1 {
        let other = UnitName::from(names[1 + dice.place(names.len() - 1)].as_str());
        for (one, two) in [(&root, &other), (&other, &root)] {
            let after = &mut units.get_mut(one).expect("a unit").after;
            after.push(two.clone());
        }
    }
    Boot {
        manager: Manager {
            firmware: Some(Usec::ZERO),
            loader: Some(Usec::ZERO),
            initrd: Some(Usec::ZERO),
            userspace: Some(Usec(userspace)),
            finish: Some(Usec(finish)),
            virtualization: Some(CONTAINER.to_owned()),
            ..Manager::default()
        },
        units,
        aliases: BTreeMap::from([("default.target".into(), root)]),
        pasted: None,
    }
}

/// A boot in which each unit waits for the next one, and every `every` steps for a second one that was ready at the same time.
pub(crate) fn ladder(depth: usize, every: usize) -> Boot {
    let mut units = BTreeMap::new();
    let mut add = |name: String, level: usize, after: Vec<UnitName>| {
        let at = Some(Usec(2_000_000 + (depth - level) as u64 * 1_000));
        let zero = Some(Usec::ZERO);
        let index = units.len();
        let unit = Unit { index, activating: at, activated: at, deactivated: zero, after, ..Unit::default() };
        units.insert(UnitName::from(name), unit);
    };
    for level in 0..depth {
        let mut after = vec![format!("step{}.target", level + 1).into()];
        if level % every == 0 {
            after.push(format!("twin{}.target", level + 1).into());
            add(format!("twin{}.target", level + 1), level + 1, Vec::new());
        }
        add(format!("step{level}.target"), level, after);
    }
    add(format!("step{depth}.target"), depth, Vec::new());
    let manager = Manager {
        userspace: Some(Usec(1_000_000)),
        finish: Some(Usec(9_000_000)),
        virtualization: Some(CONTAINER.to_owned()),
        ..Manager::default()
    };
    Boot { manager, units, ..Boot::default() }
}
