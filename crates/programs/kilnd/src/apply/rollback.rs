//! Ends a trial, by committing or reverting it, and rolls back to an earlier generation on request.

use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::LOCK;
use kiln_node_plan::{Generation, Revert, State, Trial};

use crate::apply::{self, Error, load_state, prune, store};
use crate::node::Node;
use crate::os::{self, Durability, Generations, Lock};

/// Why a rollback did not happen.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    #[error("no generation is in force\nhint: run `kilnd apply` first")]
    NoGeneration,
    #[error("no generation before {}; available: {available}", .now.map_or("the first".to_owned(), |now| now.to_string()))]
    NoPrevious {
        /// The number in force.
        now: Option<u64>,
        available: String,
    },
    #[error("generation {number} does not exist; available: {available}")]
    NotFound { number: u64, available: String },
    #[error("generation {0} is already in force")]
    InForce(u64),
    /// The next boot, or another `kilnd rollback`, continues.
    #[error("the rollback to generation {to} failed\nhint: fix the cause and run the command again")]
    Failed {
        to: u64,
        #[source]
        source: Error,
    },
    /// Nothing was changed.
    #[error(transparent)]
    Os(#[from] os::Error),
}

/// A completed rollback or revert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    pub to: Generation,
    /// The generation that was in force. It is not applied again automatically.
    pub from: Option<Generation>,
    pub state: State,
}

/// Rolls back to the previous generation, or to the one with a number.
pub fn roll_back(node: &Node, number: Option<u64>) -> Result<RolledBack, RollbackError> {
    let _lock = Lock::take(&node.root, LOCK)?;
    let mut state = load_state(node)?;
    let now = state.in_force().cloned();
    let target = choose(&state, &documents(node)?, number)?;
    if now.as_ref().is_some_and(|now| now.folder == target.0.folder) {
        return Err(RollbackError::InForce(target.0.number));
    }
    if let Some(now) = &now {
        // Recorded like a failed trial, so that it is not applied again automatically.
        state.trial = Some(Trial { generation: now.clone(), restarts: 0, boot: node.boot_id() });
    }
    state.committed = Some(target.0.clone());
    state.fail_trial("rolled back by a person");
    state.clear_rejection(&target.0.hash);
    switch_to(node, now, state, &target)
}

/// Reverts the generation on trial to the committed one. Returns nothing if there is none.
pub fn revert(node: &Node, reason: &str) -> Result<Option<RolledBack>, RollbackError> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let mut state = load_state(node)?;
    let now = state.in_force().cloned();
    let Revert::To(generation) = state.fail_trial(reason) else { return Ok(None) };
    match store::document(&node.root, &generation.folder)? {
        Some(config) => switch_to(node, now, state, &(generation, config)).map(Some),
        None => Ok(None),
    }
}

/// Commits the generation on trial.
pub fn commit(node: &Node) -> Result<State, os::Error> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let mut state = load_state(node)?;
    if state.trial.is_some() {
        state.commit();
        store::save(&node.root, &state, Durability::Now)?;
        prune(node, &state);
    }
    Ok(state)
}

/// Forgets that a document was rejected: the cluster assigned it again.
pub fn clear_rejection(node: &Node, hash: &str) -> Result<(), os::Error> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let mut state = load_state(node)?;
    if state.rejected.iter().any(|rejection| rejection.hash == hash) {
        state.clear_rejection(hash);
        store::save(&node.root, &state, Durability::Now)?;
    }
    Ok(())
}

/// Writes the state ahead, then switches.
fn switch_to(
    node: &Node,
    from: Option<Generation>,
    state: State,
    (to, config): &(Generation, NodeConfig),
) -> Result<RolledBack, RollbackError> {
    // The state names the target already, while the link still names the current generation: the transition compares the two.
    store::save(&node.root, &state, Durability::Now)?;
    apply::switch_to(node, &state, config, &to.folder)
        .map_err(|source| RollbackError::Failed { to: to.number, source })?;
    Ok(RolledBack { to: to.clone(), from, state })
}

fn documents(node: &Node) -> Result<Vec<(Generation, NodeConfig)>, os::Error> {
    let mut all = Vec::new();
    for folder in Generations::new(&node.root).list()? {
        if let Some(config) = store::document(&node.root, &folder)? {
            let generation = Generation {
                number: config.metadata.generation,
                hash: config.hash(),
                folder,
                source: "an earlier generation".to_owned(),
            };
            all.push((generation, config));
        }
    }
    Ok(all)
}

fn choose(
    state: &State,
    all: &[(Generation, NodeConfig)],
    number: Option<u64>,
) -> Result<(Generation, NodeConfig), RollbackError> {
    let available = || all.iter().map(|(generation, _)| generation.number.to_string()).collect::<Vec<_>>().join(", ");
    if all.is_empty() {
        return Err(RollbackError::NoGeneration);
    }
    if let Some(number) = number {
        let found = all.iter().rev().find(|(generation, _)| generation.number == number);
        return found.cloned().ok_or_else(|| RollbackError::NotFound { number, available: available() });
    }
    let now = state.in_force();
    let committed = state.trial.as_ref().and(state.committed.as_ref());
    let by_folder = |folder: &str| all.iter().find(|(generation, _)| generation.folder == folder);
    let previous = committed.and_then(|generation| Some((generation, &by_folder(&generation.folder)?.1)));
    if let Some((generation, config)) = previous {
        return Ok((generation.clone(), config.clone()));
    }
    let is_lower = |generation: &Generation| now.is_some_and(|now| generation.number < now.number);
    let found = all.iter().rev().find(|(generation, _)| is_lower(generation));
    let none = || RollbackError::NoPrevious { now: now.map(|now| now.number), available: available() };
    found.cloned().ok_or_else(none)
}
