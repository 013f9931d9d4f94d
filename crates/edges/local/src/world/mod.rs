//! The world that machines run in: private namespaces with a bridge, a gateway and the addresses of a cloud.
//!
//! [`enter`] makes the namespaces, [`First`] is what their first process does, and a [`World`] is how every other process in them sees
//! the world: it switches machines on and off. Machines are found again by a lock that they hold, not by who started them.

mod address;
mod command;
mod dhcp;
mod enter;
mod error;
mod first;
mod hardware;
mod machine;
mod processes;
mod qemu;
mod record;
mod tools;

pub use address::{GATEWAY, METADATA, WIRE_SERVER, address, number_at};
pub use enter::{Entered, First, enter};
pub use error::WorldError;
pub use first::run;
pub use record::{Record, Tools, World};
pub use tools::program;
