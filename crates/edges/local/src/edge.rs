//! The engine's verbs on this machine.
//!
//! A verb does its work before it returns, so that its handle names something that ended. Killed half way it leaves documents that say what
//! was wanted; the same verb, or whoever looks at the pool next, completes it.

mod admin;
mod canaries;
mod factory;
mod gallery;
mod instances;
mod machines;
mod pools;
mod reconcile;
mod snapshots;

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

/// What the time is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Makes a UUID that nobody has.
pub type NewId = Arc<dyn Fn() -> String + Send + Sync>;

/// What a factory on this machine is provisioned with.
#[derive(Clone)]
pub struct LocalOptions {
    /// What the time is.
    pub clock: Clock,
    /// Makes UUIDs.
    pub new_id: NewId,
    /// How `qemu-img` is run.
    pub qemu_img: QemuImg,
}

impl fmt::Debug for LocalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalOptions").field("qemu_img", &self.qemu_img).finish_non_exhaustive()
    }
}

/// Machines on this machine.
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

/// Documents and disks: everything but power.
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
    /// Works on a state folder.
    pub fn new(store: Store, runner: Arc<P>, options: LocalOptions) -> Self {
        let layers = Layers { qemu_img: options.qemu_img.clone() };
        Self { state: State { store, layers, options }, runner }
    }

    /// The state folder.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// What switches its machines.
    pub fn runner(&self) -> &P {
        &self.runner
    }

    /// Does something with documents and disks where it may block.
    async fn state<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let own = self.state.clone();
        tokio::task::spawn_blocking(move || work(&own)).await?
    }

    /// The same with all documents store.
    async fn locked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State, &LockedStore<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.state(move |state| work(state, &state.store.lock()?)).await
    }

    /// The same, and layers that nobody names afterwards are removed.
    async fn locked_then_swept<T: Send + 'static>(
        &self,
        work: impl FnOnce(&State, &LockedStore<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.state(move |state| {
            let store = state.store.lock()?;
            let done = work(state, &store)?;
            Layers::sweep(&store)?;
            drop(store);
            empty_trash(state.store.files())?;
            Ok(done)
        })
        .await
    }

    /// Keeps everybody else from switching a machine or copying its disk.
    async fn lock_machine(&self, machine: &MachineKey) -> Result<Lock, Error> {
        let machine = machine.clone();
        self.state(move |state| state.store.machine_lock(&machine)).await
    }
}

/// The handle of what ended before it was returned.
const COMPLETED: &str = "local:completed";

fn completed() -> OperationHandle {
    OperationHandle::new(COMPLETED)
}

fn observe_handle(handle: &OperationHandle) -> Result<OperationState, Error> {
    if handle.as_str() == COMPLETED {
        return Ok(OperationState::Succeeded);
    }
    let rule = "it may be of a cloud: continue the run where it was begun";
    Err(Error::BadText { noun: "operation", text: handle.as_str().to_owned(), rule })
}

/// Refuses a write by who did not see the last one.
fn require_revision(
    noun: &'static str,
    name: &impl fmt::Display,
    seen: Option<&Revision>,
    now: u64,
) -> Result<(), Error> {
    match seen {
        Some(seen) if seen.as_str() == now.to_string() => Ok(()),
        seen => {
            let seen = seen.map_or_else(|| "none".to_owned(), ToString::to_string);
            Err(Error::Changed { noun, name: name.to_string(), seen, now })
        }
    }
}

fn revision(number: u64) -> Revision {
    Revision::new(number.to_string())
}
