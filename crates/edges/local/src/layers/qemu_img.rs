//! `qemu-img`, which creates and joins qcow2 files.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use kiln_machines::command;

use crate::error::Error;

/// The first bytes of a qcow2 file.
const MAGIC: [u8; 4] = *b"QFI\xfb";

/// The words that run `qemu-img`.
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
    /// A program and its first arguments, such as a loader and its options for a `qemu-img` of another root folder.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect() }
    }

    /// Creates an empty file on a backing file.
    pub(crate) fn create(&self, file: &Path, backing: &Path) -> Result<(), Error> {
        let format = detect_format(&file.parent().unwrap_or(file).join(backing))?;
        let mut command = self.command(["create", "-q", "-f", "qcow2", "-F", format]);
        command.arg("-b").arg(backing).arg(file);
        Ok(command::run(&mut command)?)
    }

    /// Creates a file on `backing` with the changes of `from` and all files between. `convert -B` would copy only those of `from`.
    pub(crate) fn join(&self, from: &Path, file: &Path, backing: &Path) -> Result<(), Error> {
        self.create(file, from)?;
        let mut command = self.command(["rebase", "-q", "-f", "qcow2", "-F", detect_format(backing)?]);
        command.arg("-b").arg(backing).arg(file);
        Ok(command::run(&mut command)?)
    }

    fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let (program, rest) = self.words.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
        let mut command = Command::new(program.cloned().unwrap_or_else(|| "qemu-img".into()));
        command.args(rest).args(arguments);
        command
    }
}

/// The format of a disk file. It is always passed to `qemu-img`, which would otherwise guess: a guest can write a qcow2 header to a raw disk.
fn detect_format(path: &Path) -> Result<&'static str, Error> {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    read.map_err(Error::io("read", path))?;
    Ok(if start == MAGIC { "qcow2" } else { "raw" })
}
