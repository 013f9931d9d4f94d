//! `fsfreeze` of the node. kilnd runs it instead of the system call, which needs unsafe code. It is part of util-linux, which every node has.

use std::path::Path;
use std::process::Command;

use super::FreezeError;

const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// The node's `fsfreeze`.
#[derive(Debug)]
pub(super) struct Fsfreeze {
    pub(super) path: String,
}

impl Fsfreeze {
    /// Finds it in the root folder of this process and runs it once, so that it and its libraries are in memory.
    pub(super) fn find() -> Result<Self, FreezeError> {
        let paths = FOLDERS.iter().map(|folder| format!("{folder}/fsfreeze"));
        let path = paths.into_iter().find(|path| Path::new(path).is_file()).ok_or(FreezeError::NoTool)?;
        let tool = Self { path };
        let shown = tool.command().arg("--version").output();
        match shown {
            Ok(output) if output.status.success() => Ok(tool),
            Ok(output) => Err(tool.failed("--version", "", &output.stderr)),
            Err(source) => {
                Err(FreezeError::Tool { act: "--version".into(), mount: String::new(), why: source.to_string() })
            }
        }
    }

    pub(super) fn freeze(&self, mount: &str) -> Result<(), FreezeError> {
        self.run("--freeze", mount)
    }

    /// Thaws a file system. Returns whether it was frozen.
    pub(super) fn thaw(&self, mount: &str) -> Result<bool, FreezeError> {
        match self.run("--unfreeze", mount) {
            Ok(()) => Ok(true),
            // EINVAL: it is not frozen.
            Err(FreezeError::Tool { why, .. }) if why.contains("Invalid argument") => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn run(&self, act: &str, mount: &str) -> Result<(), FreezeError> {
        match self.command().args([act, mount]).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(self.failed(act, mount, &output.stderr)),
            Err(source) => Err(FreezeError::Tool { act: act.into(), mount: mount.into(), why: source.to_string() }),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        // Its messages are compared.
        command.env("LC_ALL", "C");
        command
    }

    fn failed(&self, act: &str, mount: &str, stderr: &[u8]) -> FreezeError {
        let text = String::from_utf8_lossy(stderr);
        let why = text.trim().strip_prefix("fsfreeze: ").unwrap_or(text.trim()).to_owned();
        FreezeError::Tool { act: act.into(), mount: mount.into(), why }
    }
}
