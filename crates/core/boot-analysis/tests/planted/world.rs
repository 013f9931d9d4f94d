//! A simulated boot: units queue, wait and run as planned, and the capture is what systemd would record.

use std::fmt::Write as _;

use crate::dice::Dice;

/// A planned unit; times are in microseconds.
#[derive(Clone, Default)]
pub(crate) struct Planned {
    pub name: String,
    pub run: u64,
    /// Time until the manager starts it; always shorter than a wait for something outside systemd.
    pub queue: u64,
    /// Wait for something outside systemd.
    pub outside: u64,
    /// Indices of the units that it is ordered after, all smaller than its own.
    pub after: Vec<usize>,
    pub triggered_by: Option<usize>,
    /// A oneshot without `RemainAfterExit=`, which is never active.
    pub is_transient: bool,
}

/// A whole boot. The last unit is kubelet.
#[derive(Clone)]
pub(crate) struct World {
    pub userspace: u64,
    /// When PID 1 had loaded the units.
    pub loaded: u64,
    pub units: Vec<Planned>,
    /// The boot finishes before the last unit is started.
    pub finish_before_last: bool,
}

/// Units that are ordered after each other, with kubelet after the last one. Causes are planted here.
pub(crate) struct Spine(pub Vec<usize>);

impl World {
    /// A boot of short units in layers. The longest chain takes less than a second, so there are no findings.
    pub(crate) fn quiet(dice: &mut Dice) -> (Self, Spine) {
        // Coarse times cause ties.
        let grain = [1, 1_000, 10_000][dice.place(3)];
        let userspace = 1_000 + dice.below(4_000_000);
        let loaded = userspace + 1_000 + dice.below(300_000) / grain * grain;
        let mut world = Self { userspace, loaded, units: Vec::new(), finish_before_last: false };
        let mut spine = Vec::new();
        let layers = 3 + dice.place(6);
        let mut before: Vec<usize> = Vec::new();
        for layer in 0..layers {
            let mut here = Vec::new();
            for index in 0..=dice.place(8) {
                let name = format!("noise{layer}x{index}.{}", ["service", "target", "socket", "mount"][dice.place(4)]);
                here.push(world.short(dice, name, &before, grain));
            }
            let held = world.short(dice, format!("step{layer}.service"), &before, grain);
            world.units[held].after.extend(spine.last());
            spine.push(held);
            before = here;
        }
        let kubelet = world.short(dice, "kubelet.service".to_owned(), &before, grain);
        world.units[kubelet].after.extend(spine.last());
        (world, Spine(spine))
    }

    fn short(&mut self, dice: &mut Dice, name: String, before: &[usize], grain: u64) -> usize {
        let after = before.iter().copied().filter(|_| dice.chance(3)).collect();
        let (run, queue) = (dice.below(60_000) / grain * grain, dice.below(20_000) / grain * grain);
        let is_transient = dice.chance(6);
        self.units.push(Planned { name, run, queue, after, is_transient, ..Planned::default() });
        self.units.len() - 1
    }

    pub(crate) fn kubelet(&mut self) -> &mut Planned {
        self.units.last_mut().expect("kubelet")
    }

    /// Inserts a unit before kubelet and returns its index.
    pub(crate) fn add(&mut self, unit: Planned) -> usize {
        let place = self.units.len() - 1;
        self.units.insert(place, unit);
        place
    }

    /// Start and end of each unit.
    pub(crate) fn times(&self) -> Vec<(u64, u64)> {
        let mut times: Vec<(u64, u64)> = Vec::new();
        for unit in &self.units {
            let ready = unit.after.iter().map(|place| times[*place].1).fold(self.loaded, u64::max);
            let began = ready + unit.queue + unit.outside;
            times.push((began, began + unit.run));
        }
        times
    }

    /// How much earlier kubelet starts after a change.
    pub(crate) fn saves(&self, change: impl FnOnce(&mut Self)) -> u64 {
        let mut changed = self.clone();
        change(&mut changed);
        let began = |world: &Self| world.times().last().expect("a unit").0;
        began(self) - began(&changed)
    }

    pub(crate) fn index(&self, name: &str) -> usize {
        self.units.iter().position(|unit| unit.name == name).unwrap_or_else(|| panic!("no unit {name}"))
    }

    /// End of the boot.
    pub(crate) fn finish(&self) -> u64 {
        let times = self.times();
        let boots = &times[..times.len() - usize::from(self.finish_before_last)];
        boots.iter().map(|(_, ready)| *ready).max().unwrap_or(self.loaded) + 1_000
    }

    /// The output of `systemctl show`.
    pub(crate) fn capture(&self) -> String {
        let times = self.times();
        let finish = self.finish();
        let mut text = format!(
            "Version=252\nUserspaceTimestampMonotonic={}\nUnitsLoadFinishTimestampMonotonic={}\nFinishTimestampMonotonic={finish}\n",
            self.userspace, self.loaded
        );
        for (unit, (began, ready)) in self.units.iter().zip(times) {
            let names = |places: &[usize]| {
                places.iter().map(|place| self.units[*place].name.as_str()).collect::<Vec<_>>().join(" ")
            };
            let (active, gone) = if unit.is_transient { (0, ready) } else { (ready, 0) };
            let _ = write!(
                text,
                "\nId={name}\nNames={name}\nAfter={}\nTriggeredBy={}\nInactiveExitTimestampMonotonic={began}\n\
                 ActiveEnterTimestampMonotonic={active}\nActiveExitTimestampMonotonic=0\nInactiveEnterTimestampMonotonic={gone}\n",
                names(&unit.after),
                names(unit.triggered_by.as_slice()),
                name = unit.name,
            );
        }
        text
    }
}
