//! Image versions: prototype runs, their records, and the machines of rollouts with an image version.
//!
//! - [`ImageWork`]: what the operator needs of a cloud; `edge` implements it with the operations of this crate, so a Prototype runs with the engine, the lease
//!   and the journal of `kiln prototype`
//! - `readings`: what was read last of each scale set, and the jobs that change one, one at a time
//! - `observe`: from a reading to what [`kiln_rollout::next`] reads; `records`: to ImageVersions; `prototypes`: the runs
//!
//! Nothing here has state that must survive: a run is continued from its journal, and jobs are decided again from what exists.

mod edge;
mod observe;
mod prototypes;
mod readings;
mod records;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kiln_prototype::journal::Run;
use kiln_types::{InstanceId, PoolName, VersionNumber};

use crate::run::{AutoRequest, PoolReport};
use crate::{Error, PoolReading};

pub(super) use observe::{nodes, observe_pool, provider_id, scale_set, target};
pub(super) use readings::{ImageState, Images, Job};

/// How rollouts and prototypes of an operator without images are answered.
pub(super) const OFF: &str = "this operator does not work with images; start it with `kiln operator --images`, or set `operator.images` to true in the chart";

/// A pool as the cloud and its journal show it.
#[derive(Debug, Clone)]
pub struct ImageReading {
    pub reading: PoolReading,
    /// Runs in the journal, oldest first.
    pub runs: Vec<Run>,
}

/// What the operator needs of a cloud. [`Context`](crate::Context) implements it for every factory.
pub trait ImageWork: Send + Sync {
    /// The node that the operator runs on.
    fn own_node(&self) -> Option<&str>;
    /// Reads a pool.
    fn read<'a>(&'a self, pool: &'a PoolName) -> BoxFuture<'a, Result<ImageReading, Error>>;
    /// Continues the open run of the pool, or chooses a donor and starts one.
    fn run(&self, request: AutoRequest) -> BoxFuture<'_, Result<Vec<PoolReport>, Error>>;
    /// Adds machines until the pool has this many.
    fn grow<'a>(&'a self, pool: &'a PoolName, to: u32) -> BoxFuture<'a, Result<(), Error>>;
    /// Deletes machines and lowers the capacity accordingly.
    fn remove<'a>(&'a self, pool: &'a PoolName, instances: &'a [InstanceId]) -> BoxFuture<'a, Result<(), Error>>;
    /// Rejects a version, returns new machines to the version before it, and pauses the pool.
    fn reject<'a>(
        &'a self,
        pool: &'a PoolName,
        version: &'a VersionNumber,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// How the operator works with images.
#[derive(Clone)]
pub struct ImageOptions {
    pub work: Arc<dyn ImageWork>,
    /// How often a pool with an open rollout of an image version is read.
    pub interval: Duration,
    /// How often other pools are read.
    pub idle: Duration,
}

impl ImageOptions {
    /// Azure allows about 900 lists of instances in 30 minutes to all clients of a subscription.
    pub const INTERVAL: Duration = Duration::from_secs(30);
    /// Versions change once a day.
    pub const IDLE: Duration = Duration::from_mins(5);

    /// Options with defaults.
    pub fn new(work: Arc<dyn ImageWork>) -> Self {
        Self { work, interval: Self::INTERVAL, idle: Self::IDLE }
    }
}

impl fmt::Debug for ImageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageOptions")
            .field("interval", &self.interval)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}
