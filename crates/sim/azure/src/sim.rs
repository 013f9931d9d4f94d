//! The embedded Azure as one object that handles one request at a time.

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

/// The reaction to a request.
#[derive(Debug)]
pub enum Reply {
    Answer(Response<Bytes>),
    /// The connection breaks. The request may have been processed.
    Reset,
}

impl Reply {
    /// Returns the response, or `None` for a broken connection.
    pub fn answer(self) -> Option<Response<Bytes>> {
        match self {
            Self::Answer(response) => Some(response),
            Self::Reset => None,
        }
    }
}

/// Options of a simulation.
#[derive(Debug, Clone)]
pub struct Options {
    pub speed: Speed,
    /// The wall time at the start: the origin of a new simulation's clock, and the base of token times.
    pub wall: Timestamp,
    /// The seed of everything that looks random.
    pub seed: u64,
    pub faults: FaultPlan,
}

impl Options {
    /// Speed `instant` and no faults.
    pub fn instant(wall: Timestamp) -> Self {
        Self { speed: Speed::Instant, wall, seed: 1, faults: FaultPlan::default() }
    }
}

/// A long-running operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView {
    pub target: String,
    /// Start, in simulated time.
    pub started: Timestamp,
    /// End, in simulated time.
    pub ends: Timestamp,
    /// Whether it failed; `None` while it is running.
    pub failed: Option<bool>,
}

/// An error of creating or opening a simulation.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The state folder cannot be used.
    #[error(transparent)]
    Log(#[from] JournalError),
    /// Azure would reject a resource of the world file.
    #[error("{0}")]
    World(String),
}

/// An embedded Azure. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Sim(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    wall: Timestamp,
    state: Mutex<State>,
}

/// The state that requests work on.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) log: Option<Journal>,
    pub(crate) throttle: Throttle,
    pub(crate) faults: Faults,
    /// For request ids, which are not part of the simulated state.
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    /// Wall time of this request.
    pub(crate) wall: Timestamp,
    /// Tokens issued before this time are rejected, because of the fault that expires tokens early.
    pub(crate) tokens_from: Timestamp,
    pub(crate) key: entra::Key,
    pub(crate) imds: imds::Limits,
}

impl Sim {
    /// Creates a simulation in memory.
    pub fn new(spec: WorldSpec, options: Options) -> Result<Self, OpenError> {
        Self::build(spec, options, |_| Ok((None, false)))
    }

    /// Opens the simulation in a state folder, or creates it if the folder is new. Everything that was acknowledged before a crash is
    /// restored.
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

    /// Answers a request to ARM or Entra.
    pub fn arm(&self, mut request: Request<Bytes>) -> Reply {
        // HTTP/2 has the host in the URI only.
        if let Some(host) = request.uri().authority().and_then(|authority| authority.as_str().parse().ok()) {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        let mut state = self.lock_current();
        let reply = match entra::answer(&mut state, &request) {
            Some(response) => Reply::Answer(response),
            None => arm::answer(&mut state, request),
        };
        Self::commit(&mut state, reply)
    }

    /// Answers a request to the metadata service. The VM is identified by its address or by a `/vm/NAME` prefix.
    pub fn imds(&self, peer: Option<IpAddr>, request: &Request<Bytes>) -> Reply {
        let mut state = self.lock_current();
        let response = imds::answer(&mut state, peer, request);
        Self::commit(&mut state, Reply::Answer(response))
    }

    /// Answers a request to the wire server. The VM is identified as in [`Sim::imds`].
    pub fn wire(&self, peer: Option<IpAddr>, request: &Request<Bytes>) -> Reply {
        let mut state = self.lock_current();
        let response = wire::answer(&mut state, peer, request);
        Self::commit(&mut state, Reply::Answer(response))
    }

    /// Returns the simulated time after processing everything that is due.
    pub fn now(&self) -> Timestamp {
        self.lock_current().world.now
    }

    /// Lists all long-running operations in the order of their start.
    pub fn operations(&self) -> Vec<OperationView> {
        let state = self.lock_current();
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

    /// Lists all VMs.
    pub fn machines(&self) -> Vec<MachineView> {
        machines::list(&self.lock_current().world)
    }

    /// Returns every resource with the body that was last written, including fields that no client can read.
    pub fn stored(&self) -> BTreeMap<String, Value> {
        let state = self.lock_current();
        let all = state.world.resources.iter().map(|(_, resource)| resource);
        all.map(|resource| (resource.id.to_string(), Value::Object(resource.body.clone()))).collect()
    }

    /// Returns the planned faults that have not affected any request.
    pub fn unfired_faults(&self) -> Vec<crate::FaultRule> {
        self.lock().faults.unfired()
    }

    /// Returns the world file with all defaults filled in.
    pub fn spec(&self) -> Arc<WorldSpec> {
        self.lock().world.spec.clone()
    }

    /// Locks the state and advances it to the current time.
    pub(crate) fn lock_current(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.world.advance(self.0.clock.now());
        state.wall = self.0.clock.wall(self.0.wall);
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A handler that panicked is reported by its test; other requests may continue.
        self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn save(state: &mut State) -> Result<(), JournalError> {
        let State { log, world, .. } = state;
        let Some(log) = log else {
            world.discard_changes_of_tables();
            return Ok(());
        };
        log.commit(world)
    }

    /// Writes the changes to disk before the response is sent.
    fn commit(state: &mut State, reply: Reply) -> Reply {
        match Self::save(state) {
            Ok(()) => reply,
            Err(error) => {
                eprintln!("cannot save the state, resetting the connection of this request: {error}");
                Reply::Reset
            }
        }
    }
}
