//! The budgets of a boot.

use crate::report::Report;
use crate::{Clock, Identity, Row, Variant, container};

/// A budget with its measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetResult {
    pub name: String,
    pub measured: String,
    pub limit: String,
    pub is_met: bool,
}

/// The number of boots of each variant that a ratio needs. With fewer, a single outlier moves the median: seconds of the host vary by tenths, and
/// with a clock of instructions the order in which units start still varies.
const MIN_BOOTS: usize = 5;

/// The limits of a variant's busy time, relative to another variant.
const RATIOS: [(Variant, Variant, f64); 4] = [
    (Variant::Kilnd, Variant::Floor, 1.05),
    (Variant::Kilnd, Variant::CloudInit, 0.27),
    (Variant::KilndImds, Variant::CloudInit, 0.36),
    (Variant::Clone, Variant::Again, 1.03),
];

/// Checks every budget with enough boots. Different nodes exceed every budget. Ratios by the host's clock are only reported, because they include
/// other work on the host.
pub fn check_budgets(report: &Report) -> Vec<BudgetResult> {
    let mut judged = Vec::new();
    for (variant, to, limit) in RATIOS {
        let enough = [variant, to].map(|one| row(report, one).is_some_and(|row| row.boots.len() >= MIN_BOOTS));
        if report.clock != Clock::Instructions || enough != [true; 2] {
            continue;
        }
        let Some(ratio) = report.ratio(variant, to) else { continue };
        judged.push(BudgetResult {
            name: format!("{} / {}", variant.name(), to.name()),
            measured: ratio.as_ref().map_or_else(|_| "different".to_owned(), |ratio| format!("{ratio:.3}")),
            limit: format!("<= {limit:.2}"),
            is_met: ratio.is_ok_and(|ratio| ratio <= limit),
        });
    }
    let enough = report.contained.iter().all(|row| row.seconds.len() >= MIN_BOOTS);
    if let Some(ratio) = container::ratio(&report.contained).filter(|_| enough) {
        judged.push(BudgetResult {
            name: "in nspawn: kilnd / cloud-init".to_owned(),
            measured: ratio.as_ref().map_or_else(|paths| paths.join(", "), |ratio| format!("{ratio:.3}")),
            limit: format!("<= {:.2}", container::BUDGET),
            is_met: ratio.is_ok_and(|ratio| ratio <= container::BUDGET),
        });
    }
    judged.extend(order(report));
    judged.extend(identity(report, Variant::Clone, "donor's identity was reset", Identity::Reset));
    judged.extend(identity(report, Variant::Again, "identity was kept", Identity::Again));
    judged
}

fn row(report: &Report, variant: Variant) -> Option<&Row> {
    report.rows.iter().find(|row| row.variant == variant)
}

/// Checks the kind of boot. A clone that does not reset its identity boots faster, and an ordinary boot with a reset slower; either would
/// improve their ratio.
fn identity(report: &Report, variant: Variant, description: &str, wanted: Identity) -> Option<BudgetResult> {
    let boots = &row(report, variant)?.boots;
    let right = boots.iter().filter(|boot| boot.identity == Some(wanted)).count();
    Some(every(format!("{}: {description}", variant.name()), right, boots.len()))
}

/// A budget that every boot must meet.
fn every(name: String, right: usize, boots: usize) -> BudgetResult {
    BudgetResult { name, measured: format!("{right} of {boots}"), limit: "all".to_owned(), is_met: right == boots }
}

/// With the document on provisioning media, kubelet starts before the machine has an address.
fn order(report: &Report) -> Option<BudgetResult> {
    let row = row(report, Variant::Kilnd)?;
    // A machine without an address at its report had none when kubelet started.
    let early = row.boots.iter().filter(|boot| boot.lease.is_none_or(|lease| boot.up < lease)).count();
    Some(every("kilnd: kubelet before the DHCP lease".to_owned(), early, row.boots.len()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Boot;
    use crate::expected::{Configured, PATHS};

    fn row(variant: Variant, busy: f64, lease: Option<f64>) -> Row {
        let all = PATHS().into_iter().map(|path| (path.to_owned(), (0o644, b"x".to_vec())));
        let configured = Configured(all.collect());
        let (instructions, identity) = (None, None);
        let boot = Boot { up: busy, busy, lease, instructions, identity, capture: PathBuf::new(), configured };
        Row { variant, boots: vec![boot; MIN_BOOTS] }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { rows, contained: Vec::new(), clock: Clock::Instructions }
    }

    #[test]
    fn budget_is_met_up_to_its_limit_and_only_for_booted_variants() {
        let rows = |kilnd| vec![row(Variant::Floor, 4.0, None), row(Variant::Kilnd, kilnd, Some(9.0))];
        let judged = check_budgets(&report(rows(4.2)));
        assert_eq!(
            judged.iter().map(|judged| judged.name.as_str()).collect::<Vec<_>>(),
            ["kilnd / floor", "kilnd: kubelet before the DHCP lease"]
        );
        assert!(judged.iter().all(|judged| judged.is_met), "{judged:?}");
        assert!(!check_budgets(&report(rows(4.3)))[0].is_met);
        let mut unlike = report(rows(4.0));
        unlike.rows[0].boots[0].configured.0.clear();
        assert_eq!(
            (check_budgets(&unlike)[0].is_met, check_budgets(&unlike)[0].measured.as_str()),
            (false, "different")
        );
    }

    #[test]
    fn ratio_needs_five_boots_of_both_variants() {
        let judged = |floor, kilnd| {
            let mut rows = vec![row(Variant::Floor, 4.0, None), row(Variant::Kilnd, 9.0, None)];
            rows[0].boots.truncate(floor);
            rows[1].boots.truncate(kilnd);
            check_budgets(&report(rows)).iter().any(|judged| judged.name == "kilnd / floor")
        };
        assert!(judged(5, 5));
        assert!(!judged(4, 5) && !judged(5, 4) && !judged(1, 1));
    }

    #[test]
    fn clone_with_kept_identity_and_boot_with_reset_exceed_the_budget() {
        let holds = |variant, right, last| {
            let mut row = row(variant, 1.0, None);
            row.boots.iter_mut().for_each(|boot| boot.identity = Some(right));
            row.boots[MIN_BOOTS - 1].identity = last;
            let mut judged = check_budgets(&report(vec![row]));
            assert_eq!(judged.len(), 1, "{judged:?}");
            judged.remove(0).is_met
        };
        for (variant, right, wrong) in
            [(Variant::Clone, Identity::Reset, Identity::Again), (Variant::Again, Identity::Again, Identity::Reset)]
        {
            assert!(holds(variant, right, Some(right)));
            assert!(!holds(variant, right, Some(wrong)) && !holds(variant, right, None));
        }
    }

    #[test]
    fn kubelet_after_the_lease_exceeds_the_budget() {
        assert!(!check_budgets(&report(vec![row(Variant::Kilnd, 5.0, Some(4.9))]))[0].is_met);
        assert!(check_budgets(&report(vec![row(Variant::Kilnd, 5.0, None)]))[0].is_met);
    }

    #[test]
    fn medians_of_equal_nodes_are_compared_in_nspawn() {
        let contained = |variant, seconds: &[f64], motd: &str| {
            let mut configured = row(variant, 1.0, None).boots[0].configured.clone();
            configured.0.insert("/etc/bench/motd".to_owned(), (0o644, motd.as_bytes().to_vec()));
            crate::Contained { variant, seconds: seconds.to_vec(), configured: vec![configured] }
        };
        let judged = |kilnd: &[f64], motd| {
            let rows = vec![
                contained(Variant::Kilnd, kilnd, motd),
                contained(Variant::CloudInit, &[2.0, 2.0, 2.0, 9.0, 9.0], "x"),
            ];
            check_budgets(&Report { rows: Vec::new(), contained: rows, clock: Clock::Wall })
        };
        assert!(judged(&[0.1, 0.1, 0.2, 0.9, 0.9], "x")[0].is_met);
        assert!(!judged(&[0.1, 0.1, 0.21, 0.9, 0.9], "x")[0].is_met);
        assert_eq!(judged(&[0.1; 5], "y")[0].measured, "/etc/bench/motd");
        assert_eq!(judged(&[0.1; 4], "x"), [], "too few");
    }

    #[test]
    fn ratios_by_the_hosts_clock_are_not_checked() {
        let rows = vec![row(Variant::Clone, 9.0, None), row(Variant::Again, 1.0, None)];
        let judged = check_budgets(&Report { rows, contained: Vec::new(), clock: Clock::Wall });
        assert!(judged.iter().all(|judged| !judged.name.contains(" / ")), "{judged:?}");
    }
}
