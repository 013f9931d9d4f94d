//! `qemu-img`, which makes and joins qcow2 files.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// What a qcow2 file begins with.
const MAGIC: [u8; 4] = *b"QFI\xfb";

/// How `qemu-img` is run: the program with what comes before its own arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuImg {
    words: Vec<OsString>,
}

impl Default for QemuImg {
    fn default() -> Self {
        Self::new(["qemu-img"])
    }
}

impl QemuImg {
    /// A program, and arguments that come before all others: `chroot ROOT qemu-img` where QEMU lives in a system of its own that sees
    /// the state folder and the bases under the same paths.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect() }
    }

    /// An empty file above another.
    pub(crate) fn create(&self, file: &Path, backing: &Path) -> Result<(), Error> {
        let format = format_of(&file.parent().unwrap_or(file).join(backing))?;
        let mut command = self.command(["create", "-q", "-f", "qcow2", "-F", format]);
        command.arg("-b").arg(backing).arg(file);
        finished(command)
    }

    /// What a file and those below it hold beyond `backing`, in one new file above it. `convert -B` would take the uppermost file alone.
    pub(crate) fn join(&self, from: &Path, file: &Path, backing: &Path) -> Result<(), Error> {
        self.create(file, from)?;
        let mut command = self.command(["rebase", "-q", "-f", "qcow2", "-F", format_of(backing)?]);
        command.arg("-b").arg(backing).arg(file);
        finished(command)
    }

    fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let (program, rest) = self.words.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
        let mut command = Command::new(program.cloned().unwrap_or_else(|| "qemu-img".into()));
        command.args(rest).args(arguments).stdin(Stdio::null());
        command
    }
}

/// It is said to `qemu-img` and not left to be guessed at every start: what a guest writes to a raw disk could be taken for a header.
fn format_of(path: &Path) -> Result<&'static str, Error> {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    read.map_err(Error::io("read", path))?;
    Ok(if start == MAGIC { "qcow2" } else { "raw" })
}

pub(super) fn finished(mut command: Command) -> Result<(), Error> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let failed = |message: String| Error::Tool { line: line.clone(), message };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{}: {}", output.status, said.trim())))
}
