//! From objects to what [`kiln_rollout::next`] reads.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kiln_fleet_api::{NodeState, Rollout, RolloutPolicySpec};
use kiln_kubernetes::Owner;
use kiln_rollout::{
    DrainState, FreezeObserved, NodeObserved, Observed, PastTurn, Policy, PoolObserved, Problem, Reading,
    ResolvedTarget,
};

use super::documents::Documents;
use super::images::{self, ImageState};
use super::index::{Index, hold, state_of, until};
use super::stores::Snapshots;

/// On a NodeState: the conditions of the Node when its document was assigned, as JSON.
pub(super) const CONDITIONS_BEFORE: &str = "node.kiln.dev/conditions-before";

/// The limit of [`kiln_rollout`] for policies without `drainTimeout`.
const DRAIN_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// The policy of a rollout.
pub(super) struct ResolvedPolicy {
    pub(super) spec: RolloutPolicySpec,
    pub(super) policy: Policy,
    problem: Option<Problem>,
}

impl ResolvedPolicy {
    /// How long a drain may take.
    pub(super) fn drain_timeout(&self) -> SignedDuration {
        self.spec.drain_timeout.as_deref().and_then(|text| text.parse().ok()).unwrap_or(DRAIN_TIMEOUT)
    }

    /// Whether it has the gate `daemonSetsReady`.
    pub(super) fn watches_pods(&self) -> bool {
        self.spec.gates.iter().any(|gate| gate.daemon_sets_ready == Some(true))
    }
}

/// What only this process knows.
pub(super) trait Local {
    /// The drain of a node by an owner.
    fn drain(&self, node: &str, owner: &Owner) -> Option<DrainState>;
    /// Whether the pods of DaemonSets on a node are ready.
    fn daemon_sets_ready(&self, node: &str) -> bool;
    /// The answers of Prometheus.
    fn readings(&self, rollout: &str) -> Vec<Reading>;
    /// How long nodes took in the past.
    fn past(&self) -> Vec<PastTurn>;
    /// What is known of the images of a pool.
    fn images(&self, _pool: &kiln_fleet_api::Pool) -> ImageState {
        ImageState::Off
    }
    /// The node that the operator runs on.
    fn own_node(&self) -> Option<&str> {
        None
    }
}

/// The name of the RolloutPolicy of a rollout.
pub(super) fn policy_name(rollout: &Rollout, view: &Snapshots) -> Option<String> {
    if rollout.spec.policy.is_some() {
        return None;
    }
    let of_pool = |name: &String| view.pools.get(name).and_then(|pool| pool.spec.policy_ref.clone());
    rollout.spec.policy_ref.clone().or_else(|| rollout.spec.pools.iter().find_map(of_pool))
}

/// Finds and parses the policy of a rollout. Instead of an invalid or missing one, the default finishes the nodes in flight.
pub(super) fn resolve_policy(rollout: &Rollout, view: &Snapshots) -> ResolvedPolicy {
    let name = policy_name(rollout, view);
    let problem = |message: String| Problem { message, objects: name.clone().into_iter().collect() };
    let spec = match (&rollout.spec.policy, &name) {
        (Some(inline), _) => Ok(inline.clone()),
        (None, None) => Ok(RolloutPolicySpec::default()),
        (None, Some(policy)) => match view.policies.get(policy) {
            Some(found) => Ok(found.spec.clone()),
            None => Err(problem(format!("RolloutPolicy `{policy}` does not exist; create it or change `policyRef`"))),
        },
    };
    let parsed = spec.and_then(|spec| match Policy::parse(&spec) {
        Ok(policy) => Ok((spec, policy)),
        Err(error) => {
            let place = name.as_ref().map_or("`spec.policy`".to_owned(), |name| format!("RolloutPolicy `{name}`"));
            Err(problem(format!("{place} is invalid: {error}; correct the field")))
        }
    });
    match parsed {
        Ok((spec, policy)) => ResolvedPolicy { spec, policy, problem: None },
        Err(problem) => {
            let (spec, policy) = (RolloutPolicySpec::default(), Policy::default());
            ResolvedPolicy { spec, policy, problem: Some(problem) }
        }
    }
}

/// Collects everything that the next decision about a rollout depends on.
pub(super) fn observe(
    rollout: &Rollout,
    owner: &Owner,
    policy: &ResolvedPolicy,
    view: &Snapshots,
    index: &Index,
    documents: &mut Documents,
    local: &dyn Local,
) -> Observed {
    let name = rollout.metadata.name.as_deref().unwrap_or_default();
    let image = rollout.spec.target.image_version.as_deref();
    let pool = rollout.spec.pools.first().and_then(|name| view.pools.get(name));
    let state = pool.filter(|_| image.is_some()).map_or(ImageState::Off, |pool| local.images(pool));
    let target = match image {
        Some(image) => image_target(rollout, image, policy, view, &state),
        None => target(rollout, policy, view, documents),
    };
    let digest = target.as_ref().map(|target| target.digest.clone()).unwrap_or_default();
    let mut nodes = Vec::new();
    for pool in &rollout.spec.pools {
        for node in index.nodes_of(pool) {
            let Some(object) = view.nodes.get(node) else { continue };
            let mut observed = observe_node(object, state_of(&view.states, object), owner, local);
            observed.pool.clone_from(pool);
            observed.expected_effect = observed
                .status
                .current
                .as_ref()
                .filter(|_| !digest.is_empty())
                .and_then(|current| documents.effect(&current.digest, &digest));
            nodes.push(observed);
        }
    }
    let pools = if image.is_some() {
        images::nodes(&mut nodes, owner, &state, local.own_node(), view);
        let started = rollout.status.as_ref().map(|status| status.digest.as_str()).filter(|digest| !digest.is_empty());
        let version = started.unwrap_or(&digest);
        let named = rollout.spec.pools.iter().filter_map(|name| Some((name, view.pools.get(name)?)));
        named.map(|(name, pool)| images::observe_pool(name, pool, version, &nodes, &state, view)).collect()
    } else {
        rollout.spec.pools.iter().filter_map(|name| observe_pool(name, &digest, view, documents)).collect()
    };
    Observed {
        pools,
        target,
        nodes,
        freezes: view
            .freezes
            .iter()
            .map(|(name, freeze)| FreezeObserved {
                name: name.clone(),
                reason: freeze.spec.reason.clone(),
                pools: freeze.spec.pools.clone(),
                until: until(freeze),
            })
            .collect(),
        older_rollouts: older_rollouts(rollout, view),
        prometheus: local.readings(name),
        past: local.past(),
    }
}

/// The image version of the target, or the first problem.
fn image_target(
    rollout: &Rollout,
    image: &str,
    policy: &ResolvedPolicy,
    view: &Snapshots,
    state: &ImageState,
) -> Result<ResolvedTarget, Problem> {
    match &policy.problem {
        Some(problem) => Err(problem.clone()),
        None => images::target(rollout, image, view, state),
    }
}

/// The document of the target, or the first problem.
fn target(
    rollout: &Rollout,
    policy: &ResolvedPolicy,
    view: &Snapshots,
    documents: &Documents,
) -> Result<ResolvedTarget, Problem> {
    let name = &rollout.spec.target.node_config;
    let problem = |message: String| Problem { message, objects: vec![name.clone()] };
    if let Some(missing) = rollout.spec.pools.iter().find(|pool| !view.pools.contains_key(*pool)) {
        let message =
            format!("Pool `{missing}` does not exist; create it, or delete this Rollout and create another one");
        return Err(Problem { message, objects: vec![missing.clone()] });
    }
    if let Some(problem) = &policy.problem {
        return Err(problem.clone());
    }
    let document = match documents.get(name) {
        None => return Err(problem(format!("NodeConfig `{name}` does not exist; create it"))),
        Some(Err(error)) => {
            let message = format!(
                "NodeConfig `{name}` is invalid: {error}; create a NodeConfig with a correct document, and a Rollout with it"
            );
            return Err(problem(message));
        }
        Some(Ok(document)) => document,
    };
    let digest = &document.digest;
    if let Some(expected) = rollout.spec.target.digest.as_ref().filter(|expected| *expected != digest) {
        let message = format!(
            "NodeConfig `{name}` has the digest `{digest}`, and `spec.target.digest` is `{expected}`; create a Rollout with the digest of the NodeConfig"
        );
        return Err(problem(message));
    }
    let started = rollout.status.as_ref().map(|status| status.digest.as_str()).unwrap_or_default();
    if !started.is_empty() && started != digest {
        let message = format!(
            "NodeConfig `{name}` was replaced: this Rollout started with the digest `{started}`, and the NodeConfig now has `{digest}`; restore the NodeConfig, or create another Rollout"
        );
        return Err(problem(message));
    }
    Ok(ResolvedTarget { node_config: name.clone(), digest: digest.clone() })
}

/// A pool whose own document is the target, and that has completed no rollout, has no earlier target: this rollout completes it.
fn observe_pool(name: &str, digest: &str, view: &Snapshots, documents: &Documents) -> Option<PoolObserved> {
    let pool = view.pools.get(name)?;
    let is_complete = pool.status.as_ref().is_some_and(|status| status.target.is_some());
    let rejected = pool.status.as_ref().map(|status| status.rejected.clone()).unwrap_or_default();
    Some(PoolObserved {
        name: name.to_owned(),
        paused: pool.spec.paused,
        previous: pool_target(pool, documents).filter(|previous| is_complete || previous.digest != digest),
        rejected,
        ..PoolObserved::default()
    })
}

/// What a new node of a pool gets: the last complete target, or the pool's own document if no rollout has completed.
pub(super) fn pool_target(pool: &kiln_fleet_api::Pool, documents: &Documents) -> Option<ResolvedTarget> {
    let complete = pool.status.as_ref().and_then(|status| status.target.as_ref());
    if let Some(target) = complete
        && let Some(digest) = &target.digest
    {
        return Some(ResolvedTarget { node_config: target.node_config.clone(), digest: digest.clone() });
    }
    let name = pool.spec.node_config.as_ref()?;
    let document = documents.get(name)?.ok()?;
    Some(ResolvedTarget { node_config: name.clone(), digest: document.digest.clone() })
}

/// Open rollouts that were created earlier and have a pool in common.
fn older_rollouts(rollout: &Rollout, view: &Snapshots) -> Vec<String> {
    let shares = |other: &Rollout| other.spec.pools.iter().any(|pool| rollout.spec.pools.contains(pool));
    let older = view.rollouts.iter().filter(|(_, other)| is_open(other) && shares(other) && age(other) < age(rollout));
    older.map(|(name, _)| name.clone()).collect()
}

/// Whether a rollout has not ended.
pub(super) fn is_open(rollout: &Rollout) -> bool {
    rollout.status.as_ref().is_none_or(|status| !status.phase.is_final())
}

/// Sorts rollouts, oldest first. Creation times are whole seconds, so the name decides between equal ones.
pub(super) fn age(rollout: &Rollout) -> (Option<Timestamp>, &str) {
    let created = rollout.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, rollout.metadata.name.as_deref().unwrap_or_default())
}

fn observe_node(node: &Node, state: Option<&NodeState>, owner: &Owner, local: &dyn Local) -> NodeObserved {
    let name = node.metadata.name.clone().unwrap_or_default();
    let hold = hold(node).filter(|hold| hold.owner == *owner);
    let spec = state.map(|state| state.spec.clone()).unwrap_or_default();
    let status = state.and_then(|state| state.status.clone()).unwrap_or_default();
    let generation = state.and_then(|state| state.metadata.generation);
    let is_allowed = spec.allow.is_some() && spec.allow == spec.desired.as_ref().map(|desired| desired.digest.clone());
    let drain = match local.drain(&name, owner) {
        Some(drain) => drain,
        // Another operator drained it: the document was allowed after that.
        None if hold.is_some() && is_allowed => DrainState::Done,
        None => DrainState::None,
    };
    NodeObserved {
        pool: String::new(),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        ready: is_ready(node),
        ready_since: ready(node).and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0),
        cordoned: is_cordoned(node),
        held: hold.is_some(),
        drain,
        desired: spec.desired,
        allow: spec.allow,
        reboot: spec.reboot,
        written: state.and_then(written),
        observed: generation.is_some() && status.observed_generation == generation,
        status,
        daemon_sets_ready: local.daemon_sets_ready(&name),
        conditions: conditions(node),
        conditions_before: state.map(conditions_before).unwrap_or_default(),
        expected_effect: None,
        image: None,
        stays: None,
        name,
    }
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// Whether the condition `Ready` of a node is `True`.
pub(super) fn is_ready(node: &Node) -> bool {
    ready(node).is_some_and(|condition| condition.status == "True")
}

/// Whether a node is cordoned, by anyone.
pub(super) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

/// The conditions of a node, by type.
pub(super) fn conditions(node: &Node) -> BTreeMap<String, String> {
    let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.map(|condition| (condition.type_.clone(), condition.status.clone())).collect()
}

fn conditions_before(state: &NodeState) -> BTreeMap<String, String> {
    let text = state.metadata.annotations.as_ref().and_then(|all| all.get(CONDITIONS_BEFORE));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// When the operator last changed the spec.
fn written(state: &NodeState) -> Option<Timestamp> {
    let entries = state.metadata.managed_fields.iter().flatten();
    entries.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()
}

#[cfg(test)]
mod tests;
