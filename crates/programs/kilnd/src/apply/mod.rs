//! Putting a document in force on a running node, and taking it back when that fails.

pub mod candidate;
pub mod deferred;
pub mod enablement;
pub mod facts;
pub mod metadata_block;
pub mod observe;
pub mod rollback;
pub mod services;
pub mod steps;
pub mod store;
pub mod transition;

use crate::os::{Durability, Generations, Lock};
use kiln_node_config::NodeConfig;
use kiln_node_config::changes::Change;
use kiln_node_plan::layout::LOCK;
use kiln_node_plan::{Ask, Generation, Offer, Plan, State, Verdict};

use crate::apply::candidate::Offered;
use crate::apply::steps::ActError;
use crate::apply::transition::{NoWay, Pace, Way};
use crate::node::Node;
use crate::status::{Changed, Outcome, Status};

/// How many generations stay on the disk. More than anybody goes back by hand, few enough to be looked through.
pub const KEPT: usize = 5;

/// Who wants a document in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Whoever offers it: its number, its past and its own limits count.
    Offer,
    /// A person who insists.
    Person,
}

/// What became of a document that was taken.
#[derive(Debug)]
pub struct Applied {
    /// How it ended.
    pub outcome: Outcome,
    /// The generation in force.
    pub generation: Option<Generation>,
    /// What was planned.
    pub plan: Plan,
    /// What the node remembers now.
    pub state: State,
    /// Whether there was no document before it.
    pub is_first: bool,
}

/// What became of a document that was not.
#[derive(Debug, thiserror::Error)]
pub enum NotApplied {
    /// A higher number is in force, or another document with the same.
    #[error(
        "generation {by} is in force and the document is generation {number}: give it a higher `metadata.generation`, or `--force`"
    )]
    Outranked {
        number: u64,
        /// The number in force.
        by: u64,
    },
    /// It came back before.
    #[error("generation {number} came back before ({reason}): change the document, or `--force`")]
    CameBackBefore { number: u64, reason: String },
    /// There is no way to it.
    #[error(transparent)]
    NoWay(#[from] NoWay),
    /// It failed and everything is as it was.
    #[error("nothing has changed")]
    Undone(#[source] ActError),
    /// It was in force, failed, and what was before is in force again.
    #[error("generation {to} is in force again")]
    CameBack {
        /// The number in force.
        to: u64,
        /// What failed.
        #[source]
        source: ActError,
    },
    /// It failed and there is nothing to go back to.
    #[error("there is no generation to go back to; offer a better document")]
    Nowhere(#[source] ActError),
    /// It failed, and so did the way back.
    #[error("the way back failed too ({back}); free what is in the way and run `kilnd rollback`")]
    Stuck {
        /// What failed on the way back.
        back: String,
        /// What failed first.
        #[source]
        source: ActError,
    },
    /// The node's own files cannot be read or written. Nothing was changed.
    #[error(transparent)]
    Host(#[from] crate::os::Error),
}

/// What would be done, without doing it.
pub fn plan(node: &Node, offered: &Offered) -> Result<(Offer, Way), NotApplied> {
    let state = remembered(node)?;
    let offer = state.offered(offered.config.metadata.generation, &offered.hash);
    Ok((offer, Way::to(node, &state, &offered.config, &offered.folder(), Pace::Live)?))
}

/// Puts a document in force, or says why not. Where nothing is to be done nothing is written, not even a lock.
pub fn apply(node: &Node, offered: &Offered, consent: Consent) -> Result<Applied, NotApplied> {
    let looked = look(node, offered, consent)?;
    if looked.is_nothing() {
        return Ok(looked.ends(Outcome::Unchanged));
    }
    let _lock = Lock::take(&node.root, LOCK)?;
    // Somebody may have been at work meanwhile.
    let mut looked = look(node, offered, consent)?;
    if looked.is_nothing() {
        return Ok(looked.ends(Outcome::Unchanged));
    }
    match looked.way.plan.verdict() {
        Verdict::Ask | Verdict::Paused if consent == Consent::Offer => return Ok(looked.ends(Outcome::Asked)),
        _ => {}
    }
    let generation = Generation {
        number: offered.config.metadata.generation,
        hash: offered.hash.clone(),
        folder: offered.folder(),
        source: offered.source.clone(),
    };
    put(node, &mut looked, generation)?;
    if let Err(error) = looked.way.finish(node) {
        node.journal.warn(format!("not everything that could wait was done: {error}"));
    }
    prune(node, &looked.state);
    Ok(looked.ends(Outcome::Applied))
}

struct Looked {
    state: State,
    offer: Offer,
    way: Way,
}

impl Looked {
    fn is_nothing(&self) -> bool {
        self.offer == Offer::InForce && self.way.plan.verdict() == Verdict::Nothing
    }

    fn ends(self, outcome: Outcome) -> Applied {
        let generation = self.state.in_force().cloned();
        let is_first = self.way.in_force.is_none();
        Applied { outcome, generation, plan: self.way.plan, state: self.state, is_first }
    }
}

fn look(node: &Node, offered: &Offered, consent: Consent) -> Result<Looked, NotApplied> {
    let state = remembered(node)?;
    let number = offered.config.metadata.generation;
    let offer = state.offered(number, &offered.hash);
    match &offer {
        _ if consent == Consent::Person => {}
        Offer::Outranked { by } => return Err(NotApplied::Outranked { number, by: *by }),
        Offer::Refused { reason } => return Err(NotApplied::CameBackBefore { number, reason: reason.clone() }),
        Offer::InForce | Offer::Take => {}
    }
    let way = Way::to(node, &state, &offered.config, &offered.folder(), Pace::Live)?;
    Ok(Looked { state, offer, way })
}

/// What the node remembers; says so when it had to be pieced together.
pub fn remembered(node: &Node) -> Result<State, crate::os::Error> {
    let loaded = store::load(&node.root)?;
    if let Some(why) = loaded.recovered {
        node.journal.warn(why);
    }
    Ok(loaded.state)
}

/// Writes ahead what is to be in force, then makes it so: whoever is cut off in between goes on at the next start.
fn put(node: &Node, looked: &mut Looked, generation: Generation) -> Result<(), NotApplied> {
    let before = looked.state.clone();
    looked.way.prepare(node, Pace::Live).map_err(NotApplied::Undone)?;
    if looked.offer != Offer::InForce {
        looked.state.forgive(&generation.hash);
        looked.state.tried(generation);
        store::save(&node.root, &looked.state, Durability::Now)?;
    }
    match looked.way.go(node, Pace::Live) {
        Ok(()) => Ok(()),
        Err(error) if looked.offer == Offer::InForce => Err(NotApplied::Undone(error)),
        Err(error) => Err(take_back(node, &before, looked, error)),
    }
}

/// What was before is to be in force again.
fn take_back(node: &Node, before: &State, looked: &Looked, error: ActError) -> NotApplied {
    let state = &looked.state;
    let in_service = matches!(error, ActError::Service(_));
    let target = match before.in_force() {
        Some(generation) => match store::document(&node.root, &generation.folder) {
            Ok(Some(config)) => Some((generation.clone(), config)),
            Ok(None) => None,
            Err(back) => return NotApplied::Stuck { back: back.to_string(), source: error },
        },
        None => None,
    };
    let Some((generation, config)) = target else {
        if in_service {
            return NotApplied::Nowhere(error);
        }
        return match undo(node, looked).and_then(|()| Ok(store::save(&node.root, before, Durability::Now)?)) {
            Ok(()) => NotApplied::Undone(error),
            Err(back) => NotApplied::Stuck { back: back.to_string(), source: error },
        };
    };
    let back = go_to(node, state, &config, &generation.folder);
    let mut after = before.clone();
    if in_service && let Some(trial) = &state.trial {
        // A document that a service does not start with is not tried again by itself; what was on trial before goes on with it.
        let mut failing = State { committed: Some(generation.clone()), trial: Some(trial.clone()), ..before.clone() };
        failing.failed(&error.to_string());
        after.refused = failing.refused;
    }
    match back.and_then(|_| Ok(store::save(&node.root, &after, Durability::Now)?)) {
        Ok(()) if in_service => NotApplied::CameBack { to: generation.number, source: error },
        Ok(()) => NotApplied::Undone(error),
        Err(back) => NotApplied::Stuck { back: back.to_string(), source: error },
    }
}

/// What keeps a node from getting somewhere.
#[derive(Debug, thiserror::Error)]
pub enum NotThere {
    /// There is no way.
    #[error(transparent)]
    NoWay(#[from] NoWay),
    /// A step failed.
    #[error(transparent)]
    Act(#[from] ActError),
}

impl From<crate::os::Error> for NotThere {
    fn from(error: crate::os::Error) -> Self {
        Self::Act(error.into())
    }
}

/// Goes to a document whose folder is there, whatever it costs. A service that does not come up is said; the files are right then. Says
/// what is left to the cluster.
pub fn go_to(node: &Node, state: &State, config: &NodeConfig, folder: &str) -> Result<Vec<Ask>, NotThere> {
    let way = Way::to(node, state, config, folder, Pace::Live)?;
    way.prepare(node, Pace::Live)?;
    for down in way.go_back(node)? {
        node.journal.warn(down.to_string());
    }
    if let Err(error) = way.finish(node) {
        node.journal.warn(format!("not everything that could wait was done: {error}"));
    }
    Ok(way.plan.asks)
}

/// Puts back what a first generation changed outside its folder, and takes its folder away.
fn undo(node: &Node, looked: &Looked) -> Result<(), NotThere> {
    let way = Way::to_nothing(node, &looked.state, &looked.way.desired)?;
    way.go(node, Pace::Live)?;
    for path in &looked.way.new_texts {
        if node.root.read_if_there(path)?.is_some_and(|bytes| bytes.is_empty()) {
            node.root.remove(path, Durability::Now)?;
        }
    }
    node.root.remove_tree(&Generations::folder(&looked.way.folder))?;
    Ok(())
}

/// Takes old generations away. What cannot be taken away is in nobody's way.
pub fn prune(node: &Node, state: &State) {
    let spared: Vec<&str> =
        state.in_force().into_iter().chain(&state.committed).map(|generation| generation.folder.as_str()).collect();
    match Generations::of(&node.root).prune(KEPT, &spared) {
        Ok(gone) if gone.is_empty() => {}
        Ok(gone) => node.journal.say(&format!("removed old generations: {}", gone.join(", "))),
        Err(error) => node.journal.warn(format!("old generations stay: {error}")),
    }
}

impl Applied {
    /// The status of this command.
    pub fn status(&self, command: &str) -> Status {
        let mut status = Status::of(command, self.outcome, &self.state);
        status.pending = self.pending();
        // To a node that was nothing before everything is new; and what is only asked for is not changed.
        if !self.is_first {
            status.effect = Some(self.plan.effect);
        }
        if !self.is_first && self.outcome == Outcome::Applied {
            let changed = |change: &Change| Changed { path: change.path.clone(), effect: change.effect };
            status.changed = self.plan.changes.iter().map(changed).collect();
        }
        status
    }

    /// What somebody else must do.
    pub fn pending(&self) -> Vec<String> {
        self.plan.asks.iter().map(ToString::to_string).collect()
    }

    /// Whether the cluster must do something that the node may not.
    pub fn needs_cluster(&self) -> bool {
        self.plan.asks.iter().any(|ask| !matches!(ask, Ask::Labels { by_node: true, .. }))
    }
}
