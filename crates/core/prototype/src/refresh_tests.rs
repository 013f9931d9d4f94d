use kiln_types::{Protection, Readiness};
use proptest::prelude::*;

use super::*;
use crate::sample::{definition_name, exact, instance, marketplace, node, number};

const NEW: &str = "2026.11.15";
const OLD: &str = "2026.11.08";

struct World {
    instances: Vec<Instance>,
    nodes: Vec<Node>,
    wanted: u32,
    capacity: u32,
    rejected: BTreeSet<VersionNumber>,
    own_node: Option<String>,
    budget: Budget,
    next_id: u32,
}

fn world(versions: &[&str]) -> World {
    let ids = 0..u32::try_from(versions.len()).unwrap();
    let image = |text: &str| if text.is_empty() { marketplace() } else { exact(text) };
    World {
        instances: ids.clone().zip(versions).map(|(id, text)| instance(id, image(text))).collect(),
        nodes: ids.clone().map(node).collect(),
        wanted: ids.end,
        capacity: ids.end,
        rejected: BTreeSet::new(),
        own_node: None,
        budget: Budget::default(),
        next_id: ids.end,
    }
}

impl World {
    fn state<'a>(&'a self, target: &'a VersionNumber, definition: &'a DefinitionName) -> RefreshState<'a> {
        RefreshState {
            wanted: self.wanted,
            capacity: self.capacity,
            target,
            definition,
            rejected: &self.rejected,
            instances: &self.instances,
            nodes: &self.nodes,
            own_node: self.own_node.as_deref(),
            budget: self.budget,
        }
    }

    fn next(&self) -> RefreshDecision {
        next_batch(self.state(&number(NEW), &definition_name()))
    }

    fn order(&self) -> Vec<String> {
        outdated(self.state(&number(NEW), &definition_name())).into_iter().map(|old| old.instance.to_string()).collect()
    }

    fn ready(&self) -> u32 {
        u32::try_from(self.nodes.iter().filter(|node| node.is_ready()).count()).unwrap()
    }

    fn act(&mut self, batch: &Batch) {
        for _ in 0..batch.add {
            self.instances.push(instance(self.next_id, exact(NEW)));
            self.nodes.push(Node { readiness: Readiness::Unreported, ..node(self.next_id) });
            self.next_id += 1;
        }
        self.capacity += batch.add;
        for gone in &batch.remove {
            self.instances.retain(|instance| instance.id != gone.instance);
            self.nodes.retain(|node| node.name.as_str() != gone.node);
            self.capacity -= 1;
        }
    }
}

fn batch(next: RefreshDecision) -> Batch {
    match next {
        RefreshDecision::Batch(batch) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn default_budget_adds_one_node_before_it_removes_one() {
    let mut world = world(&[OLD, OLD, NEW]);
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len()), (1, 0));
    world.act(&first);
    assert_eq!(world.next(), RefreshDecision::Wait { reason: "1 nodes to become Ready".into() });
    world.nodes.last_mut().unwrap().readiness = Readiness::Ready;
    let second = batch(world.next());
    assert_eq!((second.add, second.remove.len(), second.drain), (0, 1, true));
}

#[test]
fn rejected_versions_go_first_then_unavailable_nodes_then_the_oldest() {
    let mut world = world(&[OLD, "2026.11.01", "", "2026.11.12", OLD, NEW]);
    world.rejected = BTreeSet::from([number("2026.11.12")]);
    world.nodes[4].readiness = Readiness::Unreported;
    assert_eq!(world.order(), ["3", "4", "2", "1", "0"]);
}

#[test]
fn instances_are_ordered_by_number() {
    let versions = [OLD; 11];
    assert_eq!(world(&versions).order().last().map(String::as_str), Some("10"));
}

#[test]
fn unavailable_budget_removes_nodes_without_a_surge() {
    let mut world = world(&[OLD, OLD, OLD]);
    world.budget = Budget { surge: 0, max_unavailable: 2, all_at_once: false };
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len()), (0, 2));
    world.act(&first);
    assert_eq!(batch(world.next()), Batch { add: 2, remove: Vec::new(), drain: true });
}

#[test]
fn unavailable_node_is_removed_at_once() {
    let mut world = world(&[OLD, OLD]);
    world.nodes[1].readiness = Readiness::Unreported;
    let first = batch(world.next());
    assert_eq!((first.add, first.remove[0].instance.as_str()), (1, "1"));
}

#[test]
fn all_at_once_removes_all_nodes_without_a_drain() {
    let mut world = world(&[OLD, NEW, OLD]);
    world.budget.all_at_once = true;
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len(), first.drain), (0, 2, false));
    world.act(&first);
    assert_eq!(batch(world.next()), Batch { add: 2, remove: Vec::new(), drain: true });
}

#[test]
fn own_and_protected_nodes_are_not_replaced() {
    let mut world = world(&[OLD, OLD, NEW]);
    world.own_node = Some(world.nodes[0].name.to_string());
    world.instances[1].protection = Protection::FULL;
    let RefreshDecision::Done { left } = world.next() else { panic!("nothing can be replaced") };
    assert_eq!(
        left[0].to_string(),
        "k8s-agentpool1-26100436-vmss000000 runs 2026.11.08 and is not replaced: kiln runs on it"
    );
    assert_eq!(left[1].stays, Some("it is protected"));
    world.nodes[1].readiness = Readiness::Unreported;
    assert!(matches!(world.next(), RefreshDecision::Done { .. }), "nodes that are not replaced may stay unavailable");
}

#[test]
fn requested_instances_are_not_requested_again() {
    let mut world = world(&[OLD, OLD]);
    world.capacity = 3;
    assert!(matches!(world.next(), RefreshDecision::Wait { .. }));
}

#[test]
fn refresh_waits_for_instances_that_are_being_deleted() {
    let mut world = world(&[NEW, NEW, OLD]);
    (world.wanted, world.capacity) = (2, 2);
    world.instances[2].provisioning = Provisioning::InProgress("Deleting".into());
    assert_eq!(world.next(), RefreshDecision::Wait { reason: "1 instances to be deleted".into() });
    world.instances.pop();
    assert_eq!(world.next(), RefreshDecision::Done { left: Vec::new() });
}

#[test]
fn empty_budget_is_rejected() {
    assert_eq!(Budget { surge: 0, max_unavailable: 0, all_at_once: false }.check(), Err(Error::EmptyBudget));
    assert!(Budget::default().check().is_ok());
}

proptest! {
    #[test]
    fn refresh_keeps_its_budget_and_ends_with_the_original_size(
        old in prop::collection::vec((any::<bool>(), any::<bool>()), 1..12),
        surge in 0u32..4,
        max_unavailable in 0u32..4,
        luck in prop::collection::vec(any::<bool>(), 64),
    ) {
        prop_assume!(surge + max_unavailable > 0);
        let versions: Vec<&str> = old.iter().map(|(is_old, _)| if *is_old { OLD } else { NEW }).collect();
        let mut world = world(&versions);
        for ((is_old, ready), node) in old.iter().zip(&mut world.nodes) {
            // The refresh would wait for a new node that never becomes Ready; an old one is replaced.
            node.readiness = if *ready || !is_old { Readiness::Ready } else { Readiness::Unreported };
        }
        world.budget = Budget { surge, max_unavailable, all_at_once: false };
        let mut luck = luck.into_iter().cycle();
        let mut ended = false;
        for _ in 0..2000 {
            let before = world.ready();
            match world.next() {
                RefreshDecision::Done { left } => {
                    prop_assert!(left.is_empty());
                    ended = true;
                    break;
                }
                RefreshDecision::Wait { .. } => (),
                RefreshDecision::Batch(batch) => {
                    prop_assert!(batch.add > 0 || !batch.remove.is_empty());
                    world.act(&batch);
                }
            }
            prop_assert!(world.capacity <= world.wanted + surge);
            let after = world.ready();
            prop_assert!(after == before || after >= world.wanted.saturating_sub(max_unavailable));
            for node in &mut world.nodes {
                if luck.next().unwrap_or(true) {
                    node.readiness = Readiness::Ready;
                }
            }
            // Always the newest, so that the refresh ends.
            if let Some(newest) = world.nodes.last_mut() {
                newest.readiness = Readiness::Ready;
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(world.capacity, world.wanted);
        prop_assert!(world.instances.iter().all(|instance| instance.runs == exact(NEW)));
    }
}
