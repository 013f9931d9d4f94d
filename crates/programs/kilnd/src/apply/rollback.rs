//! Going back: by hand to any generation that is still there, or by itself when a trial failed.

use crate::os::{Durability, Generations, Lock};
use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::LOCK;
use kiln_node_plan::{Generation, Return, State, Trial};

use crate::apply::store;
use crate::apply::{self, NotThere, prune, remembered};
use crate::node::Node;

/// What keeps a node from going back.
#[derive(Debug, thiserror::Error)]
pub enum NotBack {
    /// There was never one.
    #[error("no generation is in force: `kilnd apply` makes one")]
    Nothing,
    /// There is nothing before what is in force.
    #[error("there is no generation before {}; these are there: {there}", .now.map_or("the first".to_owned(), |now| now.to_string()))]
    NothingBefore {
        /// The number in force.
        now: Option<u64>,
        /// Those that are there.
        there: String,
    },
    /// There is no such generation.
    #[error("there is no generation {number}; these are there: {there}")]
    NoSuch {
        number: u64,
        /// Those that are there.
        there: String,
    },
    /// It is in force already.
    #[error("generation {0} is in force")]
    InForce(u64),
    /// The way there failed. The next start, or another `kilnd rollback`, goes on with it.
    #[error("generation {to} is to be in force again, and that failed; run it again when what is in the way is gone")]
    Failed {
        /// Where to.
        to: u64,
        /// What failed.
        #[source]
        source: NotThere,
    },
    /// The node's own files cannot be read or written. Nothing was changed.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
}

/// Where a node went back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WentBack {
    /// The generation in force.
    pub to: Generation,
    /// The one before, which is not taken again by itself.
    pub from: Option<Generation>,
    /// What the node remembers now.
    pub state: State,
}

/// A person wants an earlier generation: the one before, or that of a number.
pub fn to(node: &Node, number: Option<u64>) -> Result<WentBack, NotBack> {
    let _lock = Lock::take(&node.root, LOCK)?;
    let mut state = remembered(node)?;
    let now = state.in_force().cloned();
    let all = documents(node)?;
    let target = choose(&state, &all, number)?;
    if now.as_ref().is_some_and(|now| now.folder == target.0.folder) {
        return Err(NotBack::InForce(target.0.number));
    }
    if let Some(now) = &now {
        // As if it had been on trial: it is not taken again by itself.
        state.trial = Some(Trial { generation: now.clone(), restarts: 0 });
    }
    state.committed = Some(target.0.clone());
    state.failed("somebody went back from it");
    state.forgive(&target.0.hash);
    go(node, now, state, &target)
}

/// The generation on trial is not healthy: the one before comes back, by itself and once. Says where to, and nothing where there is
/// nothing to go back to.
pub fn failed(node: &Node, reason: &str) -> Result<Option<WentBack>, NotBack> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let mut state = remembered(node)?;
    let now = state.in_force().cloned();
    let Return::To(generation) = state.failed(reason) else { return Ok(None) };
    match store::document(&node.root, &generation.folder)? {
        Some(config) => go(node, now, state, &(generation, config)).map(Some),
        None => Ok(None),
    }
}

/// The node was seen healthy: what is in force is there to stay.
pub fn confirmed(node: &Node) -> Result<State, crate::os::Error> {
    let _lock = Lock::wait(&node.root, LOCK)?;
    let mut state = remembered(node)?;
    if state.trial.is_some() {
        state.confirmed();
        store::save(&node.root, &state, Durability::Now)?;
        prune(node, &state);
    }
    Ok(state)
}

/// Writes ahead where to, then goes there.
fn go(
    node: &Node,
    from: Option<Generation>,
    state: State,
    (to, config): &(Generation, NodeConfig),
) -> Result<WentBack, NotBack> {
    // Looked at from where the node is: the state that is written ahead names the target, and what the link names is remembered by it.
    store::save(&node.root, &state, Durability::Now)?;
    apply::go_to(node, &state, config, &to.folder).map_err(|source| NotBack::Failed { to: to.number, source })?;
    Ok(WentBack { to: to.clone(), from, state })
}

fn documents(node: &Node) -> Result<Vec<(Generation, NodeConfig)>, crate::os::Error> {
    let mut all = Vec::new();
    for folder in Generations::of(&node.root).list()? {
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
) -> Result<(Generation, NodeConfig), NotBack> {
    let there = || all.iter().map(|(generation, _)| generation.number.to_string()).collect::<Vec<_>>().join(", ");
    if all.is_empty() {
        return Err(NotBack::Nothing);
    }
    let known = |folder: &str| all.iter().find(|(generation, _)| generation.folder == folder);
    if let Some(number) = number {
        let found = all.iter().rev().find(|(generation, _)| generation.number == number);
        return found.cloned().ok_or_else(|| NotBack::NoSuch { number, there: there() });
    }
    let now = state.in_force();
    let committed = state.trial.as_ref().and(state.committed.as_ref());
    let before = committed.and_then(|generation| known(&generation.folder).map(|(_, config)| (generation, config)));
    if let Some((generation, config)) = before {
        return Ok((generation.clone(), config.clone()));
    }
    let lower = |generation: &Generation| now.is_some_and(|now| generation.number < now.number);
    let found = all.iter().rev().find(|(generation, _)| lower(generation));
    found.cloned().ok_or_else(|| NotBack::NothingBefore { now: now.map(|now| now.number), there: there() })
}
