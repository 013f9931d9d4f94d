//! Who goes first on a busy processor.

use rustix::process::{getpriority_process, setpriority_process};

use crate::os::error::Error;

/// As little as a program can ask for while others want the processor.
const LEAST: i32 = 19;

/// Lets everybody else go first from now on. A unit may have started this program before all others, because they waited for it.
pub fn lower() -> Result<(), Error> {
    setpriority_process(None, LEAST).map_err(|errno| Error::io("lower the priority of", "this process", errno))
}

/// How far this program stands back: 19 at most, -20 for one that goes before all others.
pub fn standing_back() -> Result<i32, Error> {
    getpriority_process(None).map_err(|errno| Error::io("read the priority of", "this process", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_way_stands_back_as_far_as_possible() {
        // In a thread: its priority is its own, and ends with it.
        let after = std::thread::spawn(|| {
            lower().expect("allowed to everybody");
            standing_back().expect("readable")
        });
        assert_eq!(after.join().expect("no panic"), LEAST);
    }
}
