//! Time, and the network that is not there yet.

use std::time::Duration;

/// Time, and the network that is not there yet. The program gives the real one; tests one in which minutes are instants.
pub trait Wait {
    /// The time since some fixed point, going on while the machine sleeps.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration);

    /// Waits until addresses or routes of the machine change, or the time is over.
    fn network(&self, at_most: Duration);
}
