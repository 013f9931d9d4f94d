//! What the boots say together.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::boot::Boot;
use crate::budget::judge;
use crate::container::Contained;
use crate::expected::differing;
use crate::{Clock, Identity, Variant};

/// The boots of one variant.
#[derive(Clone, Debug)]
pub struct Row {
    pub variant: Variant,
    pub boots: Vec<Boot>,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Report {
    /// A row per variant.
    pub rows: Vec<Row>,
    /// The same roots in nspawn, where that was asked for.
    pub contained: Vec<Contained>,
    /// How time passed.
    pub clock: Clock,
}

/// The middle value; of an even number, the lower of the two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl Row {
    /// The middle of what its machines were busy.
    pub fn busy(&self) -> Option<f64> {
        median(self.boots.iter().map(|boot| boot.busy).collect())
    }
}

impl Report {
    fn row(&self, variant: Variant) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant == variant)
    }

    /// How much of another variant's time this one takes; why there is no such figure, where their nodes are not alike.
    pub fn ratio(&self, variant: Variant, to: Variant) -> Option<Result<f64, Vec<&'static str>>> {
        let (one, other) = (self.row(variant)?, self.row(to)?);
        let mut unlike: Vec<&str> = one
            .boots
            .iter()
            .flat_map(|a| other.boots.iter().flat_map(|b| differing(&a.configured, &b.configured)))
            .collect();
        unlike.sort_unstable();
        unlike.dedup();
        if !unlike.is_empty() {
            return Some(Err(unlike));
        }
        Some(Ok(one.busy()? / other.busy()?))
    }

    /// Whether every budget that can be judged holds.
    pub fn is_within_budget(&self) -> bool {
        judge(self).iter().all(|budget| budget.holds)
    }

    /// A table for people.
    pub fn text(&self) -> String {
        let unit = match self.clock {
            Clock::Wall => "seconds of the host",
            Clock::Instructions => "seconds of 500 million instructions",
        };
        let mut text = format!("kernel entry to kubelet, busy time in {unit}, one processor, no initrd\n\n");
        let _ = writeln!(
            text,
            "{:<18} {:>5} {:>8} {:>8}  {:>9} {:>13}",
            "variant", "runs", "median", "spread", "/ floor", "/ cloud-init"
        );
        let mut unlike = Vec::new();
        for row in &self.rows {
            let busy: Vec<f64> = row.boots.iter().map(|boot| boot.busy).collect();
            let (low, high) = busy.iter().fold((f64::MAX, f64::MIN), |(low, high), b| (low.min(*b), high.max(*b)));
            let _ = write!(
                text,
                "{:<18} {:>5} {:>8.2} {:>7.1}%",
                row.variant.name(),
                busy.len(),
                row.busy().unwrap_or(f64::NAN),
                100.0 * (high - low) / low
            );
            for (to, width) in [(Variant::Floor, 10), (Variant::CloudInit, 13)] {
                let shown = match self.ratio(row.variant, to) {
                    Some(Ok(ratio)) => format!("{ratio:.3}"),
                    Some(Err(paths)) => {
                        unlike.push(format!(
                            "{} and {} are not alike: {}",
                            row.variant.name(),
                            to.name(),
                            paths.join(", ")
                        ));
                        "unlike".to_owned()
                    }
                    None => "-".to_owned(),
                };
                let _ = write!(text, " {shown:>width$}");
            }
            text.push('\n');
        }
        for row in &self.rows {
            if let Some(most) = row.boots.iter().filter_map(|boot| boot.instructions).max() {
                let _ = writeln!(
                    text,
                    "{}: {most} instructions of kilnd at most, the kernel's for it included",
                    row.variant.name()
                );
            }
        }
        for line in unlike {
            let _ = write!(text, "\n{line}");
        }
        if !self.contained.is_empty() {
            text.push_str("\nin nspawn, service manager to kubelet, seconds of the host\n");
        }
        for row in &self.contained {
            let middle = median(row.seconds.clone()).unwrap_or(f64::NAN);
            let _ = writeln!(text, "{:<18} {:>5} {middle:>8.3}", row.variant.name(), row.seconds.len());
        }
        let judged = judge(self);
        if !judged.is_empty() {
            text.push('\n');
        }
        for budget in judged {
            let word = if budget.holds { "holds" } else { "OVER" };
            let _ = writeln!(text, "{word:<6} {:<40} {:>10}  {}", budget.what, budget.measured, budget.limit);
        }
        text
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let ratio = |to| self.ratio(row.variant, to).and_then(Result::ok);
            json!({
                "variant": row.variant.name(),
                "busy": row.boots.iter().map(|boot| boot.busy).collect::<Vec<_>>(),
                "up": row.boots.iter().map(|boot| boot.up).collect::<Vec<_>>(),
                "lease": row.boots.iter().map(|boot| boot.lease).collect::<Vec<_>>(),
                "identity": row.boots.iter().map(|boot| boot.identity.map(Identity::name)).collect::<Vec<_>>(),
                "instructions": row.boots.iter().map(|boot| boot.instructions).collect::<Vec<_>>(),
                "median": row.busy(),
                "ofFloor": ratio(Variant::Floor),
                "ofCloudInit": ratio(Variant::CloudInit),
            })
        });
        let clock = match self.clock {
            Clock::Wall => "wall",
            Clock::Instructions => "instructions",
        };
        let budgets = judge(self).into_iter().map(|budget| {
            json!({ "what": budget.what, "measured": budget.measured, "limit": budget.limit, "holds": budget.holds })
        });
        let contained =
            self.contained.iter().map(|row| json!({ "variant": row.variant.name(), "seconds": row.seconds }));
        json!({ "clock": clock, "nspawn": contained.collect::<Vec<_>>(), "variants": rows.collect::<Vec<_>>(), "budgets": budgets.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::expected::{Configured, PATHS};

    fn boot(busy: f64, motd: &str) -> Boot {
        let all = PATHS().into_iter().map(|path| (path.to_owned(), (0o644, b"x".to_vec())));
        let mut configured = Configured(all.collect());
        configured.0.insert("/etc/bench/motd".to_owned(), (0o644, motd.as_bytes().to_vec()));
        Boot { up: busy, busy, lease: None, instructions: None, identity: None, capture: PathBuf::new(), configured }
    }

    fn report(motd: &str) -> Report {
        let row = |variant, busy: [f64; 3], motd: &str| Row { variant, boots: busy.map(|b| boot(b, motd)).to_vec() };
        Report {
            rows: vec![row(Variant::Floor, [4.0, 5.0, 90.0], "x"), row(Variant::Kilnd, [6.0, 1.0, 5.5], motd)],
            contained: Vec::new(),
            clock: Clock::Instructions,
        }
    }

    #[test]
    fn ratios_are_of_medians() {
        assert_eq!(report("x").ratio(Variant::Kilnd, Variant::Floor), Some(Ok(1.1)));
        assert_eq!(report("x").ratio(Variant::Kilnd, Variant::CloudInit), None);
        assert!(report("x").text().contains("1.100"), "{}", report("x").text());
    }

    #[test]
    fn nodes_that_are_not_alike_have_no_ratio() {
        assert_eq!(report("y").ratio(Variant::Kilnd, Variant::Floor), Some(Err(vec!["/etc/bench/motd"])));
        let text = report("y").text();
        assert!(text.contains("unlike") && text.contains("kilnd and floor are not alike: /etc/bench/motd"), "{text}");
        assert!(report("y").json()["variants"][1]["ofFloor"].is_null());
    }

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(1.0));
    }
}
