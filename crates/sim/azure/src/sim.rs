//! The embedded Azure as one object: requests in, answers out, one at a time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kiln_sim_store::{Ids, Journal, JournalError};
use serde_json::Value;

use crate::arm::throttle::Throttle;
use crate::clock::{Clock, Speed};
use crate::faults::{FaultPlan, Faults};
use crate::machines::MachineView;
use crate::world::World;
use crate::world::spec::WorldSpec;
use crate::{arm, entra, imds, machines, seed, wire};

/// What a caller gets.
#[derive(Debug)]
pub enum Reply {
    Answer(Response<Bytes>),
    /// The connection breaks; what was asked for may have happened.
    Reset,
}

impl Reply {
    /// The answer, or `None` for a broken connection.
    pub fn answer(self) -> Option<Response<Bytes>> {
        match self {
            Self::Answer(response) => Some(response),
            Self::Reset => None,
        }
    }
}

/// How a world is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How fast its time goes.
    pub speed: Speed,
    /// Wall time now: where a new world's clock starts, and what tokens are dated by.
    pub wall: Timestamp,
    /// Names what looks random.
    pub seed: u64,
    /// What goes wrong.
    pub faults: FaultPlan,
}

impl Options {
    /// No waiting and no faults.
    pub fn instant(wall: Timestamp) -> Self {
        Self { speed: Speed::Instant, wall, seed: 1, faults: FaultPlan::default() }
    }
}

/// A long operation as the world knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView {
    /// The resource that it is about.
    pub target: String,
    /// When it began, in world time.
    pub started: Timestamp,
    /// When it ends or ended.
    pub ends: Timestamp,
    /// Whether it failed; `None` while it runs.
    pub failed: Option<bool>,
}

/// Why a world cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its state folder cannot be used.
    #[error(transparent)]
    Log(#[from] JournalError),
    /// Azure would refuse something that its file asks for.
    #[error("{0}")]
    World(String),
}

/// An Azure. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Sim(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    wall: Timestamp,
    state: Mutex<State>,
}

/// Everything that a request may touch.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) log: Option<Journal>,
    pub(crate) throttle: Throttle,
    pub(crate) faults: Faults,
    /// For request ids: they are not part of the world.
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    /// Wall time of this request.
    pub(crate) wall: Timestamp,
    /// Tokens issued before this are no longer taken: the fault that lets them expire early.
    pub(crate) tokens_from: Timestamp,
    pub(crate) key: entra::Key,
    pub(crate) imds: imds::Limits,
}

impl Sim {
    /// A new world in memory.
    pub fn new(spec: WorldSpec, options: Options) -> Result<Self, OpenError> {
        Self::build(spec, options, |_| Ok((None, false)))
    }

    /// The world in a state folder, made there when the folder is new. What was answered before a crash is there again.
    pub fn open(folder: &Path, spec: WorldSpec, options: Options) -> Result<Self, OpenError> {
        let path = folder.join("world.log");
        Self::build(spec, options, |world| Journal::open(&path, world).map(|(log, found)| (Some(log), found)))
    }

    fn build(
        spec: WorldSpec,
        options: Options,
        load: impl FnOnce(&mut World) -> Result<(Option<Journal>, bool), JournalError>,
    ) -> Result<Self, OpenError> {
        let throttling = spec.throttling.unwrap_or(options.speed != Speed::Instant);
        let mut world = World::empty(Arc::new(spec), options.wall, options.seed);
        let (mut log, found) = load(&mut world)?;
        world.index();
        if !found {
            seed::fill(&mut world).map_err(OpenError::World)?;
        }
        if let Some(log) = &mut log {
            log.commit(&mut world)?;
        }
        world.keep_previous = options.faults.reads_stale();
        let clock = Clock::new(options.speed, world.now.max(options.wall));
        let state = State {
            throttle: Throttle::new(throttling),
            faults: Faults::new(options.faults, options.seed),
            ids: Ids::new(options.seed ^ 0x7265_7175_6573_7473),
            clock,
            wall: options.wall,
            tokens_from: options.wall - SignedDuration::from_hours(24),
            key: entra::Key::new(options.seed),
            imds: imds::Limits::default(),
            world,
            log,
        };
        Ok(Self(Arc::new(Inner { clock, wall: options.wall, state: Mutex::new(state) })))
    }

    /// What ARM and Entra answer.
    pub fn arm(&self, mut request: Request<Bytes>) -> Reply {
        // HTTP/2 names the host in the URI alone.
        if let Some(host) = request.uri().authority().and_then(|authority| authority.as_str().parse().ok()) {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        let mut state = self.turn();
        let reply = match entra::answer(&mut state, &request) {
            Some(response) => Reply::Answer(response),
            None => arm::answer(&mut state, request),
        };
        Self::commit(&mut state, reply)
    }

    /// What the metadata service answers to a machine, told by its address or by a `/vm/NAME` prefix.
    pub fn imds(&self, peer: Option<IpAddr>, request: &Request<Bytes>) -> Reply {
        let mut state = self.turn();
        let response = imds::answer(&mut state, peer, request);
        Self::commit(&mut state, Reply::Answer(response))
    }

    /// What the wire server answers to a machine, told like that of [`Sim::imds`].
    pub fn wire(&self, peer: Option<IpAddr>, request: &Request<Bytes>) -> Reply {
        let mut state = self.turn();
        let response = wire::answer(&mut state, peer, request);
        Self::commit(&mut state, Reply::Answer(response))
    }

    /// World time after everything that is due.
    pub fn now(&self) -> Timestamp {
        self.turn().world.now
    }

    /// All long operations so far, in the order of their beginning.
    pub fn operations(&self) -> Vec<OperationView> {
        let state = self.turn();
        let mut all: Vec<OperationView> = state
            .world
            .operations
            .iter()
            .map(|(_, operation)| OperationView {
                target: operation.target.to_string(),
                started: operation.started,
                ends: operation.ends,
                failed: operation.outcome.as_ref().map(Result::is_err),
            })
            .collect();
        all.sort_by_key(|operation| operation.started);
        all
    }

    /// All machines as they are now.
    pub fn machines(&self) -> Vec<MachineView> {
        machines::of(&self.turn().world)
    }

    /// Every resource by its id, with the body that was last written: more than any client may read.
    pub fn stored(&self) -> BTreeMap<String, Value> {
        let state = self.turn();
        let all = state.world.resources.iter().map(|(_, resource)| resource);
        all.map(|resource| (resource.id.to_string(), Value::Object(resource.body.clone()))).collect()
    }

    /// The world's file, with all defaults filled in.
    pub fn spec(&self) -> Arc<WorldSpec> {
        self.lock().world.spec.clone()
    }

    /// The planned faults that have not hit any request.
    pub fn unfired_faults(&self) -> Vec<crate::FaultRule> {
        self.lock().faults.unfired()
    }

    /// The state, with the world brought up to date.
    pub(crate) fn turn(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.world.advance(self.0.clock.now());
        state.wall = self.0.clock.wall(self.0.wall);
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A handler that panicked is a bug that its test shows; the others go on.
        self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn save(state: &mut State) -> Result<(), JournalError> {
        let State { log: Some(log), world, .. } = state else { return Ok(()) };
        log.commit(world)
    }

    /// Nothing is acknowledged that is not on disk.
    fn commit(state: &mut State, reply: Reply) -> Reply {
        match Self::save(state) {
            Ok(()) => reply,
            Err(error) => {
                eprintln!("the world could not be saved, so this request is not acknowledged: {error}");
                Reply::Reset
            }
        }
    }
}
