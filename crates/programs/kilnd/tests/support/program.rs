//! The program under test. It is a client of the metadata service, so it runs in a private network where only the test can answer.

use std::path::Path;
use std::process::Command;

/// The path of the program. `networks.rs` lists the allowed uses besides [`kilnd`].
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kilnd");

/// A command that runs the program in the private network of this process.
pub(crate) fn kilnd() -> Command {
    testkit::private().command(PROGRAM)
}

/// The same on a root that also contains the simulated hardware.
pub(crate) fn kilnd_on(root: &Path) -> Command {
    let mut command = kilnd();
    for (option, folder) in [("--root", ""), ("--dmi", "dmi"), ("--cd", "cd"), ("--credentials", "credentials")] {
        command.arg(option).arg(root.join(folder));
    }
    command
}
