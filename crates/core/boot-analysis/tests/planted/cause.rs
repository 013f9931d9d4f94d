//! Causes of a late kubelet, and the finding expected for each.

use std::collections::BTreeSet;

use kiln_boot_analysis::explain::{FindingKind, MANAGER, Wait};

use crate::dice::Dice;
use crate::world::{Planned, Spine, World};

/// A cause that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    SlowUnit,
    QueueBehindOne,
    OutsideWait,
    Timer,
    Device,
    Pause,
    WaitOnline,
    CloudFinal,
    AfterMultiUser,
    AfterBoot,
    Generators,
    TwoAtOnce,
}

impl Cause {
    pub(crate) const ALL: [Self; 12] = [
        Self::SlowUnit,
        Self::QueueBehindOne,
        Self::OutsideWait,
        Self::Timer,
        Self::Device,
        Self::Pause,
        Self::WaitOnline,
        Self::CloudFinal,
        Self::AfterMultiUser,
        Self::AfterBoot,
        Self::Generators,
        Self::TwoAtOnce,
    ];

    /// Causes that affect only one unit, so that several can be combined.
    pub(crate) const COMBINABLE: [Self; 6] =
        [Self::SlowUnit, Self::OutsideWait, Self::Device, Self::Pause, Self::WaitOnline, Self::CloudFinal];
}

/// The expected finding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub kind: FindingKind,
    /// The unit and those that ran in parallel, in any order.
    pub units: BTreeSet<String>,
    pub saves: u64,
    /// The cause of the wait, if the cause is one.
    pub wait: Option<Wait>,
}

/// A planted cause.
pub(crate) struct Plant {
    pub cause: Cause,
    pub unit: String,
}

/// A duration that is longer than all undisturbed units together.
fn long(dice: &mut Dice) -> u64 {
    2_000_000 + dice.below(40_000_000)
}

/// Plants a cause at a unit of the spine.
pub(crate) fn plant(world: &mut World, spine: &Spine, index: usize, cause: Cause, dice: &mut Dice) -> Plant {
    let mut place = spine.0[index];
    match cause {
        Cause::SlowUnit => world.units[place].run = long(dice),
        Cause::QueueBehindOne => {
            // Many units wait for this one, and kubelet waits for all of them.
            world.units[place].run = long(dice);
            for number in 0..10 + dice.below(30) {
                let name = format!("crowd{number}.service");
                let unit =
                    world.add(Planned { name, after: vec![place], run: dice.below(50_000), ..Planned::default() });
                world.kubelet().after.push(unit);
            }
        }
        Cause::OutsideWait => world.units[place].outside = long(dice),
        Cause::Timer => {
            // Timers are active from the start of the boot.
            let timer = spine.0[0];
            "late.timer".clone_into(&mut world.units[timer].name);
            (world.units[timer].run, world.units[timer].is_transient) = (0, false);
            place = spine.0[index.max(1)];
            world.units[place].outside = long(dice);
            world.units[place].triggered_by = Some(timer);
        }
        Cause::Device => {
            world.units[place].name = format!("dev-disk-{place}.device");
            (world.units[place].run, world.units[place].is_transient) = (0, false);
            world.units[place].outside = long(dice);
        }
        Cause::Pause => {
            "cloud-init-local.service".clone_into(&mut world.units[place].name);
            world.units[place].run = 60_000_000 + dice.below(2_000_000_000);
        }
        Cause::WaitOnline => {
            let names = ["systemd-networkd-wait-online.service", "NetworkManager-wait-online.service"];
            names[dice.place(2)].clone_into(&mut world.units[place].name);
            world.units[place].run = long(dice);
        }
        Cause::CloudFinal => {
            "cloud-final.service".clone_into(&mut world.units[place].name);
            world.units[place].run = long(dice);
        }
        Cause::AfterMultiUser => {
            // An enabled unit that kubelet does not need.
            let enabled = world.add(Planned { name: "enabled.service".into(), run: long(dice), ..Planned::default() });
            let target =
                Planned { name: "multi-user.target".into(), queue: 5_000, after: vec![enabled], ..Planned::default() };
            let target = world.add(target);
            world.kubelet().after.push(target);
            place = world.units.len() - 1;
        }
        Cause::AfterBoot => {
            world.kubelet().outside = long(dice);
            world.finish_before_last = true;
            place = world.units.len() - 1;
        }
        Cause::Generators => world.loaded += long(dice),
        Cause::TwoAtOnce => {
            // Both are directly before kubelet and end at nearly the same time.
            place = *spine.0.last().expect("a spine");
            world.units[place].run = long(dice);
            let mut twin = world.units[place].clone();
            "twin.service".clone_into(&mut twin.name);
            twin.run -= dice.below(2) * dice.below(300_000);
            let twin = world.add(twin);
            world.kubelet().after.push(twin);
        }
    }
    Plant { cause, unit: world.units[place].name.clone() }
}

impl Plant {
    /// The expected finding. The saving is computed by simulating the boot again without the cause.
    pub(crate) fn expected(&self, world: &World) -> Expected {
        let place = world.index(&self.unit);
        let quick = |world: &mut World| world.units[place].run = 0;
        let at_once = |world: &mut World| (world.units[place].outside, world.units[place].queue) = (0, 0);
        let mut units = BTreeSet::from([self.unit.clone()]);
        let (kind, saves, wait) = match self.cause {
            Cause::SlowUnit | Cause::QueueBehindOne => (FindingKind::Slow, world.saves(quick), None),
            Cause::Pause => (FindingKind::Preprovisioning, world.saves(quick), None),
            Cause::WaitOnline => (FindingKind::WaitOnline, world.saves(quick), None),
            Cause::CloudFinal => (FindingKind::CloudInit, world.saves(quick), None),
            Cause::OutsideWait => (FindingKind::Outside, world.saves(at_once), Some(Wait::Unknown)),
            Cause::Timer => {
                (FindingKind::Outside, world.saves(at_once), Some(Wait::Trigger("late.timer".to_owned().into())))
            }
            Cause::Device => (FindingKind::Device, world.saves(at_once), Some(Wait::Device)),
            Cause::AfterBoot => {
                // While another unit still starts, the boot has not finished and the cause is unknown.
                let is_over = world.times()[place].0 > world.finish();
                let wait = if is_over { Wait::AfterBoot } else { Wait::Unknown };
                (FindingKind::Outside, world.saves(at_once), Some(wait))
            }
            Cause::AfterMultiUser => {
                let target = world.index("multi-user.target");
                (FindingKind::Order, world.saves(|world| world.kubelet().after.retain(|after| *after != target)), None)
            }
            Cause::Generators => {
                units = BTreeSet::from([MANAGER.to_owned()]);
                (FindingKind::Manager, world.saves(|world| world.loaded = world.userspace), None)
            }
            Cause::TwoAtOnce => {
                let twin = world.index("twin.service");
                units.insert("twin.service".to_owned());
                let both = |world: &mut World| (world.units[place].run, world.units[twin].run) = (0, 0);
                (FindingKind::Slow, world.saves(both), None)
            }
        };
        Expected { kind, units, saves, wait }
    }
}
