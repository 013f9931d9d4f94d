//! Machines for tests: a real systemd, booted in a second from an overlay over [`TestDep::NodeRoot`](crate::TestDep).
//!
//! A machine has its own processes, mounts, control groups and network. Only the test answers in that network: the addresses of a cloud are
//! on its loopback device, and [`Network::listen`](crate::Network::listen) listens there. Everything is removed when the [`Machine`] is
//! dropped, and also when the test is killed. `kiln-machines` runs the machine; this module adds assertions and convenience.
//!
//! ```no_run
//! use testkit::nspawn::Blueprint;
//!
//! let machine = Blueprint::new("example").file("/etc/motd", "hello").boot();
//! machine.settled();
//! assert_eq!(machine.shell("cat /etc/motd").stdout, "hello");
//! ```
//!
//! Needs root. The kernel is the host's: settings without a namespace (most of `/proc/sys`) are read-only, unless [`Blueprint::pretend`] puts
//! a file in their place. **A service with its own mount namespace (`Protect…=`) may get a fresh `/proc` without that protection: what
//! it sets there is set on the host.** Let such services change only the settings of the network, which are the machine's own.

mod blueprint;
mod http;
mod machine;

pub use blueprint::Blueprint;
pub use http::{Request, Response, Server};
pub use machine::Machine;
