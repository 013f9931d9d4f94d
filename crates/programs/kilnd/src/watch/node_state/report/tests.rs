use kiln_node_plan::{Generation, Request};

use super::*;

/// What the node knows, by value.
#[derive(Default)]
struct World {
    desired: Option<Desired>,
    memory: Memory,
    state: State,
    requests: Requests,
    needed: Option<RequestedAction>,
    is_waiting: bool,
    problem: Option<&'static str>,
    gates: Vec<(String, GateResult)>,
}

impl World {
    /// Generation 1 is committed.
    fn new() -> Self {
        let mut world = Self::default();
        world.start(1);
        world.state.commit();
        world
    }

    fn start(&mut self, number: u64) {
        let (hash, folder, source) = (format!("h{number}"), number.to_string(), "NodeState".to_owned());
        self.state.start_trial(Generation { number, hash, folder, source }, "boot");
    }

    fn assign(&mut self, digest: &str) {
        self.desired = Some(Desired { node_config: "web".to_owned(), digest: digest.to_owned(), ..Desired::default() });
        self.memory.assign(self.desired.as_ref());
    }

    fn status_after(&self, before: &[Condition], now: &str) -> NodeStateStatus {
        let facts = Facts {
            generation: 7,
            desired: self.desired.as_ref(),
            memory: &self.memory,
            state: &self.state,
            requests: &self.requests,
            needed: self.needed,
            effect: Some(Effect::Drain),
            is_waiting: self.is_waiting,
            problem: self.problem,
            overdue: None,
            gates: &self.gates,
            boot_id: "boot",
            image_version: "1.2.3",
            boot: None,
        };
        status(facts, before, now)
    }

    fn status(&self) -> NodeStateStatus {
        self.status_after(&[], "now")
    }
}

fn condition(status: &NodeStateStatus, type_: &str) -> (String, String) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).expect("a condition");
    (found.status.clone(), found.reason.clone())
}

#[test]
fn node_without_an_assigned_document_is_idle_and_reports_what_is_in_force() {
    let world = World::new();
    let status = world.status();
    assert_eq!((status.phase, status.observed_generation), (Phase::Idle, Some(7)));
    let current = status.current.clone().expect("a document");
    assert_eq!((current.digest.as_str(), current.generation, current.committed), ("h1", 1, true));
    assert_eq!((status.boot_id.as_str(), status.image_version.as_str()), ("boot", "1.2.3"));
    assert_eq!(status.kilnd, env!("CARGO_PKG_VERSION"));
    assert_eq!(condition(&status, "Configured"), ("True".to_owned(), "Committed".to_owned()));
    assert_eq!(condition(&World::default().status(), "Configured").1, "NoDocument");
}

#[test]
fn phases_follow_an_assigned_document() {
    let mut world = World::new();
    world.assign("h2");
    assert_eq!(world.status().phase, Phase::Idle);
    world.problem = Some("NodeConfig `web` does not exist");
    assert!(world.status().message.contains("does not exist"));
    world.problem = None;

    world.needed = Some(RequestedAction::Drain);
    let pending = world.status();
    assert_eq!((pending.phase, pending.effect), (Phase::Pending, Some(Effect::Drain)));
    assert_eq!((pending.requests.action, pending.requests.digest.as_str()), (Some(RequestedAction::Drain), "h2"));
    assert_eq!(condition(&pending, "Pending").0, "True");

    (world.needed, world.is_waiting) = (None, true);
    assert_eq!(world.status().phase, Phase::Accepted);

    world.is_waiting = false;
    world.start(2);
    world.memory.note_state(&world.state);
    world.gates = vec![
        ("kubelet".to_owned(), GateResult::Passed),
        ("node".to_owned(), GateResult::Failed("not Ready".to_owned())),
    ];
    let trial = world.status();
    assert_eq!((trial.phase, trial.effect, trial.requests.is_empty()), (Phase::OnTrial, None, true));
    assert_eq!(condition(&trial, "Configured").0, "Unknown");
    let gates: Vec<(bool, &str)> = trial.gates.iter().map(|gate| (gate.passed, gate.message.as_str())).collect();
    assert_eq!(gates, [(true, ""), (false, "not Ready")]);

    let mut good = State::clone(&world.state);
    good.commit();
    let mut bad = State::clone(&world.state);
    bad.fail_trial("no kubelet");
    world.state = good;
    let current = world.status();
    assert_eq!((current.phase, current.gates.len(), current.reverted), (Phase::Current, 0, None));

    world.state = bad;
    world.memory.note_state(&world.state);
    let reverted = world.status();
    assert_eq!((reverted.phase, reverted.message.as_str()), (Phase::Reverted, "no kubelet"));
    assert_eq!(reverted.current.expect("the previous one").digest, "h1");
    assert_eq!(reverted.reverted.map(|reverted| reverted.digest).as_deref(), Some("h2"));
}

#[test]
fn document_in_force_that_needs_a_reboot_is_pending() {
    let mut world = World::new();
    world.assign("h2");
    world.start(2);
    world.requests.request_reboot(2, "h2", "boot");
    let status = world.status();
    assert_eq!((status.phase, status.requests.action), (Phase::Pending, Some(RequestedAction::Reboot)));
    assert_eq!((status.requests.digest.as_str(), condition(&status, "OnTrial").0.as_str()), ("h2", "True"));
    world.state.commit();
    assert_eq!(world.status().phase, Phase::Pending, "the trial passed, but the kernel is the old one");
    world.requests.note_boot("another boot");
    assert_eq!(world.status().phase, Phase::Current);
}

#[test]
fn labels_and_taints_that_a_node_may_not_set_are_requested_in_every_phase() {
    let mut world = World::new();
    let set = [("node-role.kubernetes.io/gpu", ""), ("example.com/own", "a")];
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let remove = vec!["kubernetes.io/old".to_owned()];
    world.requests.add(&[
        Request::Labels { set, remove, by_node: false },
        Request::Taints { set: Vec::new(), remove: vec!["gpu:NoSchedule".to_owned()] },
    ]);
    let requests = world.status().requests;
    assert_eq!(requests.action, None);
    let labels: Vec<_> = requests.labels.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
    assert_eq!(labels, [("kubernetes.io/old", None), ("node-role.kubernetes.io/gpu", Some(""))]);
    assert_eq!(requests.taints.get("gpu:NoSchedule"), Some(&None));
}

#[test]
fn transition_times_change_only_with_the_conditions() {
    let mut world = World::new();
    let first = world.status_after(&[], "1");
    assert_eq!(world.status_after(&first.conditions, "2"), first);
    world.assign("h2");
    world.memory.fail("h2", "invalid");
    let failed = world.status_after(&first.conditions, "3");
    let times: Vec<(&str, &str)> = failed
        .conditions
        .iter()
        .map(|condition| (condition.type_.as_str(), condition.last_transition_time.as_str()))
        .collect();
    assert_eq!(times, [("Configured", "3"), ("OnTrial", "1"), ("Pending", "1"), ("Reverted", "3")]);
}

#[test]
fn messages_contain_no_secrets_and_are_short() {
    let mut world = World::new();
    world.assign("h2");
    let token = "abcdef.0123456789abcdef";
    world.start(2);
    world.gates = vec![("x".to_owned(), GateResult::Failed(format!("token {token}")))];
    assert!(!format!("{:?}", world.status()).contains("0123456789abcdef"));
    world.state.fail_trial(&format!("kubelet exited: {token} {}", "x".repeat(5000)));
    world.memory.note_state(&world.state);
    let status = world.status();
    assert!(!format!("{status:?}").contains("0123456789abcdef"), "{status:?}");
    assert!(status.message.len() <= LONGEST && status.message.starts_with("kubelet exited"), "{}", status.message);
}
