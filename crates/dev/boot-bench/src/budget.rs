//! What a start may cost, and whether it does not cost more.

use crate::report::Report;
use crate::{Clock, Identity, Row, Variant, container};

/// A budget and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// What it is about.
    pub what: String,
    /// What was measured, for people.
    pub measured: String,
    /// What it may be at most, for people.
    pub limit: String,
    /// Whether it holds.
    pub holds: bool,
}

/// Ratios are judged from this many boots of each on. Of fewer the middle one moves with a single one that went otherwise: seconds of the
/// host vary by tenths, and under a clock of instructions there is still the order in which units happen to start.
const ENOUGH: usize = 5;

/// How much of another variant's busy time one may take.
const RATIOS: [(Variant, Variant, f64); 4] = [
    (Variant::Kilnd, Variant::Floor, 1.05),
    (Variant::Kilnd, Variant::CloudInit, 0.27),
    (Variant::KilndImds, Variant::CloudInit, 0.36),
    (Variant::Clone, Variant::Again, 1.03),
];

/// Judges every budget for which there are boots enough. Nodes that are not alike hold no budget; ratios of a clock that is the host's are
/// shown by the report and not judged, since whatever else ran on the host is in them.
pub fn judge(report: &Report) -> Vec<Judged> {
    let mut judged = Vec::new();
    for (variant, to, limit) in RATIOS {
        let enough = [variant, to].map(|one| row(report, one).is_some_and(|row| row.boots.len() >= ENOUGH));
        if report.clock != Clock::Instructions || enough != [true; 2] {
            continue;
        }
        let Some(ratio) = report.ratio(variant, to) else { continue };
        judged.push(Judged {
            what: format!("{} / {}", variant.name(), to.name()),
            measured: ratio.as_ref().map_or_else(|_| "unlike".to_owned(), |ratio| format!("{ratio:.3}")),
            limit: format!("<= {limit:.2}"),
            holds: ratio.is_ok_and(|ratio| ratio <= limit),
        });
    }
    let enough = report.contained.iter().all(|row| row.seconds.len() >= ENOUGH);
    if let Some(ratio) = container::ratio(&report.contained).filter(|_| enough) {
        judged.push(Judged {
            what: "in nspawn: kilnd / cloud-init".to_owned(),
            measured: ratio.as_ref().map_or_else(|paths| paths.join(", "), |ratio| format!("{ratio:.3}")),
            limit: format!("<= {:.2}", container::BUDGET),
            holds: ratio.is_ok_and(|ratio| ratio <= container::BUDGET),
        });
    }
    judged.extend(order(report));
    judged.extend(identity(report, Variant::Clone, "the donor's identity is gone", Identity::Reset));
    judged.extend(identity(report, Variant::Again, "the identity is kept", Identity::Again));
    judged
}

fn row(report: &Report, variant: Variant) -> Option<&Row> {
    report.rows.iter().find(|row| row.variant == variant)
}

/// A copy is cheap where it does not reset what it has to, and an ordinary start is dear where it does: either would keep their ratio.
fn identity(report: &Report, variant: Variant, what: &str, wanted: Identity) -> Option<Judged> {
    let boots = &row(report, variant)?.boots;
    let right = boots.iter().filter(|boot| boot.identity == Some(wanted)).count();
    Some(every(format!("{}: {what}", variant.name()), right, boots.len()))
}

/// What must be so in every boot.
fn every(what: String, right: usize, boots: usize) -> Judged {
    Judged { what, measured: format!("{right} of {boots}"), limit: "all".to_owned(), holds: right == boots }
}

/// Kubelet does not wait for the network where the document is on the machine: it starts before there is an address.
fn order(report: &Report) -> Option<Judged> {
    let row = row(report, Variant::Kilnd)?;
    // A machine that had no address when it reported had none when kubelet started.
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
        Row { variant, boots: vec![boot; ENOUGH] }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { rows, contained: Vec::new(), clock: Clock::Instructions }
    }

    #[test]
    fn a_budget_holds_up_to_its_limit_and_only_what_was_booted_is_judged() {
        let rows = |kilnd| vec![row(Variant::Floor, 4.0, None), row(Variant::Kilnd, kilnd, Some(9.0))];
        let judged = judge(&report(rows(4.2)));
        assert_eq!(
            judged.iter().map(|judged| judged.what.as_str()).collect::<Vec<_>>(),
            ["kilnd / floor", "kilnd: kubelet before the DHCP lease"]
        );
        assert!(judged.iter().all(|judged| judged.holds), "{judged:?}");
        assert!(!judge(&report(rows(4.3)))[0].holds);
        let mut unlike = report(rows(4.0));
        unlike.rows[0].boots[0].configured.0.clear();
        assert_eq!((judge(&unlike)[0].holds, judge(&unlike)[0].measured.as_str()), (false, "unlike"));
    }

    #[test]
    fn a_ratio_of_fewer_than_five_boots_of_either_is_not_judged() {
        let judged = |floor, kilnd| {
            let mut rows = vec![row(Variant::Floor, 4.0, None), row(Variant::Kilnd, 9.0, None)];
            rows[0].boots.truncate(floor);
            rows[1].boots.truncate(kilnd);
            judge(&report(rows)).iter().any(|judged| judged.what == "kilnd / floor")
        };
        assert!(judged(5, 5));
        assert!(!judged(4, 5) && !judged(5, 4) && !judged(1, 1));
    }

    #[test]
    fn a_copy_that_kept_an_identity_and_a_start_that_lost_one_break_the_budget() {
        let holds = |variant, right, last| {
            let mut row = row(variant, 1.0, None);
            row.boots.iter_mut().for_each(|boot| boot.identity = Some(right));
            row.boots[ENOUGH - 1].identity = last;
            let mut judged = judge(&report(vec![row]));
            assert_eq!(judged.len(), 1, "{judged:?}");
            judged.remove(0).holds
        };
        for (variant, right, wrong) in
            [(Variant::Clone, Identity::Reset, Identity::Again), (Variant::Again, Identity::Again, Identity::Reset)]
        {
            assert!(holds(variant, right, Some(right)));
            assert!(!holds(variant, right, Some(wrong)) && !holds(variant, right, None));
        }
    }

    #[test]
    fn a_kubelet_after_the_lease_breaks_the_order() {
        assert!(!judge(&report(vec![row(Variant::Kilnd, 5.0, Some(4.9))]))[0].holds);
        assert!(judge(&report(vec![row(Variant::Kilnd, 5.0, None)]))[0].holds);
    }

    #[test]
    fn in_nspawn_medians_of_nodes_that_are_alike_are_compared() {
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
            judge(&Report { rows: Vec::new(), contained: rows, clock: Clock::Wall })
        };
        assert!(judged(&[0.1, 0.1, 0.2, 0.9, 0.9], "x")[0].holds);
        assert!(!judged(&[0.1, 0.1, 0.21, 0.9, 0.9], "x")[0].holds);
        assert_eq!(judged(&[0.1; 5], "y")[0].measured, "/etc/bench/motd");
        assert_eq!(judged(&[0.1; 4], "x"), [], "too few");
    }

    #[test]
    fn ratios_of_the_host_s_clock_are_not_judged() {
        let rows = vec![row(Variant::Clone, 9.0, None), row(Variant::Again, 1.0, None)];
        let judged = judge(&Report { rows, contained: Vec::new(), clock: Clock::Wall });
        assert!(judged.iter().all(|judged| !judged.what.contains(" / ")), "{judged:?}");
    }
}
