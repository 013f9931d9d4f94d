use kiln_types::Protection;
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
            line,
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
        u32::try_from(self.nodes.iter().filter(|node| node.ready).count()).unwrap()
    }

    fn act(&mut self, batch: &Batch) {
        for _ in 0..batch.add {
            self.instances.push(instance(self.next_id, exact(NEW)));
            self.nodes.push(Node { ready: false, ..node(self.next_id) });
            self.next_id += 1;
        }
        self.capacity += batch.add;
        for gone in &batch.remove {
            self.instances.retain(|instance| instance.id != gone.instance);
            self.nodes.retain(|node| node.name != gone.node);
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
fn by_default_one_is_added_before_one_goes() {
    let mut world = world(&[OLD, OLD, NEW]);
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len()), (1, 0));
    world.act(&first);
    assert_eq!(world.next(), RefreshDecision::Wait { why: "1 nodes to be Ready".into() });
    world.nodes.last_mut().unwrap().ready = true;
    let second = batch(world.next());
    assert_eq!((second.add, second.remove.len(), second.drain), (0, 1, true));
}

#[test]
fn what_was_taken_back_goes_first_then_what_cannot_run_pods_then_the_oldest() {
    let mut world = world(&[OLD, "2026.11.01", "", "2026.11.12", OLD, NEW]);
    world.rejected = BTreeSet::from([number("2026.11.12")]);
    world.nodes[4].ready = false;
    assert_eq!(world.order(), ["3", "4", "2", "1", "0"]);
}

#[test]
fn instances_go_by_number_and_not_by_text() {
    let versions = [OLD; 11];
    assert_eq!(world(&versions).order().last().map(String::as_str), Some("10"));
}

#[test]
fn a_node_that_may_be_missing_goes_without_a_surge() {
    let mut world = world(&[OLD, OLD, OLD]);
    world.budget = Budget { surge: 0, max_unavailable: 2, all_at_once: false };
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len()), (0, 2));
    world.act(&first);
    assert_eq!(batch(world.next()), Batch { add: 2, remove: Vec::new(), drain: true });
}

#[test]
fn a_node_where_no_pod_can_run_goes_at_no_cost() {
    let mut world = world(&[OLD, OLD]);
    world.nodes[1].ready = false;
    let first = batch(world.next());
    assert_eq!((first.add, first.remove[0].instance.as_str()), (1, "1"));
}

#[test]
fn in_an_outage_all_go_at_once_and_undrained() {
    let mut world = world(&[OLD, NEW, OLD]);
    world.budget.all_at_once = true;
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len(), first.drain), (0, 2, false));
    world.act(&first);
    assert_eq!(batch(world.next()), Batch { add: 2, remove: Vec::new(), drain: true });
}

#[test]
fn our_own_node_and_protected_ones_stay_and_are_named() {
    let mut world = world(&[OLD, OLD, NEW]);
    world.own_node = Some(world.nodes[0].name.clone());
    world.instances[1].protection = Protection::FULL;
    let RefreshDecision::Done { left } = world.next() else { panic!("nothing can be replaced") };
    assert_eq!(
        left[0].to_string(),
        "k8s-agentpool1-26100436-vmss000000 runs 2026.11.08 and stays: this program runs on it"
    );
    assert_eq!(left[1].stays, Some("it is protected"));
    world.nodes[1].ready = false;
    assert!(matches!(world.next(), RefreshDecision::Done { .. }), "what stays as it is may stay unwell");
}

#[test]
fn instances_that_were_asked_for_and_do_not_show_yet_are_not_asked_for_again() {
    let mut world = world(&[OLD, OLD]);
    world.capacity = 3;
    assert!(matches!(world.next(), RefreshDecision::Wait { .. }));
}

#[test]
fn an_instance_on_its_way_out_is_waited_for() {
    let mut world = world(&[NEW, NEW, OLD]);
    (world.wanted, world.capacity) = (2, 2);
    world.instances[2].provisioning = Provisioning::InProgress("Deleting".into());
    assert_eq!(world.next(), RefreshDecision::Wait { why: "1 instances to be gone".into() });
    world.instances.pop();
    assert_eq!(world.next(), RefreshDecision::Done { left: Vec::new() });
}

#[test]
fn a_pace_at_which_nothing_moves_is_refused() {
    assert_eq!(Budget { surge: 0, max_unavailable: 0, all_at_once: false }.check(), Err(NoPace));
    assert!(Budget::default().check().is_ok());
}

proptest! {
    #[test]
    fn every_refresh_ends_with_the_pool_as_large_as_it_was_and_within_its_budget(
        old in prop::collection::vec((any::<bool>(), any::<bool>()), 1..12),
        surge in 0u32..4,
        max_unavailable in 0u32..4,
        luck in prop::collection::vec(any::<bool>(), 64),
    ) {
        prop_assume!(surge + max_unavailable > 0);
        let versions: Vec<&str> = old.iter().map(|(is_old, _)| if *is_old { OLD } else { NEW }).collect();
        let mut world = world(&versions);
        for ((is_old, ready), node) in old.iter().zip(&mut world.nodes) {
            // A new node that never becomes Ready would be waited for; an old one is replaced.
            node.ready = *ready || !is_old;
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
                node.ready |= luck.next().unwrap_or(true);
            }
            // The newest always, so that rejected luck alone does not keep a refresh from its end.
            if let Some(newest) = world.nodes.last_mut() {
                newest.ready = true;
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(world.capacity, world.wanted);
        prop_assert!(world.instances.iter().all(|instance| instance.runs == exact(NEW)));
    }
}
