//! Faults: planned ones for certain requests, or random ones from a seed.

use kiln_prototype::step::Step;
use kiln_types::ErrorClass;

/// How a request fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// The request has no effect.
    Throttled,
    /// The request has no effect.
    ServerError,
    /// The request had its effect, but the response is lost.
    LostResponse,
    Permission,
    Capacity,
    OperationFails(ErrorClass),
    /// The operation continues, but its handle is unknown to the cloud.
    OperationForgotten,
    /// The operation succeeds without effect.
    NoEffect,
}

/// Where a driver dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeAct,
    AfterAct,
    AfterRecord,
}

impl Point {
    pub(crate) const ALL: [Self; 3] = [Self::BeforeAct, Self::AfterAct, Self::AfterRecord];
}

/// The faults of a test.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) rules: Vec<Rule>,
    /// The driver dies here, once.
    pub(crate) crash: Option<(Step, Point)>,
    pub(crate) random: Option<Random>,
}

/// A planned fault: requests whose description starts with `request` fail, `left` more times.
#[derive(Debug)]
pub(crate) struct Rule {
    request: String,
    fault: Fault,
    left: u32,
    fired: bool,
}

/// A planned fault that never happened means that the test shows less than it claims.
impl Drop for Rule {
    fn drop(&mut self) {
        assert!(self.fired || std::thread::panicking(), "planned fault never fired: {self:?}");
    }
}

/// Random faults. Their number is limited, so that the run ends.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    pub(crate) dice: Dice,
    pub(crate) faults_left: u32,
    pub(crate) crashes_left: u32,
    /// One request in this many fails.
    pub(crate) one_in: u64,
}

impl Faults {
    /// Plans a fault for requests whose description starts with `request`.
    pub(crate) fn plan(&mut self, request: impl Into<String>, fault: Fault, left: u32) {
        self.rules.push(Rule { request: request.into(), fault, left, fired: false });
    }

    /// The fault of a request, if any.
    pub(crate) fn draw(&mut self, what: &str) -> Option<Fault> {
        if let Some(rule) = self.rules.iter_mut().find(|rule| what.starts_with(&rule.request) && rule.left > 0) {
            rule.left -= 1;
            rule.fired = true;
            return Some(rule.fault.clone());
        }
        let random = self.random.as_mut()?;
        if random.faults_left == 0 || random.dice.below(random.one_in) != 0 {
            return None;
        }
        random.faults_left -= 1;
        let deletes = what.contains("Delete") || what.contains("Remove");
        Some(match random.dice.below(10) {
            0 => Fault::Throttled,
            1 => Fault::ServerError,
            2 => Fault::OperationFails(ErrorClass::Busy),
            3 => Fault::Permission,
            4 => Fault::OperationFails(ErrorClass::Transient),
            5 => Fault::OperationFails(ErrorClass::Capacity),
            6 => Fault::OperationForgotten,
            7 if deletes => Fault::NoEffect,
            7 | 8 => Fault::LostResponse,
            _ => Fault::OperationFails(ErrorClass::Unexpected),
        })
    }

    /// Whether the driver dies here.
    pub(crate) fn dies(&mut self, step: Step, point: Point) -> bool {
        if self.crash == Some((step, point)) {
            self.crash = None;
            return true;
        }
        let Some(random) = &mut self.random else { return false };
        let dies = random.crashes_left > 0 && random.dice.below(40) == 0;
        random.crashes_left -= u32::from(dies);
        dies
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = kiln_types::hash::SplitMix64::new(self.0).next_u64();
        self.0 % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}
