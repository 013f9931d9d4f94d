//! The first process of a sandbox: it sets up the network, runs a command, and reaps processes without a parent.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use kiln_machines::command;
use rustix::process::{Pid, WaitOptions, wait};

use super::address::{BRIDGE, GATEWAY, METADATA, PREFIX, WIRE_SERVER};
use super::record::{SandboxRecord, record_path, run_folder};
use super::{Init, Sandbox, SandboxError, dhcp};

impl Init {
    /// Sets up the sandbox around this process, which must be the first of new namespaces.
    pub fn set_up(&self) -> Result<Sandbox, SandboxError> {
        if std::process::id() != 1 {
            return Err(SandboxError::NotFirst);
        }
        self.end_with_starter()?;
        command::run(Command::new("mount").args(["-t", "proc", "proc", "/proc"]))?;
        let run = run_folder(&self.state);
        command::run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=0700", "tmpfs"]).arg(&run))?;
        for words in [
            "link set lo up".to_owned(),
            format!("link add {BRIDGE} type bridge"),
            format!("address add {GATEWAY}/{PREFIX} dev {BRIDGE}"),
            format!("address add {METADATA}/32 dev {BRIDGE}"),
            format!("address add {WIRE_SERVER}/32 dev {BRIDGE}"),
            format!("link set {BRIDGE} up"),
            // For DHCP answers to machines that have no address yet.
            format!("route add 255.255.255.255/32 dev {BRIDGE}"),
        ] {
            command::run(Command::new("ip").args(words.split(' ')))?;
        }
        dhcp::serve()?;
        let record = SandboxRecord { group: self.group.clone(), tools: self.tools.clone() };
        let path = record_path(&self.state);
        let text = serde_json::to_vec(&record).map_err(|source| SandboxError::Record { path: path.clone(), source })?;
        // No other process runs here yet, so none can read half of it.
        fs::write(&path, text).map_err(SandboxError::file(&path))?;
        Sandbox::current(&self.state)
    }

    /// Ends this process, and with it every process of the sandbox, when the starter has closed its end of the pipe or was killed.
    fn end_with_starter(&self) -> Result<(), SandboxError> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.lifeline));
        let mut lifeline = File::open(&path).map_err(SandboxError::file(&path))?;
        thread::spawn(move || {
            // The starter never writes.
            let _ = lifeline.read_to_end(&mut Vec::new());
            std::process::exit(137);
        });
        Ok(())
    }
}

/// Runs a command and returns its exit code. Meanwhile it reaps the orphans of the sandbox, as a first process must.
pub fn run(command: &[OsString]) -> Result<i32, SandboxError> {
    let [program, arguments @ ..] = command else { return Ok(0) };
    let name = program.to_string_lossy();
    let child = Command::new(program).args(arguments).spawn().map_err(SandboxError::spawn(&name))?;
    let own = Pid::from_child(&child);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == own => {
                let killed = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(killed).unwrap_or(1));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(SandboxError::spawn(&name)(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_is_not_the_first_of_its_namespace_is_refused() {
        let state = tempfile::tempdir().unwrap();
        // No file descriptor has this number: without the check, this would fail before the first mount.
        let tools = super::super::ToolRoots::default();
        let init = Init { state: state.path().into(), group: "none".to_owned(), lifeline: -1, tools };
        assert!(matches!(init.set_up(), Err(SandboxError::NotFirst)));
    }
}
