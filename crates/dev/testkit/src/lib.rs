//! Runs outside clients, built programs and machines in tests. A missing test dependency fails the test, and nothing is left behind.

mod cases;
mod clients;
mod finished;
pub mod guide;
mod identity;
mod network;
pub mod nspawn;
pub mod openapi;
pub mod recordings;
mod require;
mod script;
mod sim;

pub use clients::{az, go_sdk, javascript, python};
pub use finished::{Finished, run};
pub use identity::IDENTITY;
pub use network::{Network, assert_private, private};
pub use require::{require, tier};
pub use script::script;
pub use sim::{Kiln, SimProcess};
pub use test_deps::{TestDep, Tier};
