//! The report of all boots.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::boot::Boot;
use crate::budget::check_budgets;
use crate::container::Contained;
use crate::expected::differing;
use crate::{Clock, Identity, Variant};

/// The boots of one variant.
#[derive(Clone, Debug)]
pub struct Row {
    pub variant: Variant,
    pub boots: Vec<Boot>,
}

/// The results of all variants.
#[derive(Clone, Debug)]
pub struct Report {
    pub rows: Vec<Row>,
    /// The starts in nspawn, if requested.
    pub contained: Vec<Contained>,
    pub clock: Clock,
}

/// The median. Of an even number of values, the lower of the middle two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl Row {
    /// The median of the busy time.
    pub fn busy(&self) -> Option<f64> {
        median(self.boots.iter().map(|boot| boot.busy).collect())
    }
}

impl Report {
    fn row(&self, variant: Variant) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant == variant)
    }

    /// The busy time relative to another variant, or the paths where their nodes differ.
    pub fn ratio(&self, variant: Variant, to: Variant) -> Option<Result<f64, Vec<&'static str>>> {
        let (one, other) = (self.row(variant)?, self.row(to)?);
        let mut different: Vec<&str> = one
            .boots
            .iter()
            .flat_map(|a| other.boots.iter().flat_map(|b| differing(&a.configured, &b.configured)))
            .collect();
        different.sort_unstable();
        different.dedup();
        if !different.is_empty() {
            return Some(Err(different));
        }
        Some(Ok(one.busy()? / other.busy()?))
    }

    /// Whether every budget that can be checked is met.
    pub fn is_within_budget(&self) -> bool {
        check_budgets(self).iter().all(|budget| budget.is_met)
    }

    /// The report as a table.
    pub fn text(&self) -> String {
        let unit = match self.clock {
            Clock::Wall => "seconds of the host",
            Clock::Instructions => "seconds of 500 million instructions",
        };
        let mut text = format!("busy time from the kernel's entry to kubelet in {unit}, one processor, no initrd\n\n");
        let _ = writeln!(
            text,
            "{:<18} {:>5} {:>8} {:>8}  {:>9} {:>13}",
            "variant", "runs", "median", "spread", "/ floor", "/ cloud-init"
        );
        let mut different = Vec::new();
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
                        different.push(format!(
                            "the nodes of {} and {} differ: {}",
                            row.variant.name(),
                            to.name(),
                            paths.join(", ")
                        ));
                        "different".to_owned()
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
                    "{}: at most {most} instructions of kilnd, including the kernel's on its behalf",
                    row.variant.name()
                );
            }
        }
        for line in different {
            let _ = write!(text, "\n{line}");
        }
        if !self.contained.is_empty() {
            text.push_str("\nin nspawn, from the service manager to kubelet, in seconds of the host\n");
        }
        for row in &self.contained {
            let middle = median(row.seconds.clone()).unwrap_or(f64::NAN);
            let _ = writeln!(text, "{:<18} {:>5} {middle:>8.3}", row.variant.name(), row.seconds.len());
        }
        let judged = check_budgets(self);
        if !judged.is_empty() {
            text.push('\n');
        }
        for budget in judged {
            let result = if budget.is_met { "met" } else { "EXCEEDED" };
            let _ = writeln!(text, "{result:<9} {:<40} {:>10}  {}", budget.name, budget.measured, budget.limit);
        }
        text
    }

    /// The report as JSON.
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
        let budgets = check_budgets(self).into_iter().map(|budget| {
            json!({ "name": budget.name, "measured": budget.measured, "limit": budget.limit, "isMet": budget.is_met })
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
    fn ratio_is_of_medians() {
        assert_eq!(report("x").ratio(Variant::Kilnd, Variant::Floor), Some(Ok(1.1)));
        assert_eq!(report("x").ratio(Variant::Kilnd, Variant::CloudInit), None);
        assert!(report("x").text().contains("1.100"), "{}", report("x").text());
    }

    #[test]
    fn different_nodes_have_no_ratio() {
        assert_eq!(report("y").ratio(Variant::Kilnd, Variant::Floor), Some(Err(vec!["/etc/bench/motd"])));
        let text = report("y").text();
        assert!(
            text.contains("different") && text.contains("the nodes of kilnd and floor differ: /etc/bench/motd"),
            "{text}"
        );
        assert!(report("y").json()["variants"][1]["ofFloor"].is_null());
    }

    #[test]
    fn median_of_no_values_is_none() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(1.0));
    }
}
