//! Time, and the network that is not there yet.

use std::time::Duration;

use crate::os;

/// Time, and the network that is not there yet. The program gives the real one; tests one in which minutes are instants.
pub trait Wait {
    /// The time since some fixed point, going on while the machine sleeps.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration);

    /// Waits until addresses or routes of the machine change, or the time is over.
    fn network(&self, at_most: Duration);
}

/// The machine's own time, or one that runs faster: with a scale of 1000 a service that is down for two minutes costs a test 0.12 s.
#[derive(Clone, Copy, Debug)]
pub struct Scaled {
    /// How many times faster.
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
        // Where nothing can be listened to, the time is all that is left.
        if os::netlink::wait(at_most / self.scale).is_err() {
            self.sleep(at_most);
        }
    }
}
