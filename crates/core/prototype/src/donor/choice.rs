//! The choice among the nodes of a pool.

use std::cmp::Ordering;
use std::fmt;

use jiff::civil::Date;
use kiln_types::{PoolName, VersionNumber};
use serde::Serialize;

use super::node::NodeFacts;
use super::why_not::{DonorRules, Surroundings, WhyNot, judge, patched};
use crate::back::Hold;
use crate::latest::{latest, made_at, source_text, version_of};
use crate::ready_time::{Span, spoken};

/// By which rules the donor was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Pass {
    /// All of them.
    Patched,
    /// All but those of the last patch: the image is older than it may be.
    AnyPatch,
}

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It is the donor.
    Chosen,
    /// It would do.
    Candidate,
    /// It breaks a rule.
    Out,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub node: String,
    /// What became of it.
    pub verdict: Verdict,
    /// How long it has been Ready.
    pub ready_for: Option<Span>,
    /// The day of its last patch.
    pub patched: Option<Date>,
    pub kernel: String,
    /// The image that it was made from.
    pub runs: Option<String>,
    /// Every rule that it breaks.
    pub why_not: Vec<WhyNot>,
}

/// What a patch must be newer than, and how old that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bar {
    /// The newest version; none before the first.
    pub version: Option<VersionNumber>,
    /// The age of what new nodes get; none before the first usable version.
    pub age: Option<Span>,
}

/// Why there is no donor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum NoDonor {
    /// The pool is on hold.
    #[error("the pool is {0}")]
    OnHold(String),
    /// Too few nodes would do.
    #[error("{found} of at least {least} nodes would do; see the reason beside each node")]
    TooFew {
        found: u32,
        /// How many are needed.
        least: u32,
    },
}

/// The choice, with a reason for every node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    pub pool: PoolName,
    /// What patches were held against.
    pub bar: Bar,
    /// By which rules.
    pub pass: Pass,
    /// The donor, or why there is none.
    #[serde(serialize_with = "donor")]
    pub donor: Result<String, NoDonor>,
    /// Every node: the donor first, then those that would do, the longest Ready first, then the others by name.
    pub rows: Vec<Row>,
}

fn donor<S: serde::Serializer>(donor: &Result<String, NoDonor>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    enum Said<'a> {
        Node(&'a str),
        None(String),
    }
    match donor {
        Ok(node) => Said::Node(node),
        Err(why) => Said::None(why.to_string()),
    }
    .serialize(serializer)
}

/// Chooses a donor: of the nodes that break no rule the one that has been Ready longest. Where fewer than the minimum are found and what new
/// nodes get is older than it may be, the rules of the last patch are left out of account, once.
pub fn choose(nodes: &[NodeFacts], rules: &DonorRules, around: Surroundings<'_>) -> Choice {
    let mut rows: Vec<Row> = nodes.iter().map(|node| row(node, rules, around)).collect();
    rows.sort_by(|a, b| a.node.cmp(&b.node));
    let age = latest(around.versions, &around.pool.location).map(|version| {
        // A version that tells nothing of its age is taken as new: an unknown age is no reason to lower the bar.
        made_at(version).map_or(Span::default(), |made| Span::between(made, around.now))
    });
    let bar = Bar { version: around.bar(), age };
    let least = rules.minimum_candidates.max(1);
    let found = |rows: &[Row], pass| rows.iter().filter(|row| row.fits(pass)).count();
    let limit = Span::from_days(rules.maximum_image_age.into());
    let too_old = rules.maximum_image_age > 0 && bar.age.is_none_or(|age| age > limit);
    let pass = if found(&rows, Pass::Patched) < least as usize && too_old { Pass::AnyPatch } else { Pass::Patched };
    let found = found(&rows, pass);

    let hold = around
        .line
        .and_then(|line| Hold::read(&line.tags))
        .filter(|hold| hold.blocks(jiff::tz::Offset::UTC.to_datetime(around.now).date()));
    let winner = rows.iter().filter(|row| row.fits(pass)).reduce(|best, row| {
        // Equals go by name, so that two runs agree.
        if row.ready_for > best.ready_for { row } else { best }
    });
    let donor = match (hold, winner) {
        (Some(hold), _) => Err(NoDonor::OnHold(hold.to_string())),
        (None, Some(winner)) if found >= least as usize => Ok(winner.node.clone()),
        (None, _) => Err(NoDonor::TooFew { found: u32::try_from(found).unwrap_or(u32::MAX), least }),
    };
    for row in &mut rows {
        row.verdict = match &donor {
            Ok(donor) if *donor == row.node => Verdict::Chosen,
            _ if row.fits(pass) => Verdict::Candidate,
            _ => Verdict::Out,
        };
    }
    rows.sort_by(|a, b| {
        let ready = || if a.verdict == Verdict::Candidate { b.ready_for.cmp(&a.ready_for) } else { Ordering::Equal };
        (a.verdict as u8).cmp(&(b.verdict as u8)).then_with(ready)
    });
    Choice { pool: around.pool.name.clone(), bar, pass, donor, rows }
}

fn row(node: &NodeFacts, rules: &DonorRules, around: Surroundings<'_>) -> Row {
    let runs = around.instances.iter().find(|instance| instance.node_name == node.name).map(|instance| {
        let version = around.line.and_then(|line| version_of(&instance.runs, &line.name));
        version.map_or_else(|| source_text(&instance.runs), ToString::to_string)
    });
    Row {
        node: node.name.clone(),
        verdict: Verdict::Out,
        ready_for: node.ready_for(),
        patched: patched(node, rules),
        kernel: node.kernel.clone(),
        runs,
        why_not: judge(node, rules, around),
    }
}

impl Choice {
    /// The nodes that would do, the best first: whoever finds one of them unfit on closer inspection takes the next.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        let donor = self.donor.is_ok();
        self.rows.iter().filter(move |row| donor && row.verdict != Verdict::Out).map(|row| row.node.as_str())
    }
}

impl Row {
    fn fits(&self, pass: Pass) -> bool {
        self.why_not.iter().all(|why| pass == Pass::AnyPatch && why.is_of_patch())
    }

    /// What stands over the cells.
    pub const HEADINGS: [&'static str; 6] = ["node", "ready for", "patched", "kernel", "runs", "verdict"];

    /// The row for a table.
    pub fn cells(&self) -> [String; 6] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            self.node.clone(),
            or_dash(self.ready_for.map(spoken)),
            or_dash(self.patched.map(|day| day.to_string())),
            self.kernel.clone(),
            or_dash(self.runs.clone()),
            self.verdict_text(),
        ]
    }

    fn verdict_text(&self) -> String {
        let reasons = self.why_not.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match (self.verdict, reasons.is_empty()) {
            (Verdict::Chosen, true) => "donor".to_owned(),
            (Verdict::Chosen, false) => format!("donor, although: {reasons}"),
            (Verdict::Candidate, true) => "would do".to_owned(),
            (Verdict::Candidate, false) => format!("would do, although: {reasons}"),
            (Verdict::Out, _) => reasons,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.donor {
            Ok(node) => writeln!(f, "pool {}: donor {node}", self.pool)?,
            Err(why) => writeln!(f, "pool {}: no donor: {why}", self.pool)?,
        }
        if let Some(version) = &self.bar.version {
            writeln!(f, "newest version: {version}")?;
        }
        if self.pass == Pass::AnyPatch {
            let age = self.bar.age.map_or_else(|| "missing".to_owned(), |age| format!("{} old", spoken(age)));
            writeln!(f, "the image is {age}, so a node without a newer patch would do")?;
        }
        // Nodes of other pools are in the value; here they would drown the rest.
        let own = self.rows.iter().filter(|row| row.why_not != [WhyNot::OtherPool]);
        own.into_iter().try_for_each(|row| writeln!(f, "{}: {}", row.node, row.verdict_text()))
    }
}

#[cfg(test)]
mod tests {
    use kiln_types::{ImageVersion, Instance};
    use proptest::prelude::*;

    use super::*;
    use crate::sample::{instance, line, marketplace, node, pool, tags, version};

    fn choose_of(
        nodes: &[NodeFacts],
        versions: &[ImageVersion],
        rules: impl FnOnce(&mut DonorRules),
        hold: &str,
    ) -> Choice {
        let mut asked = DonorRules::new("reboot", "last-patch");
        rules(&mut asked);
        let (pool, mut line) = (pool(), line());
        line.tags = tags([("kiln-hold", hold)]);
        let instances: Vec<Instance> = (0..4).map(|id| instance(id, marketplace())).collect();
        let around = Surroundings {
            pool: &pool,
            instances: &instances,
            line: Some(&line),
            versions,
            own_node: None,
            own_run: None,
            now: "2026-11-16T00:00:00Z".parse().unwrap(),
        };
        choose(nodes, &asked, around)
    }

    fn ready_since(id: u32, since: &str) -> NodeFacts {
        NodeFacts { ready_since: Some(since.parse().unwrap()), ..node(id) }
    }

    fn unpatched(id: u32) -> NodeFacts {
        NodeFacts { annotations: tags([("last-patch", "2026-01-01")]), ..node(id) }
    }

    #[test]
    fn the_longest_ready_is_the_donor_and_every_node_is_in_the_table() {
        let stranger = NodeFacts { name: "other-vmss000000".into(), ..node(0) };
        let nodes =
            [ready_since(0, "2026-11-15T09:00:00Z"), ready_since(1, "2026-11-15T05:00:00Z"), unpatched(2), stranger];
        let choice = choose_of(&nodes, &[version("2026.11.08")], |_| (), "");
        assert_eq!(choice.donor.as_deref(), Ok("k8s-agentpool1-26100436-vmss000001"));
        let verdicts: Vec<Verdict> = choice.rows.iter().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [Verdict::Chosen, Verdict::Candidate, Verdict::Out, Verdict::Out]);
        assert_eq!(
            choice.to_string(),
            "pool k8s-agentpool1-26100436-vmss: donor k8s-agentpool1-26100436-vmss000001\n\
             newest version: 2026.11.08\n\
             k8s-agentpool1-26100436-vmss000001: donor\n\
             k8s-agentpool1-26100436-vmss000000: would do\n\
             k8s-agentpool1-26100436-vmss000002: patched 2026-01-01, not later than version 2026.11.08\n"
        );
    }

    #[test]
    fn whoever_finds_the_donor_unfit_takes_the_next_longest_ready() {
        let nodes = [
            ready_since(0, "2026-11-15T09:00:00Z"),
            ready_since(1, "2026-11-15T05:00:00Z"),
            ready_since(2, "2026-11-15T07:00:00Z"),
            unpatched(3),
        ];
        let choice = choose_of(&nodes, &[version("2026.11.08")], |_| (), "");
        let order: Vec<&str> = choice.in_order().map(|name| &name[name.len() - 1..]).collect();
        assert_eq!(order, ["1", "2", "0"]);
        assert_eq!(choose_of(&nodes, &[], |_| (), "because=bad").in_order().count(), 0);
    }

    #[test]
    fn equals_go_by_name_whatever_the_order_of_the_list() {
        let there = choose_of(&[node(2), node(1), node(3)], &[], |_| (), "");
        assert_eq!(there.donor.as_deref(), Ok("k8s-agentpool1-26100436-vmss000001"));
    }

    #[test]
    fn too_few_candidates_are_no_choice() {
        let choice = choose_of(&[node(0), unpatched(1)], &[version("2026.11.08")], |r| r.minimum_candidates = 2, "");
        assert_eq!(choice.donor, Err(NoDonor::TooFew { found: 1, least: 2 }));
        assert_eq!(choice.rows[0].verdict, Verdict::Candidate);
    }

    #[test]
    fn an_image_that_is_too_old_is_renewed_from_an_unpatched_node() {
        let nodes = [unpatched(0), NodeFacts { cordoned: true, ..node(1) }];
        let versions = [version("2026.11.08")];
        let by_age = |days| choose_of(&nodes, &versions, |rules| rules.maximum_image_age = days, "");
        assert_eq!(by_age(8).donor, Err(NoDonor::TooFew { found: 0, least: 1 }));
        assert_eq!(by_age(0).pass, Pass::Patched);
        let renewed = by_age(7);
        assert_eq!(renewed.pass, Pass::AnyPatch);
        assert_eq!(renewed.donor.as_deref(), Ok("k8s-agentpool1-26100436-vmss000000"));
        assert!(renewed.to_string().contains("the image is 8 d old"), "{renewed}");
        assert!(renewed.to_string().contains("donor, although: patched 2026-01-01"), "{renewed}");
    }

    #[test]
    fn the_second_pass_is_for_want_of_candidates_alone() {
        let choice = choose_of(&[node(0), unpatched(1)], &[version("2026.11.08")], |r| r.maximum_image_age = 1, "");
        assert_eq!(choice.pass, Pass::Patched);
        assert_eq!(choice.donor.as_deref(), Ok("k8s-agentpool1-26100436-vmss000000"));
    }

    #[test]
    fn a_pool_without_an_image_is_older_than_any_age() {
        let choice = choose_of(&[NodeFacts { annotations: tags([]), ..node(0) }], &[], |r| r.maximum_image_age = 1, "");
        assert_eq!((choice.pass, choice.donor.is_ok()), (Pass::AnyPatch, true));
    }

    #[test]
    fn a_pool_on_hold_has_no_donor_until_its_day() {
        let held = choose_of(&[node(0)], &[], |_| (), "because=bad");
        assert!(matches!(held.donor, Err(NoDonor::OnHold(_))));
        assert!(choose_of(&[node(0)], &[], |_| (), "after=2026-11-16; because=bad").donor.is_ok());
    }

    proptest! {
        #[test]
        fn the_donor_breaks_no_rule_is_ready_longest_and_does_not_depend_on_the_order_of_the_list(
            facts in prop::collection::vec((0u8..6, 0i64..500), 1..12),
            turn in any::<prop::sample::Index>(),
        ) {
            let mut nodes: Vec<NodeFacts> = (0..4).zip(facts).map(|(id, (spoilt, since))| {
                let mut node = node(id);
                node.ready_since = node.heartbeat.map(|at| at - jiff::SignedDuration::from_secs(since));
                match spoilt {
                    0 => node.cordoned = true,
                    1 => node.ready = false,
                    2 => node = NodeFacts { ready_since: node.ready_since, ..unpatched(id) },
                    _ => (),
                }
                node
            }).collect();
            let versions = [version("2026.11.08")];
            let choice = choose_of(&nodes, &versions, |_| (), "");
            let longest = nodes
                .iter()
                .filter(|node| node.ready && !node.cordoned && node.annotations["last-patch"].starts_with("2026-11-15"))
                .filter_map(NodeFacts::ready_for)
                .filter(|ready| ready.as_secs() >= 60)
                .max();
            let chosen = choice.donor.as_ref().ok().and_then(|name| nodes.iter().find(|node| node.name == *name));
            prop_assert_eq!(chosen.and_then(NodeFacts::ready_for), longest);
            prop_assert_eq!(choice.rows.len(), nodes.len());
            let at = turn.index(nodes.len());
            nodes.rotate_left(at);
            prop_assert_eq!(choose_of(&nodes, &versions, |_| (), ""), choice);
        }
    }

    #[test]
    fn the_json_has_the_reasons_as_text() {
        let choice = choose_of(&[node(0), NodeFacts { cordoned: true, ..node(1) }], &[], |_| (), "");
        let json = serde_json::to_value(&choice).unwrap();
        assert_eq!(json["donor"]["node"], "k8s-agentpool1-26100436-vmss000000");
        assert_eq!(json["rows"][1]["whyNot"], serde_json::json!(["cordoned"]));
        assert_eq!(Row::HEADINGS.len(), choice.rows[0].cells().len());
    }
}
