use kiln_types::{Protection, Readiness};
use proptest::prelude::*;

use super::*;
use crate::sample::{definition_name, exact, instance, marketplace, node, number, pool};

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
    fn state<'a>(
        &'a self,
        pool: &'a PoolName,
        target: &'a VersionNumber,
        definition: &'a DefinitionName,
    ) -> RefreshState<'a> {
        RefreshState {
            pool,
            wanted: self.wanted,
            capacity: self.capacity,
            target,
            definition,
            rejected: &self.rejected,
            instances: &self.instances,
            nodes: &self.nodes,
            own_node: self.own_node.as_deref(),
            owner: "refresh/pool",
            budget: self.budget,
        }
    }

    fn next(&self) -> RefreshDecision {
        next_batch(self.state(&pool().name, &number(NEW), &definition_name()))
    }

    fn order(&self) -> Vec<String> {
        let old = outdated(self.state(&pool().name, &number(NEW), &definition_name()));
        old.into_iter().map(|old| old.instance.to_string()).collect()
    }

    fn ready(&self) -> u32 {
        u32::try_from(self.nodes.iter().filter(|node| node.is_ready()).count()).unwrap()
    }

    fn available(&self) -> u32 {
        u32::try_from(self.nodes.iter().filter(|node| node.is_ready() && !node.cordoned).count()).unwrap()
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

    /// What others do to the pool.
    fn disturb(&mut self, disturbance: Disturbance) {
        let index = |at: prop::sample::Index, length: usize| (length > 0).then(|| at.index(length));
        let before = self.capacity;
        match disturbance {
            Disturbance::Ready(at, ready) => {
                if let Some(at) = index(at, self.nodes.len()) {
                    self.nodes[at].readiness = if ready { Readiness::Ready } else { Readiness::Unreported };
                }
            }
            Disturbance::Cordon(at, cordoned) => {
                if let Some(at) = index(at, self.nodes.len()) {
                    self.nodes[at].cordoned = cordoned;
                }
            }
            Disturbance::ScaleOut(more) => self.act(&Batch { add: more.into(), ..Batch::default() }),
            Disturbance::ScaleIn(at) => {
                if let Some(at) = index(at, self.instances.len()).filter(|_| self.capacity > 1) {
                    let gone = self.instances.remove(at);
                    self.nodes.retain(|node| !node.is_instance(&pool().name, &gone.id));
                    self.capacity -= 1;
                }
            }
        }
        self.wanted = follow_capacity(self.wanted, before, self.capacity);
    }
}

#[derive(Debug, Clone, Copy)]
enum Disturbance {
    Ready(prop::sample::Index, bool),
    Cordon(prop::sample::Index, bool),
    ScaleOut(u8),
    ScaleIn(prop::sample::Index),
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        6 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, ready)| Disturbance::Ready(at, ready)),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, cordoned)| Disturbance::Cordon(at, cordoned)),
        1 => (1u8..3).prop_map(Disturbance::ScaleOut),
        1 => any::<prop::sample::Index>().prop_map(Disturbance::ScaleIn),
    ]
}

fn batch(next: RefreshDecision) -> Batch {
    match next {
        RefreshDecision::Batch(batch) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn instance_without_a_reported_version_is_not_replaced() {
    let mut world = world(&[OLD, OLD]);
    world.instances[0].runs = ImageSource::Definition(definition_name());
    world.budget = Budget { surge: 0, max_unavailable: 1, all_at_once: false };
    let RefreshDecision::Batch(batch) = world.next() else { panic!("{:?}", world.next()) };
    let removed: Vec<&str> = batch.remove.iter().map(|one| one.instance.as_str()).collect();
    assert_eq!(removed, ["1"]);
    // A replacement for which Azure does not report the version either.
    world.act(&Batch { add: 1, ..batch });
    world.instances[1].runs = ImageSource::Definition(definition_name());
    world.nodes[1].readiness = Readiness::Ready;
    let RefreshDecision::Done { left } = world.next() else { panic!("{:?}", world.next()) };
    assert_eq!(left.iter().map(|one| one.stays).collect::<Vec<_>>(), [Some("Azure does not report its version"); 2]);
}

#[test]
fn default_budget_adds_one_node_before_it_removes_one() {
    let mut world = world(&[OLD, OLD, NEW]);
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len()), (1, 0));
    world.act(&first);
    let reason = "`k8s-agentpool1-26100436-vmss000003` to be available".to_owned();
    assert_eq!(world.next(), RefreshDecision::Wait { reason });
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
fn unready_node_uses_the_budget_up_and_is_replaced_first() {
    let mut world = world(&[OLD, OLD]);
    world.nodes[1].readiness = Readiness::Unreported;
    let first = batch(world.next());
    assert_eq!((first.add, first.remove.len()), (1, 0), "one of two nodes is Ready, and none may be missing");
    world.act(&first);
    world.nodes.last_mut().unwrap().readiness = Readiness::Ready;
    let second = batch(world.next());
    assert_eq!((second.add, second.remove[0].instance.as_str(), second.remove.len()), (0, "1", 1));
}

#[test]
fn nodes_of_a_partitioned_zone_are_not_all_removed() {
    let mut world = world(&[OLD; 9]);
    world.budget = Budget { surge: 0, max_unavailable: 1, all_at_once: false };
    world.nodes[..3].iter_mut().for_each(|node| node.readiness = Readiness::Unreported);
    let RefreshDecision::Wait { reason } = world.next() else {
        panic!("three of nine nodes are not Ready, one may be")
    };
    assert!(reason.contains("`k8s-agentpool1-26100436-vmss000000`, `k8s-agentpool1-26100436-vmss000001`"), "{reason}");
}

#[test]
fn cordoned_nodes_are_replaced_within_the_budget() {
    let mut world = world(&[OLD; 4]);
    world.nodes.iter_mut().for_each(|node| node.cordoned = true);
    world.budget = Budget { surge: 0, max_unavailable: 1, all_at_once: false };
    assert_eq!(batch(world.next()).remove.len(), 1, "their pods still run");
}

#[test]
fn node_that_another_actor_cordoned_counts_as_unavailable() {
    let mut world = world(&[OLD, OLD, NEW]);
    world.nodes[2].cordoned = true;
    world.budget = Budget { surge: 0, max_unavailable: 1, all_at_once: false };
    let reason = "`k8s-agentpool1-26100436-vmss000002` (cordoned) to be available".to_owned();
    assert_eq!(world.next(), RefreshDecision::Wait { reason });
}

#[test]
fn node_is_matched_by_provider_id_whatever_it_is_called() {
    let mut world = world(&[OLD; 12]);
    world.budget = Budget { surge: 0, max_unavailable: 12, all_at_once: false };
    world.nodes[11].name = "worker-11.example".parse().unwrap();
    world.nodes[10].provider_id = world.nodes[10].provider_id.as_ref().map(|id| id.to_ascii_uppercase());
    let removed = batch(world.next()).remove;
    assert!(removed.iter().all(|one| one.state == NodeState::Available), "{removed:#?}");
    let names: Vec<&str> = removed[10..].iter().map(|one| one.node.as_str()).collect();
    assert_eq!(names, ["k8s-agentpool1-26100436-vmss00000a", "worker-11.example"], "the names of the Nodes");
    world.own_node = Some("worker-11.example".to_owned());
    assert_eq!(batch(world.next()).remove.len(), 11, "kiln runs on the node with another name");
}

#[test]
fn running_instance_without_a_node_is_refused_by_name() {
    let mut world = world(&[OLD; 11]);
    world.nodes.pop();
    let RefreshDecision::Refuse { missing } = world.next() else { panic!("it may run pods") };
    assert_eq!((missing[0].instance.as_str(), missing.len()), ("10", 1));
    assert!(missing[0].node.ends_with("vmss00000A"), "{missing:?}");
    world.instances[10].power = PowerState::Unknown;
    assert!(matches!(world.next(), RefreshDecision::Refuse { .. }));
    world.instances[10].power = PowerState::Deallocated;
    world.budget.max_unavailable = 1;
    assert_eq!(batch(world.next()).remove[0].state, NodeState::Off, "nothing runs on it");
    world.instances[10].power = PowerState::Running;
    world.budget.all_at_once = true;
    assert_eq!(batch(world.next()).remove.len(), 11, "nothing is drained");
}

#[test]
fn new_instance_that_has_not_joined_is_awaited() {
    let mut world = world(&[OLD, NEW]);
    world.nodes.pop();
    let decision = world.next();
    let RefreshDecision::Batch(Batch { add: 1, remove, .. }) = &decision else { panic!("{decision:?}") };
    assert!(remove.is_empty());
}

#[test]
fn node_that_a_run_holds_is_not_replaced() {
    let mut world = world(&[OLD, NEW]);
    world.nodes[0].held_by = Some("r1".to_owned());
    let RefreshDecision::Done { left } = world.next() else { panic!("the donor of an open run") };
    assert_eq!(left[0].stays, Some("a run holds it"));
    world.nodes[0].held_by = Some("refresh/pool".to_owned());
    assert!(matches!(world.next(), RefreshDecision::Batch(_)), "an interrupted refresh held it");
}

#[test]
fn continued_refresh_keeps_its_goal_unless_others_changed_the_capacity() {
    let goal = Goal::new(3, Budget { surge: 2, max_unavailable: 1, all_at_once: false });
    assert_eq!(goal.to_string(), "3+2-1");
    assert_eq!(goal.to_string().parse(), Ok(goal));
    assert_eq!([1, 2, 5, 6].map(|capacity| goal.continued_at(capacity)), [1, 3, 3, 6]);
    let all = Goal::new(3, Budget { all_at_once: true, ..Budget::default() });
    assert_eq!([0, 4, 5].map(|capacity| all.continued_at(capacity)), [3, 3, 5]);
    let older: Goal = "3".parse().unwrap();
    assert_eq!([0, 9].map(|capacity| older.continued_at(capacity)), [3, 3]);
    assert!("".parse::<Goal>().is_err());
}

#[test]
fn capacity_changes_of_others_are_followed() {
    assert_eq!(follow_capacity(3, 4, 4), 3);
    assert_eq!(follow_capacity(3, 4, 6), 5);
    assert_eq!(follow_capacity(3, 4, 2), 1);
    assert_eq!(follow_capacity(1, 4, 0), 0);
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
    /// Others make nodes unready, cordon them and change the capacity, and drains fail, between any two decisions.
    #[test]
    fn unavailable_budget_is_never_exceeded(
        old in prop::collection::vec(any::<bool>(), 1..12),
        surge in 0u32..4,
        max_unavailable in 0u32..4,
        rounds in prop::collection::vec((prop::collection::vec(disturbance(), 0..4), any::<bool>()), 0..60),
    ) {
        prop_assume!(surge + max_unavailable > 0);
        let versions: Vec<&str> = old.iter().map(|is_old| if *is_old { OLD } else { NEW }).collect();
        let mut world = world(&versions);
        world.budget = Budget { surge, max_unavailable, all_at_once: false };
        // Afterwards the pool is left alone, and every node comes up.
        let quiet = std::iter::repeat_n((Vec::new(), false), 100);
        let disturbed = rounds.len();
        let scaled_in = rounds.iter().flat_map(|(all, _)| all).any(|one| matches!(one, Disturbance::ScaleIn(_)));
        let mut ended = false;
        for (round, (disturbances, drain_fails)) in rounds.into_iter().chain(quiet).enumerate() {
            for one in disturbances {
                world.disturb(one);
            }
            if round >= disturbed {
                world.nodes.iter_mut().for_each(|node| (node.readiness, node.cordoned) = (Readiness::Ready, false));
            }
            let batch = match world.next() {
                RefreshDecision::Batch(batch) => batch,
                RefreshDecision::Wait { .. } => continue,
                RefreshDecision::Done { .. } if round < disturbed => continue,
                RefreshDecision::Done { left } => {
                    prop_assert!(left.is_empty());
                    ended = true;
                    break;
                }
                RefreshDecision::Refuse { missing } => panic!("every instance has a node: {missing:?}"),
            };
            let (capacity, takes_available) =
                (world.capacity, batch.remove.iter().any(|one| one.state == NodeState::Available));
            // The nodes of a failed batch are released: only its new instances stay.
            let failed = Batch { remove: Vec::new(), ..batch.clone() };
            world.act(if drain_fails { &failed } else { &batch });
            prop_assert!(world.capacity <= capacity.max(world.wanted + surge));
            let least = world.wanted.saturating_sub(max_unavailable);
            if !drain_fails && !batch.remove.is_empty() {
                prop_assert!(world.ready() >= least, "{batch:?} leaves {} Ready nodes", world.ready());
                prop_assert!(!takes_available || world.available() >= least, "{batch:?} leaves {}", world.available());
                prop_assert!(batch.remove.len() <= (surge + max_unavailable + world.capacity.saturating_sub(world.wanted)) as usize);
            }
        }
        prop_assert!(ended);
        let is_full = if scaled_in { world.capacity >= world.wanted } else { world.capacity == world.wanted };
        prop_assert!(is_full);
        prop_assert!(world.instances.iter().all(|instance| instance.runs == exact(NEW)));
    }
}
