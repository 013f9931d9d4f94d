//! The sandbox that local machines run in: private namespaces with a bridge, a gateway and the addresses of a cloud.
//!
//! [`start`] creates the namespaces, [`Init`] is the work of their first process, and [`Sandbox`] is the view of every other process in them:
//! it starts and stops machines. A machine outlives the command that started it, so a running machine is recognised by a lock that its
//! processes hold, not by its parent. `kiln-machines` has the mechanism; the rules of this lifetime are in [`machine`](self).

mod address;
mod dhcp;
mod error;
mod init;
mod machine;
mod platform;
mod qemu;
mod record;
mod start;

pub use address::{GATEWAY, METADATA, WIRE_SERVER, address, number_at};
pub use error::SandboxError;
pub use init::run;
pub use kiln_machines::Error as MachineError;
pub use kiln_machines::tools::program;
pub use record::{Sandbox, SandboxRecord, ToolRoots};
pub use start::{Init, RunningSandbox, start};
