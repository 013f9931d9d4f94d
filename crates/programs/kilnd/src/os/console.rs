//! The console of the machine, which Azure shows as the serial log of a VM that nobody can log in to.

use std::io::{self, Write as _};

use rustix::fs::{Mode, OFlags};

const CONSOLE: &str = "/dev/console";

/// Writes a line to the console. It never waits: a console that is not read must not stop the boot.
pub fn print(line: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(CONSOLE, flags, Mode::empty())?;
    // A terminal may be in raw mode, where a line feed alone does not return to the first column.
    std::fs::File::from(file).write_all(format!("\r\n{line}\r\n").as_bytes())
}
