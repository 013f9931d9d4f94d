//! The local factory: the operations of the engine on a state folder.
//!
//! An operation is complete when it returns, so its handle always names a completed operation. If it is killed half-way, it leaves documents
//! that describe the wanted state; the same operation, or the next that reads the pool, completes it.

mod admin;
mod canaries;
mod factory;
mod gallery;
mod instances;
mod machines;
mod pools;
mod reconcile;
mod snapshots;
mod user_data;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kiln_types::{OperationHandle, OperationState, Revision};

use crate::error::Error;
use crate::files::Lock;
use crate::layers::{LayerId, Layers, QemuImg, empty_trash};
use crate::records::MachineRecord;
use crate::runner::{MachineConfig, MachineKey, MachineRunner};
use crate::store::{LockedStore, Store};

pub use admin::{MachineSummary, PoolSpec};

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns a new UUID.
pub type NewId = Arc<dyn Fn() -> String + Send + Sync>;

/// The dependencies of a local factory.
#[derive(Clone)]
pub struct LocalOptions {
    pub clock: Clock,
    pub new_id: NewId,
    pub qemu_img: QemuImg,
}

impl fmt::Debug for LocalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalOptions").field("qemu_img", &self.qemu_img).finish_non_exhaustive()
    }
}

/// The local factory. `P` starts and stops its machines.
#[derive(Debug)]
pub struct Local<P> {
    state: State,
    runner: Arc<P>,
}

impl<P> Clone for Local<P> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), runner: self.runner.clone() }
    }
}

/// The documents and disks of the factory: everything but running machines.
#[derive(Debug, Clone)]
struct State {
    store: Store,
    layers: Layers,
    options: LocalOptions,
}

impl State {
    fn new_layer(&self) -> Result<LayerId, Error> {
        (self.options.new_id)().parse()
    }

    fn now(&self) -> String {
        (self.options.clock)().to_string()
    }

    fn machine_config(&self, machine: &MachineRecord) -> MachineConfig {
        MachineConfig {
            name: machine.name.clone(),
            computer_name: machine.computer_name.clone(),
            vm_id: machine.vm_id.clone(),
            kind: machine.kind,
            disk: Layers::path(self.store.files(), machine.kind, &machine.disk),
            number: machine.number,
            custom_data: machine.custom_data.as_ref().map(|kept| kept.0.clone()),
            cores: machine.size.cores,
            memory_mib: machine.size.memory_mib,
        }
    }
}

impl<P: MachineRunner> Local<P> {
    /// A factory with an open state folder.
    pub fn new(store: Store, runner: Arc<P>, options: LocalOptions) -> Self {
        let layers = Layers { qemu_img: options.qemu_img.clone() };
        Self { state: State { store, layers, options }, runner }
    }

    /// The state folder.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Starts and stops the machines.
    pub fn runner(&self) -> &P {
        &self.runner
    }

    /// Calls `work` on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let own = self.state.clone();
        tokio::task::spawn_blocking(move || work(&own)).await?
    }

    /// Calls `work` with the lock on all documents.
    async fn locked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State, &LockedStore<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.blocking(move |state| work(state, &state.store.lock()?)).await
    }

    /// Calls `work` with the lock on all documents, then removes layers that no document refers to.
    async fn locked_then_swept<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State, &LockedStore<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.blocking(move |state| {
            let store = state.store.lock()?;
            let done = work(state, &store)?;
            Layers::sweep(&store)?;
            drop(store);
            empty_trash(state.store.files())?;
            Ok(done)
        })
        .await
    }

    /// Takes the lock for starting or stopping a machine, or for copying its disk.
    async fn lock_machine(&self, machine: &MachineKey) -> Result<Lock, Error> {
        let machine = machine.clone();
        self.blocking(move |state| state.store.machine_lock(&machine)).await
    }
}

/// The handle of an operation that was complete when it returned.
const COMPLETED: &str = "local:completed";

fn completed() -> OperationHandle {
    OperationHandle::new(COMPLETED)
}

fn observe_handle(handle: &OperationHandle) -> Result<OperationState, Error> {
    if handle.as_str() == COMPLETED {
        return Ok(OperationState::Succeeded);
    }
    let rule = "it belongs to another factory; resume the run with the factory that started it";
    Err(Error::Invalid { noun: "operation", text: handle.as_str().to_owned(), rule })
}

/// Refuses a change that is based on an older revision.
fn require_revision(
    noun: &'static str,
    name: &impl fmt::Display,
    expected: Option<&Revision>,
    current: u64,
) -> Result<(), Error> {
    if expected.is_some_and(|expected| expected.as_str() == current.to_string()) {
        return Ok(());
    }
    let expected = expected.map_or_else(|| "none".to_owned(), ToString::to_string);
    Err(Error::Changed { noun, name: name.to_string(), expected, current })
}

fn revision(number: u64) -> Revision {
    Revision::new(number.to_string())
}
