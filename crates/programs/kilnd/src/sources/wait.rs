//! Time, and waiting for the network.

use std::time::Duration;

use crate::os;

/// Time, and waiting for the network. Tests use a virtual clock.
pub trait Wait {
    /// A monotonic time that includes suspension.
    fn now(&self) -> Duration;

    /// Sleeps.
    fn sleep(&self, time: Duration);

    /// Waits until addresses or routes change, at most this long.
    fn network(&self, at_most: Duration);
}

/// The real clock, or a faster one for tests: with a scale of 1000 an outage of two minutes takes 0.12 s.
#[derive(Clone, Copy, Debug)]
pub struct Scaled {
    pub scale: u32,
}

impl Wait for Scaled {
    fn now(&self) -> Duration {
        os::clock::boot_time().saturating_mul(self.scale)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time / self.scale);
    }

    fn network(&self, at_most: Duration) {
        // Without rtnetlink, only wait.
        if os::netlink::wait(at_most / self.scale).is_err() {
            self.sleep(at_most);
        }
    }
}
