//! Applies a document to a running node, and reverts it if that fails.
//!
//! A [`candidate`] is a document that was received and validated. [`facts`], [`network_facts`] and [`observe`] read the machine, [`transition`] plans the way to
//! the document, and [`steps`] executes the plan; [`services`], [`enablement`], [`pod_block`] and [`deferred`] are the parts of it that
//! are more than files. [`store`] keeps the state across reboots. [`rollback`] ends trials and returns to earlier generations.
//!
//! The state is written before anything changes: it names the generation that *should* be in force. An interrupted transition is therefore
//! finished by the next boot, in whichever direction the state says.

pub mod candidate;
pub mod deferred;
pub mod enablement;
mod error;
pub mod facts;
pub mod join_tokens;
pub mod network_facts;
pub mod observe;
pub mod pod_block;
pub mod rollback;
pub mod services;
pub mod steps;
pub mod store;
pub mod transition;

use kiln_node_config::NodeConfig;
use kiln_node_config::changes::Change;
use kiln_node_plan::layout::LOCK;
use kiln_node_plan::{Admission, Generation, Plan, PlanAction, Request, State};

pub use error::{Error, ServiceError};

use crate::log::{error_chain, error_line};
use crate::node::Node;
use crate::os::{self, Durability, Generations, Lock};
use crate::status::{Changed, Outcome, Status};
use candidate::Candidate;
use transition::{Phase, Transition};

/// How many generations stay on disk: more than a person rolls back, and few enough to list.
pub const KEPT: usize = 5;

/// Which limits apply to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Generation number, earlier rejections and the limits in the document apply.
    Automatic,
    /// The cluster allowed this document, so the limits in the document do not apply.
    Allowed,
    /// None of them: a person used `--force`.
    Forced,
}

/// The result of an accepted candidate.
#[derive(Debug)]
pub struct Applied {
    pub outcome: Outcome,
    /// The generation in force.
    pub generation: Option<Generation>,
    pub plan: Plan,
    pub state: State,
    /// Whether the node had no document before.
    pub is_first: bool,
}

/// Why a candidate is not in force.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(
        "generation {by} is in force and the document is generation {number}\nhint: raise `metadata.generation`, or use `--force`"
    )]
    Outranked {
        number: u64,
        /// The number in force.
        by: u64,
    },
    #[error("generation {number} was already rejected ({reason})\nhint: change the document, or use `--force`")]
    Rejected { number: u64, reason: String },
    #[error(
        "generation {number} is older than the signed generation {by} that this machine has accepted\nhint: raise `metadata.generation` and sign the document again, or use `--force`"
    )]
    Replayed {
        number: u64,
        /// The highest number that was accepted.
        by: u64,
    },
    #[error(transparent)]
    NotPlanned(#[from] Error),
    /// A step failed and all changes were undone.
    #[error("the document was not applied; nothing has changed")]
    Undone(#[source] Error),
    /// A service failed after the generation was in force; the previous one is in force again.
    #[error("reverted to generation {to}")]
    Reverted {
        to: u64,
        #[source]
        source: Error,
    },
    #[error("a service failed and no earlier generation exists\nhint: apply a corrected document")]
    NoPrevious(#[source] Error),
    #[error("the revert failed too ({revert})\nhint: fix its cause and run `kilnd rollback`")]
    Stuck {
        revert: String,
        #[source]
        source: Box<Error>,
    },
}

impl From<os::Error> for ApplyError {
    fn from(error: os::Error) -> Self {
        Self::NotPlanned(error.into())
    }
}

/// Plans a transition without executing it.
pub fn plan(node: &Node, candidate: &Candidate) -> Result<(Admission, Transition), ApplyError> {
    let state = load_state(node)?;
    let admission = candidate.admission(&state);
    Ok((admission, Transition::to(node, &state, &candidate.config, &candidate.folder(), Phase::Live)?))
}

/// Applies a candidate. If there is nothing to do, nothing is written, not even a lock file.
pub fn apply(node: &Node, candidate: &Candidate, consent: Consent) -> Result<Applied, ApplyError> {
    let assessed = assess(node, candidate, consent)?;
    if assessed.has_no_work() {
        return Ok(assessed.into_applied(Outcome::Unchanged));
    }
    let _lock = Lock::take(&node.root, LOCK)?;
    // Another process may have changed the node before we held the lock.
    let mut assessed = assess(node, candidate, consent)?;
    if assessed.has_no_work() {
        return Ok(assessed.into_applied(Outcome::Unchanged));
    }
    match assessed.transition.plan.action() {
        PlanAction::Request | PlanAction::Paused if consent == Consent::Automatic => {
            return Ok(assessed.into_applied(Outcome::Requested));
        }
        _ => {}
    }
    execute(node, &mut assessed, candidate)?;
    finish(node, &assessed.transition);
    prune(node, &assessed.state);
    Ok(assessed.into_applied(Outcome::Applied))
}

struct Assessed {
    state: State,
    admission: Admission,
    transition: Transition,
}

impl Assessed {
    fn has_no_work(&self) -> bool {
        self.admission == Admission::InForce && self.transition.plan.action() == PlanAction::Nothing
    }

    fn into_applied(self, outcome: Outcome) -> Applied {
        let generation = self.state.in_force().cloned();
        let is_first = self.transition.in_force.is_none();
        Applied { outcome, generation, plan: self.transition.plan, state: self.state, is_first }
    }
}

fn assess(node: &Node, candidate: &Candidate, consent: Consent) -> Result<Assessed, ApplyError> {
    let state = load_state(node)?;
    let number = candidate.config.metadata.generation;
    let admission = candidate.admission(&state);
    match &admission {
        _ if consent == Consent::Forced => {}
        Admission::Outranked { by } => return Err(ApplyError::Outranked { number, by: *by }),
        Admission::Rejected { reason } => return Err(ApplyError::Rejected { number, reason: reason.clone() }),
        Admission::Replayed { by } => return Err(ApplyError::Replayed { number, by: *by }),
        Admission::InForce | Admission::Accept => {}
    }
    let transition = Transition::to(node, &state, &candidate.config, &candidate.folder(), Phase::Live)?;
    Ok(Assessed { state, admission, transition })
}

/// Reads the state, with a warning if it had to be recovered.
pub fn load_state(node: &Node) -> Result<State, os::Error> {
    let loaded = store::load(&node.root)?;
    if let Some(warning) = loaded.recovered {
        node.log.warn(warning);
    }
    Ok(loaded.state)
}

/// Writes the state ahead, then executes the transition.
fn execute(node: &Node, assessed: &mut Assessed, candidate: &Candidate) -> Result<(), ApplyError> {
    let before = assessed.state.clone();
    assessed.transition.prepare(node, Phase::Live).map_err(ApplyError::Undone)?;
    if assessed.admission != Admission::InForce {
        assessed.state.clear_rejection(&candidate.hash);
        candidate.start_trial(&mut assessed.state, &node.boot_id());
        store::save(&node.root, &assessed.state, Durability::Now)?;
    }
    match assessed.transition.run(node, Phase::Live) {
        Ok(()) => Ok(()),
        Err(error) if assessed.admission == Admission::InForce => Err(ApplyError::Undone(error)),
        Err(error) => Err(revert(node, &before, assessed, error)),
    }
}

/// Returns to the generation that was in force before a failed transition.
fn revert(node: &Node, before: &State, assessed: &Assessed, error: Error) -> ApplyError {
    let state = &assessed.state;
    let is_service = matches!(error, Error::Service(_));
    let target = match before.in_force() {
        Some(generation) => match store::document(&node.root, &generation.folder) {
            Ok(Some(config)) => Some((generation.clone(), config)),
            Ok(None) => None,
            Err(failure) => return ApplyError::Stuck { revert: error_line(&failure), source: Box::new(error) },
        },
        None => None,
    };
    let Some((generation, config)) = target else {
        if is_service {
            return ApplyError::NoPrevious(error);
        }
        return match undo(node, assessed).and_then(|()| Ok(store::save(&node.root, before, Durability::Now)?)) {
            Ok(()) => ApplyError::Undone(error),
            Err(failure) => ApplyError::Stuck { revert: error_line(&failure), source: Box::new(error) },
        };
    };
    let switched = switch_to(node, state, &config, &generation.folder);
    let mut after = State { signed: state.signed.clone(), ..before.clone() };
    if is_service && let Some(trial) = &state.trial {
        // A document with which a service does not start is not applied again automatically. A trial from before it continues.
        let mut failing = State { committed: Some(generation.clone()), trial: Some(trial.clone()), ..before.clone() };
        failing.fail_trial(&error_chain(&error).swap_remove(0));
        after.rejected = failing.rejected;
    }
    match switched.and_then(|_| Ok(store::save(&node.root, &after, Durability::Now)?)) {
        Ok(()) if is_service => ApplyError::Reverted { to: generation.number, source: error },
        Ok(()) => ApplyError::Undone(error),
        Err(failure) => ApplyError::Stuck { revert: error_line(&failure), source: Box::new(error) },
    }
}

/// Switches to a document whose folder exists, whatever its effect. A service that does not start is only reported, because the files are
/// right then. Returns the requests to the cluster.
pub fn switch_to(node: &Node, state: &State, config: &NodeConfig, folder: &str) -> Result<Vec<Request>, Error> {
    let transition = Transition::to(node, state, config, folder, Phase::Live)?;
    transition.prepare(node, Phase::Live)?;
    for failed in transition.run_revert(node)? {
        node.log.warn(error_line(&failed));
    }
    finish(node, &transition);
    Ok(transition.plan.requests)
}

fn finish(node: &Node, transition: &Transition) {
    if let Err(error) = transition.finish(node) {
        node.log.warn(format!("a deferred step failed: {error}"));
    }
}

/// Restores what a first generation changed outside its folder and removes the folder.
fn undo(node: &Node, assessed: &Assessed) -> Result<(), Error> {
    let transition = Transition::to_nothing(node, &assessed.state, &assessed.transition.desired)?;
    transition.run(node, Phase::Live)?;
    for path in &assessed.transition.new_texts {
        if node.root.read_if_exists(path)?.is_some_and(|bytes| bytes.is_empty()) {
            node.root.remove(path, Durability::Now)?;
        }
    }
    node.root.remove_tree(Generations::folder(&assessed.transition.folder))?;
    Ok(())
}

/// Restores what the generation in force changed outside its folder, and keeps the folder, which running services use. Returns its number;
/// none if no generation is in force.
pub fn restore_original(node: &Node) -> Result<Option<u64>, Error> {
    let Some(folder) = Generations::new(&node.root).current()? else { return Ok(None) };
    let state = load_state(node)?;
    let Some(config) = store::document(&node.root, &folder)? else { return Ok(None) };
    let planned = Transition::to(node, &state, &config, &folder, Phase::Live)?;
    Transition::to_nothing(node, &state, &planned.desired)?.run(node, Phase::Live)?;
    for block in &planned.desired.blocks {
        if node.root.read_if_exists(&block.path)?.is_some_and(|bytes| bytes.is_empty()) {
            node.root.remove(&block.path, Durability::Now)?;
        }
    }
    Ok(Some(config.metadata.generation))
}

/// Removes old generations. A failure is harmless and only logged.
pub fn prune(node: &Node, state: &State) {
    let spared: Vec<&str> =
        state.in_force().into_iter().chain(&state.committed).map(|generation| generation.folder.as_str()).collect();
    match Generations::new(&node.root).prune(KEPT, &spared) {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => node.log.info(&format!("removed old generations: {}", removed.join(", "))),
        Err(error) => node.log.warn(format!("cannot remove old generations: {error}")),
    }
}

impl Applied {
    /// The status of a command with this result.
    pub fn status(&self, command: &str) -> Status {
        let mut status = Status::new(command, self.outcome, &self.state);
        status.pending = self.pending();
        // For a first document every field is new, and a requested change has not happened yet.
        if !self.is_first {
            status.effect = Some(self.plan.effect);
        }
        if !self.is_first && self.outcome == Outcome::Applied {
            let changed = |change: &Change| Changed { path: change.path.clone(), effect: change.effect };
            status.changed = self.plan.changes.iter().map(changed).collect();
        }
        status
    }

    /// The requests, as text.
    pub fn pending(&self) -> Vec<String> {
        self.plan.requests.iter().map(ToString::to_string).collect()
    }

    /// Whether there is a request that the node may not fulfil itself.
    pub fn needs_cluster(&self) -> bool {
        self.plan.requests.iter().any(|request| !matches!(request, Request::Labels { by_node: true, .. }))
    }
}
