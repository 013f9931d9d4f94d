//! The time axis: from times to horizontal positions.

use crate::explain::{Explanation, Wait, is_pause};
use crate::span::Usec;

/// A wait longer than this share of the axis is drawn shortened, otherwise nothing else would be distinguishable.
const MAX_SHARE: f64 = 0.75;
/// Share of the width for the shortened wait.
const CUT_WIDTH: f64 = 0.14;
/// Minimum distance between axis labels.
const LABEL_DISTANCE: f64 = 92.0;

/// Distances between labels, from a millisecond to a day.
const STEPS: [u64; 27] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    15_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
    900_000_000,
    1_800_000_000,
    3_600_000_000,
    7_200_000_000,
    14_400_000_000,
    28_800_000_000,
    43_200_000_000,
    86_400_000_000,
];

/// A time range that is not drawn to scale.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub from: Usec,
    pub until: Usec,
}

/// Times are counted from PID 1. The kernel and the initial RAM disk are to the left of zero.
pub(super) struct Axis {
    left: f64,
    /// Position of the start of PID 1.
    zero: f64,
    /// Pixels per second outside the cut.
    scale: f64,
    pub end: Usec,
    pub before: Usec,
    pub cut: Option<Cut>,
    cut_width: f64,
}

impl Axis {
    pub(super) fn new(before: Usec, end: Usec, explained: &Explanation, left: f64, right: f64) -> Self {
        let whole = (before + end).seconds();
        let cut = longest(explained).filter(|cut| (cut.until - cut.from).seconds() / whole > MAX_SHARE);
        let cut_seconds = cut.map_or(0.0, |cut| (cut.until - cut.from).seconds());
        let cut_width = if cut.is_some() { (right - left) * CUT_WIDTH } else { 0.0 };
        let scale = (right - left - cut_width) / (whole - cut_seconds).max(1e-6);
        Self { left, zero: left + before.seconds() * scale, scale, end, before, cut, cut_width }
    }

    /// Position of a time. Times past the end are placed at the end.
    pub(super) fn at(&self, time: Usec) -> f64 {
        let time = time.min(self.end);
        let Some(cut) = self.cut else { return self.zero + time.seconds() * self.scale };
        let whole = (cut.until - cut.from).seconds();
        let inside = (time.min(cut.until) - cut.from).seconds() / whole;
        let outside = time.min(cut.from) + (time - cut.until);
        self.zero + outside.seconds() * self.scale + inside * self.cut_width
    }

    /// Position of a time before PID 1, counted from the start of the kernel.
    pub(super) fn since_kernel(&self, time: Usec) -> f64 {
        self.left + time.min(self.before).seconds() * self.scale
    }

    /// Times of labelled and of unlabelled grid lines, without those inside the cut.
    pub(super) fn ticks(&self) -> (Vec<Usec>, Vec<Usec>) {
        let wide = |step: u64| Usec(step).seconds() * self.scale;
        let step = STEPS.into_iter().find(|step| wide(*step) >= LABEL_DISTANCE).unwrap_or(self.end.0.max(1));
        let all = |step: u64| {
            let inside = |time: &Usec| self.cut.is_some_and(|cut| *time > cut.from && *time < cut.until);
            // Skip the cut instead of filtering it: it can be hours long with a step of seconds.
            let resume = self.cut.map_or(0, |cut| cut.until.0 / step);
            let first = self.cut.map_or(self.end, |cut| cut.from).0 / step;
            let before = (0..=first).map(move |tick| Usec(tick * step));
            let after = (resume..=self.end.0 / step).map(move |tick| Usec(tick * step));
            let after = after.filter(|_| self.cut.is_some());
            before.chain(after).filter(|time| !inside(time)).collect::<Vec<_>>()
        };
        (all(step), all((step / 5).max(1)))
    }
}

/// The longest pause or wait for something outside systemd.
fn longest(explained: &Explanation) -> Option<Cut> {
    let cuts = explained.hops.iter().flat_map(|hop| {
        let ran = hop.ran.unwrap_or_default();
        let pause = is_pause(hop).then_some(Cut { from: hop.began, until: hop.began + ran });
        let wait = (hop.wait != Wait::Queue).then_some(Cut { from: hop.began - hop.waited, until: hop.began });
        [pause, wait].into_iter().flatten()
    });
    cuts.max_by_key(|cut| cut.until - cut.from)
}
