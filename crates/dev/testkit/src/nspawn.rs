//! Machines for tests: a real systemd, booted from an overlay over [`TestDep::NodeRoot`](crate::TestDep) in a second.
//!
//! A machine has its own processes, mounts, control groups and network. In that network nobody answers but the test: an address of the
//! cloud is on its loopback device, and [`Network::listen`](crate::Network::listen) listens there. Everything is gone when the [`Machine`] is dropped, and
//! also when the test is killed.
//!
//! ```no_run
//! use testkit::nspawn::Blueprint;
//!
//! let machine = Blueprint::new("example").file("/etc/motd", "hello").boot();
//! machine.settled();
//! assert_eq!(machine.shell("cat /etc/motd").stdout, "hello");
//! ```
//!
//! Needs root. The machine's kernel is that of the host: what it has no namespaces for (most of `/proc/sys`) is read-only, unless
//! [`Blueprint::pretend`] puts a file in its place. **A service with a mount namespace of its own (`Protect…=`) may get a fresh `/proc`,
//! which has neither limit: what it sets there is set on the host.** Let such services set nothing but the network's settings, which are
//! the machine's own.

mod blueprint;
mod http;
mod keeper;
mod machine;
mod processes;

pub use blueprint::Blueprint;
pub use http::{Request, Response, Server};
pub use machine::Machine;
