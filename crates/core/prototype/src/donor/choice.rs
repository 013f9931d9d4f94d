//! The choice among the nodes of a pool.

use std::cmp::Ordering;
use std::fmt;

use jiff::civil::Date;
use kiln_types::{Node, NodeName, PoolName, VersionNumber};
use serde::Serialize;

use super::ineligible::{DonorInput, DonorRules, IneligibleReason, ineligible_reasons, patched, ready_for};
use crate::latest::{created_at, describe_image, latest, version_of};
use crate::rollback::Pause;
use crate::span::{Span, format_span};

/// Which rules were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Pass {
    /// All of them.
    Patched,
    /// All but those about the last patch, because the image is too old.
    AnyPatch,
}

/// Whether a node can be the donor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Eligibility {
    Chosen,
    Candidate,
    Ineligible,
}

/// A node in the table of the choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub node: NodeName,
    pub eligibility: Eligibility,
    pub ready_for: Option<Span>,
    /// The day of its last patch.
    pub patched: Option<Date>,
    pub kernel: String,
    /// The image that it was created from.
    pub runs: Option<String>,
    /// Every rule that it breaks.
    pub reasons: Vec<IneligibleReason>,
}

/// The version whose patch level a donor must exceed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchBaseline {
    /// The newest version.
    pub version: Option<VersionNumber>,
    /// The age of the version that new nodes get.
    pub age: Option<Span>,
}

/// Why no donor was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum NoDonor {
    #[error("the pool is {0}")]
    Paused(String),
    #[error("{found} eligible nodes, at least {minimum} needed; the table has the reasons for each node")]
    TooFew { found: u32, minimum: u32 },
}

/// The choice, with the reasons for every node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    pub pool: PoolName,
    pub baseline: PatchBaseline,
    pub pass: Pass,
    #[serde(serialize_with = "serialize_donor")]
    pub donor: Result<NodeName, NoDonor>,
    /// The donor first, then the candidates with the longest Ready first, then the others by name.
    pub rows: Vec<NodeRow>,
}

impl Choice {
    /// The donor, followed by the other candidates in the order in which they should be tried.
    pub fn donors(&self) -> impl Iterator<Item = &NodeName> {
        let eligible = |row: &&NodeRow| row.eligibility != Eligibility::Ineligible;
        self.rows.iter().filter(eligible).map(|row| &row.node).filter(|_| self.donor.is_ok())
    }
}

fn serialize_donor<S: serde::Serializer>(donor: &Result<NodeName, NoDonor>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    enum Donor<'a> {
        Node(&'a str),
        None(String),
    }
    match donor {
        Ok(node) => Donor::Node(node.as_str()),
        Err(reason) => Donor::None(reason.to_string()),
    }
    .serialize(serializer)
}

/// Chooses the node that breaks no rule and has been Ready longest. If there are too few and the version that new nodes get is too old,
/// a second pass ignores the rules about the last patch.
pub fn choose(nodes: &[Node], rules: &DonorRules, input: DonorInput<'_>) -> Choice {
    let mut rows: Vec<NodeRow> = nodes.iter().map(|node| row(node, rules, input)).collect();
    rows.sort_by(|a, b| a.node.cmp(&b.node));
    let age = latest(input.versions, &input.pool.location).map(|version| {
        // A version of unknown age counts as new, so that it does not relax the rules.
        created_at(version).map_or(Span::default(), |created| Span::between(created, input.now))
    });
    let baseline = PatchBaseline { version: input.newest_version(), age };
    let minimum = rules.minimum_candidates.max(1);
    let found = |rows: &[NodeRow], pass| rows.iter().filter(|row| row.is_eligible(pass)).count();
    let limit = Span::from_days(rules.maximum_image_age.into());
    let too_old = rules.maximum_image_age > 0 && baseline.age.is_none_or(|age| age > limit);
    let pass = if found(&rows, Pass::Patched) < minimum as usize && too_old { Pass::AnyPatch } else { Pass::Patched };
    let found = found(&rows, pass);

    let today = jiff::tz::Offset::UTC.to_datetime(input.now).date();
    let pause =
        input.definition.and_then(|definition| Pause::read(&definition.tags)).filter(|pause| pause.is_active(today));
    let longest_ready = rows.iter().filter(|row| row.is_eligible(pass)).reduce(|best, row| {
        // Rows are sorted by name, so that two processes agree on ties.
        if row.ready_for > best.ready_for { row } else { best }
    });
    let donor = match (pause, longest_ready) {
        (Some(pause), _) => Err(NoDonor::Paused(pause.to_string())),
        (None, Some(row)) if found >= minimum as usize => Ok(row.node.clone()),
        (None, _) => Err(NoDonor::TooFew { found: u32::try_from(found).unwrap_or(u32::MAX), minimum }),
    };
    for row in &mut rows {
        row.eligibility = match &donor {
            Ok(donor) if *donor == row.node => Eligibility::Chosen,
            _ if row.is_eligible(pass) => Eligibility::Candidate,
            _ => Eligibility::Ineligible,
        };
    }
    rows.sort_by(|a, b| {
        let is_candidate = a.eligibility == Eligibility::Candidate;
        let ready = || if is_candidate { b.ready_for.cmp(&a.ready_for) } else { Ordering::Equal };
        (a.eligibility as u8).cmp(&(b.eligibility as u8)).then_with(ready)
    });
    Choice { pool: input.pool.name.clone(), baseline, pass, donor, rows }
}

fn row(node: &Node, rules: &DonorRules, input: DonorInput<'_>) -> NodeRow {
    let instance = input.instances.iter().find(|instance| instance.node_name == node.name.as_str());
    let runs = instance.map(|instance| {
        let version = input.definition.and_then(|definition| version_of(&instance.runs, &definition.name));
        version.map_or_else(|| describe_image(&instance.runs), ToString::to_string)
    });
    NodeRow {
        node: node.name.clone(),
        eligibility: Eligibility::Ineligible,
        ready_for: ready_for(node),
        patched: patched(node, rules),
        kernel: node.system.kernel.clone(),
        runs,
        reasons: ineligible_reasons(node, rules, input),
    }
}

impl Choice {
    /// The eligible nodes, best first, for a caller that finds the donor unfit on closer inspection.
    pub fn in_order(&self) -> impl Iterator<Item = &NodeName> {
        let has_donor = self.donor.is_ok();
        let eligible = move |row: &&NodeRow| has_donor && row.eligibility != Eligibility::Ineligible;
        self.rows.iter().filter(eligible).map(|row| &row.node)
    }
}

impl NodeRow {
    fn is_eligible(&self, pass: Pass) -> bool {
        self.reasons.iter().all(|reason| pass == Pass::AnyPatch && reason.is_about_patch())
    }

    /// The headings of [`cells`](Self::cells).
    pub const HEADINGS: [&'static str; 6] = ["node", "ready for", "patched", "kernel", "runs", "verdict"];

    /// The cells of a table.
    pub fn cells(&self) -> [String; 6] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            self.node.to_string(),
            or_dash(self.ready_for.map(format_span)),
            or_dash(self.patched.map(|day| day.to_string())),
            self.kernel.clone(),
            or_dash(self.runs.clone()),
            self.verdict(),
        ]
    }

    fn verdict(&self) -> String {
        let reasons = self.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match (self.eligibility, reasons.is_empty()) {
            (Eligibility::Chosen, true) => "donor".to_owned(),
            (Eligibility::Chosen, false) => format!("donor, although: {reasons}"),
            (Eligibility::Candidate, true) => "eligible".to_owned(),
            (Eligibility::Candidate, false) => format!("eligible, although: {reasons}"),
            (Eligibility::Ineligible, _) => reasons,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.donor {
            Ok(node) => writeln!(f, "pool {}: donor {node}", self.pool)?,
            Err(reason) => writeln!(f, "pool {}: no donor: {reason}", self.pool)?,
        }
        if let Some(version) = &self.baseline.version {
            writeln!(f, "newest version: {version}")?;
        }
        if self.pass == Pass::AnyPatch {
            let age = self.baseline.age.map_or_else(|| "missing".to_owned(), |age| format!("{} old", format_span(age)));
            writeln!(f, "the image is {age}, so a node without a newer patch is eligible")?;
        }
        // Nodes of other pools are in the value, but would drown out the rest here.
        let own = self.rows.iter().filter(|row| row.reasons != [IneligibleReason::OtherPool]);
        own.into_iter().try_for_each(|row| writeln!(f, "{}: {}", row.node, row.verdict()))
    }
}

#[cfg(test)]
mod tests {
    use kiln_types::{ImageVersion, Instance, Readiness};
    use proptest::prelude::*;

    use super::*;
    use crate::sample::{definition, instance, marketplace, node, pool, tags, version};

    fn choose_of(
        nodes: &[Node],
        versions: &[ImageVersion],
        rules: impl FnOnce(&mut DonorRules),
        pause: &str,
    ) -> Choice {
        let mut asked = DonorRules::new("reboot", "last-patch");
        rules(&mut asked);
        let (pool, mut definition) = (pool(), definition());
        definition.tags = tags([("kiln-paused", pause)]);
        let instances: Vec<Instance> = (0..4).map(|id| instance(id, marketplace())).collect();
        let input = DonorInput {
            pool: &pool,
            instances: &instances,
            definition: Some(&definition),
            versions,
            not_proven: &std::collections::BTreeSet::new(),
            own_node: None,
            own_run: None,
            now: "2026-11-16T00:00:00Z".parse().unwrap(),
        };
        choose(nodes, &asked, input)
    }

    fn chosen(choice: &Choice) -> Option<&str> {
        choice.donor.as_ref().ok().map(NodeName::as_str)
    }

    fn ready_since(id: u32, since: &str) -> Node {
        Node { ready_since: Some(since.parse().unwrap()), ..node(id) }
    }

    fn unpatched(id: u32) -> Node {
        Node { annotations: tags([("last-patch", "2026-01-01")]), ..node(id) }
    }

    #[test]
    fn longest_ready_node_is_the_donor_and_every_node_is_in_the_table() {
        let stranger = Node { name: "other-vmss000000".parse().unwrap(), ..node(0) };
        let nodes =
            [ready_since(0, "2026-11-15T09:00:00Z"), ready_since(1, "2026-11-15T05:00:00Z"), unpatched(2), stranger];
        let choice = choose_of(&nodes, &[version("2026.11.08")], |_| (), "");
        assert_eq!(chosen(&choice), Some("k8s-agentpool1-26100436-vmss000001"));
        let eligibility: Vec<Eligibility> = choice.rows.iter().map(|row| row.eligibility).collect();
        let ineligible = Eligibility::Ineligible;
        assert_eq!(eligibility, [Eligibility::Chosen, Eligibility::Candidate, ineligible, ineligible]);
        assert_eq!(
            choice.to_string(),
            "pool k8s-agentpool1-26100436-vmss: donor k8s-agentpool1-26100436-vmss000001\n\
             newest version: 2026.11.08\n\
             k8s-agentpool1-26100436-vmss000001: donor\n\
             k8s-agentpool1-26100436-vmss000000: eligible\n\
             k8s-agentpool1-26100436-vmss000002: patched 2026-01-01, not later than version 2026.11.08\n"
        );
    }

    #[test]
    fn candidates_are_ordered_by_how_long_they_have_been_ready() {
        let nodes = [
            ready_since(0, "2026-11-15T09:00:00Z"),
            ready_since(1, "2026-11-15T05:00:00Z"),
            ready_since(2, "2026-11-15T07:00:00Z"),
            unpatched(3),
        ];
        let choice = choose_of(&nodes, &[version("2026.11.08")], |_| (), "");
        let order: Vec<&str> = choice.in_order().map(|name| &name.as_str()[name.as_str().len() - 1..]).collect();
        assert_eq!(order, ["1", "2", "0"]);
        assert_eq!(choose_of(&nodes, &[], |_| (), "because=bad").in_order().count(), 0);
    }

    #[test]
    fn ties_are_broken_by_name() {
        let there = choose_of(&[node(2), node(1), node(3)], &[], |_| (), "");
        assert_eq!(chosen(&there), Some("k8s-agentpool1-26100436-vmss000001"));
    }

    #[test]
    fn too_few_candidates_give_no_donor() {
        let choice = choose_of(&[node(0), unpatched(1)], &[version("2026.11.08")], |r| r.minimum_candidates = 2, "");
        assert_eq!(choice.donor, Err(NoDonor::TooFew { found: 1, minimum: 2 }));
        assert_eq!(choice.rows[0].eligibility, Eligibility::Candidate);
    }

    #[test]
    fn old_image_is_renewed_from_an_unpatched_node() {
        let nodes = [unpatched(0), Node { cordoned: true, ..node(1) }];
        let versions = [version("2026.11.08")];
        let by_age = |days| choose_of(&nodes, &versions, |rules| rules.maximum_image_age = days, "");
        assert_eq!(by_age(8).donor, Err(NoDonor::TooFew { found: 0, minimum: 1 }));
        assert_eq!(by_age(0).pass, Pass::Patched);
        let renewed = by_age(7);
        assert_eq!(renewed.pass, Pass::AnyPatch);
        assert_eq!(chosen(&renewed), Some("k8s-agentpool1-26100436-vmss000000"));
        assert!(renewed.to_string().contains("the image is 8 d old"), "{renewed}");
        assert!(renewed.to_string().contains("donor, although: patched 2026-01-01"), "{renewed}");
    }

    #[test]
    fn second_pass_only_happens_without_candidates() {
        let choice = choose_of(&[node(0), unpatched(1)], &[version("2026.11.08")], |r| r.maximum_image_age = 1, "");
        assert_eq!(choice.pass, Pass::Patched);
        assert_eq!(chosen(&choice), Some("k8s-agentpool1-26100436-vmss000000"));
    }

    #[test]
    fn pool_without_an_image_counts_as_too_old() {
        let choice = choose_of(&[Node { annotations: tags([]), ..node(0) }], &[], |r| r.maximum_image_age = 1, "");
        assert_eq!((choice.pass, choice.donor.is_ok()), (Pass::AnyPatch, true));
    }

    #[test]
    fn paused_pool_has_no_donor_until_its_day() {
        let paused = choose_of(&[node(0)], &[], |_| (), "because=bad");
        assert!(matches!(paused.donor, Err(NoDonor::Paused(_))));
        assert!(choose_of(&[node(0)], &[], |_| (), "after=2026-11-16; because=bad").donor.is_ok());
    }

    proptest! {
        #[test]
        fn donor_is_the_longest_ready_eligible_node_in_any_order(
            facts in prop::collection::vec((0u8..6, 0i64..500), 1..12),
            turn in any::<prop::sample::Index>(),
        ) {
            let mut nodes: Vec<Node> = (0..4).zip(facts).map(|(id, (spoilt, since))| {
                let mut node = node(id);
                node.ready_since = node.heartbeat.map(|at| at - jiff::SignedDuration::from_secs(since));
                match spoilt {
                    0 => node.cordoned = true,
                    1 => node.readiness = Readiness::Unreported,
                    2 => node = Node { ready_since: node.ready_since, ..unpatched(id) },
                    _ => (),
                }
                node
            }).collect();
            let versions = [version("2026.11.08")];
            let choice = choose_of(&nodes, &versions, |_| (), "");
            let longest = nodes
                .iter()
                .filter(|node| node.is_ready() && !node.cordoned && node.annotations["last-patch"].starts_with("2026-11-15"))
                .filter_map(ready_for)
                .filter(|ready| ready.as_secs() >= 60)
                .max();
            let chosen = choice.donor.as_ref().ok().and_then(|name| nodes.iter().find(|node| node.name == *name));
            prop_assert_eq!(chosen.and_then(ready_for), longest);
            prop_assert_eq!(choice.rows.len(), nodes.len());
            let at = turn.index(nodes.len());
            nodes.rotate_left(at);
            prop_assert_eq!(choose_of(&nodes, &versions, |_| (), ""), choice);
        }
    }

    #[test]
    fn json_has_the_reasons_as_text() {
        let choice = choose_of(&[node(0), Node { cordoned: true, ..node(1) }], &[], |_| (), "");
        let json = serde_json::to_value(&choice).unwrap();
        assert_eq!(json["donor"]["node"], "k8s-agentpool1-26100436-vmss000000");
        assert_eq!(json["rows"][1]["reasons"], serde_json::json!(["cordoned"]));
        assert_eq!(NodeRow::HEADINGS.len(), choice.rows[0].cells().len());
    }
}
