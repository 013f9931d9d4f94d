//! An Azure in one process, and a world that boots VMs.
//!
//! [`Sim`] takes requests and gives answers; `serve` puts it behind sockets. The world inside is plain data: time comes in with
//! each request, what changed goes to a log before the answer leaves.

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

pub use clock::Speed;
pub use compute::community::{CommunityImage, CommunityVersion};
pub use control::ControlError;
pub use faults::{FaultPlan, Kind as FaultKind, Rule as FaultRule};
pub use kiln_sim_store::JournalError;
pub use machines::{BootView, MachineView, PowerView};
pub use sim::{OpenError, OperationView, Options, Reply, Sim};
pub use world::contents::Contents;
pub use world::contents_spec::{ContentsSpec, Defect, Updates};
pub use world::pool::{ExtensionSpec, PoolSpec, Taint};
pub use world::profile::{Profile, Stage, When};
pub use world::spec::{Client, ForeignSubscription, Identity, Region, ResourceSpec, Subnet, WorldSpec};
