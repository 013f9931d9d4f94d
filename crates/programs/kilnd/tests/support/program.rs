//! The program under test. It is a client of the metadata service, so it runs in a network where nobody answers but the test.

use std::path::Path;
use std::process::Command;

/// Where the program is. `networks.rs` knows who may use it besides [`kilnd`].
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kilnd");

/// The program, to be run in the private network of this process.
pub(crate) fn kilnd() -> Command {
    testkit::private().command(PROGRAM)
}

/// The same on a root, with the hardware that is described there.
pub(crate) fn kilnd_on(root: &Path) -> Command {
    let mut command = kilnd();
    for (option, folder) in [("--root", ""), ("--dmi", "dmi"), ("--cd", "cd"), ("--credentials", "credentials")] {
        command.arg(option).arg(root.join(folder));
    }
    command
}
