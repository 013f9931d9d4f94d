//! The scheduling priority of this process.

use rustix::process::{getpriority_process, setpriority_process};

use crate::os::error::Error;

/// The lowest priority.
const LEAST: i32 = 19;

/// Lowers the priority to the minimum. The unit starts kilnd with a high priority, because the kubelet waits for it.
pub fn lower() -> Result<(), Error> {
    setpriority_process(None, LEAST).map_err(|errno| Error::io("lower the priority of", "this process", errno))
}

/// The nice value, from -20 to 19.
pub fn nice() -> Result<i32, Error> {
    getpriority_process(None).map_err(|errno| Error::io("read the priority of", "this process", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_sets_the_minimum_priority() {
        // In a thread, which has its own priority.
        let after = std::thread::spawn(|| {
            lower().expect("allowed");
            nice().expect("readable")
        });
        assert_eq!(after.join().expect("no panic"), LEAST);
    }
}
