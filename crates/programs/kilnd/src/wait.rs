//! Time for those who wait for a service, and the network that is not there yet.

use std::time::Duration;

use kiln_guest::Wait;

/// The machine's own time, or one that runs faster: with a scale of 1000 a service that is down for two minutes costs a test 0.12 s.
#[derive(Clone, Copy, Debug)]
pub struct Scaled {
    /// How many times faster.
    pub scale: u32,
}

impl Wait for Scaled {
    fn now(&self) -> Duration {
        kiln_host::clock::boot_time().saturating_mul(self.scale)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time / self.scale);
    }

    fn network(&self, at_most: Duration) {
        // Where nothing can be listened to, the time is all that is left.
        if kiln_host::netlink::wait(at_most / self.scale).is_err() {
            self.sleep(at_most);
        }
    }
}
