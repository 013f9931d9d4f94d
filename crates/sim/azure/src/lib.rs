//! The embedded Azure: ARM, Entra, the metadata service and the wire server in one process, with simulated VMs that boot.
//!
//! [`Sim`] answers requests; `serve` exposes it on sockets. The simulated state is plain data: time is an input of each request, and
//! changes are written to a journal before the response is sent.

mod arm;
mod clock;
mod compute;
mod control;
mod entra;
mod faults;
mod imds;
mod inspect;
mod machines;
mod network;
mod seed;
pub mod serve;
mod sim;
pub mod tls;
mod wire;
mod world;
mod yaml;

pub use arm::guardrails::{Lock, LockLevel};
pub use clock::Speed;
pub use compute::community::{CommunityImage, CommunityVersion};
pub use control::ControlError;
pub use faults::{FaultKind, FaultPlan, Rule as FaultRule};
pub use kiln_sim_store::JournalError;
pub use machines::{BootView, MachineView, PowerView};
pub use sim::{OpenError, OperationView, Options, Reply, Sim};
pub use world::contents::Contents;
pub use world::contents_spec::{ContentsSpec, Defect, Updates};
pub use world::pool::{ExtensionSpec, PoolSpec, Taint};
pub use world::profile::{Profile, Stage, StageCondition};
pub use world::spec::{Client, ForeignSubscription, Identity, Region, ResourceSpec, Subnet, WorldSpec};
