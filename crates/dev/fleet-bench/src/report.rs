//! The figures of all sizes as a table, and whether they grow linearly.

use std::fmt::Write as _;

/// How much more a node of the largest fleet may cost than one of the smallest. Linear growth is 1, and quadratic growth from 500 to 5,000
/// nodes is 10. Costs that do not depend on the number of nodes make it smaller, and pauses between two passes on a busy machine larger.
pub(crate) const GROWTH: f64 = 2.0;
/// The memory that the operator may use with the largest fleet.
pub(crate) const MEMORY: u64 = 200_000_000;

/// The cost of one rollout over all nodes of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) nodes: usize,
    pub(crate) peak_bytes: u64,
    /// From the start of the operator until all nodes have a NodeState.
    pub(crate) start: Cost,
    /// From the creation of the Rollout to its end.
    pub(crate) rollout: Cost,
    pub(crate) seconds: f64,
    pub(crate) wave_seconds: Vec<f64>,
}

/// Processor time and requests of the operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) cpu_seconds: f64,
    pub(crate) requests: u64,
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_node(value: f64, figures: &Figures) -> f64 {
    value / figures.nodes as f64
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn number(value: u64) -> f64 {
    value as f64
}

/// The table, in Markdown.
pub(crate) fn table(all: &[Figures]) -> String {
    let mut text = String::from(
        "| nodes | peak memory | start: CPU, requests per node | rollout: CPU | CPU per node | requests per node | requests per second | waves | time per wave (mean, longest) |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for one in all {
        let waves = &one.wave_seconds;
        let longest = waves.iter().copied().fold(0.0, f64::max);
        let mean = waves.iter().sum::<f64>() / number(waves.len().max(1) as u64);
        let _ = writeln!(
            text,
            "| {} | {:.0} MB | {:.1} s, {:.1} | {:.1} s | {:.2} ms | {:.2} | {:.0} | {} | {mean:.0} s, {longest:.0} s |",
            one.nodes,
            number(one.peak_bytes) / 1e6,
            one.start.cpu_seconds,
            per_node(number(one.start.requests), one),
            one.rollout.cpu_seconds,
            per_node(one.rollout.cpu_seconds, one) * 1e3,
            per_node(number(one.rollout.requests), one),
            number(one.rollout.requests) / one.seconds,
            waves.len(),
        );
    }
    text
}

/// The growth of the cost of a node from the smallest to the largest fleet, and what is over its limit.
pub(crate) fn verdict(all: &[Figures]) -> (String, Vec<String>) {
    let (Some(small), Some(large)) = (all.first(), all.last()) else { return (String::new(), Vec::new()) };
    let growth = |cost: fn(&Figures) -> f64| per_node(cost(large), large) / per_node(cost(small), small);
    let rows = [
        ("CPU of a rollout", growth(|one| one.rollout.cpu_seconds)),
        ("requests of a rollout", growth(|one| number(one.rollout.requests))),
        ("CPU of a start", growth(|one| one.start.cpu_seconds)),
        ("requests of a start", growth(|one| number(one.start.requests))),
    ];
    let mut text = format!("growth per node from {} to {} nodes (limit {GROWTH}):", small.nodes, large.nodes);
    let mut over = Vec::new();
    for (name, growth) in rows {
        let _ = write!(text, " {name} {growth:.2};");
        if growth > GROWTH {
            over.push(format!("{name}: {growth:.2} times as much per node; the limit is {GROWTH}"));
        }
    }
    if large.peak_bytes >= MEMORY {
        over.push(format!("memory: {} bytes; the limit is {MEMORY}", large.peak_bytes));
    }
    (text.trim_end_matches(';').to_owned(), over)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(nodes: usize, cpu_seconds: f64, requests: u64, peak_bytes: u64) -> Figures {
        let cost = Cost { cpu_seconds, requests };
        Figures { nodes, peak_bytes, start: cost, rollout: cost, seconds: 10.0, wave_seconds: vec![2.0, 4.0] }
    }

    #[test]
    fn quadratic_growth_and_too_much_memory_are_over_the_limit() {
        let small = figures(500, 1.0, 1_000, 10_000_000);
        let (text, over) = verdict(&[small.clone(), figures(5_000, 10.0, 10_000, 50_000_000)]);
        assert!(
            over.is_empty() && text.contains("CPU of a rollout 1.00; requests of a rollout 1.00"),
            "{text} {over:?}"
        );
        let (_, over) = verdict(&[small, figures(5_000, 100.0, 100_000, MEMORY)]);
        assert_eq!(over.len(), 5, "{over:?}");
    }

    #[test]
    fn table_has_a_row_for_each_size() {
        let text = table(&[figures(500, 1.0, 1_000, 10_000_000), figures(5_000, 10.0, 10_000, 50_000_000)]);
        assert!(text.contains("| 500 | 10 MB | 1.0 s, 2.0 | 1.0 s | 2.00 ms | 2.00 | 100 | 2 | 3 s, 4 s |"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }
}
