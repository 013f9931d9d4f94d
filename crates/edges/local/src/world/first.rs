//! The first process of a world: it makes what machines find there, runs a command, and collects whoever ends without a parent.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use rustix::process::{Pid, WaitOptions, wait};

use super::address::{BRIDGE, GATEWAY, METADATA, PREFIX, WIRE_SERVER};
use super::command::finished;
use super::record::{Record, run_folder};
use super::{First, World, WorldError, dhcp};

impl First {
    /// Makes the world around this process, which must be the first of new namespaces. Nothing runs in it yet.
    pub fn make(&self) -> Result<World, WorldError> {
        if std::process::id() != 1 {
            return Err(WorldError::NotFirst);
        }
        self.end_with_our_starter()?;
        let run = run_folder(&self.state);
        finished(Command::new("mount").args(["-t", "proc", "proc", "/proc"]))?;
        finished(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=0700", "tmpfs"]).arg(&run))?;
        for words in [
            "link set lo up".to_owned(),
            format!("link add {BRIDGE} type bridge"),
            format!("address add {GATEWAY}/{PREFIX} dev {BRIDGE}"),
            format!("address add {METADATA}/32 dev {BRIDGE}"),
            format!("address add {WIRE_SERVER}/32 dev {BRIDGE}"),
            format!("link set {BRIDGE} up"),
            // Where answers go to machines that have no address yet.
            format!("route add 255.255.255.255/32 dev {BRIDGE}"),
        ] {
            finished(Command::new("ip").args(words.split(' ')))?;
        }
        dhcp::serve()?;
        let record = Record { group: self.group.clone(), tools: self.tools.clone() };
        let path = run.join("world.json");
        let text = serde_json::to_vec(&record).map_err(|source| WorldError::Record { path: path.clone(), source })?;
        // Complete before anybody else runs here.
        fs::write(&path, text).map_err(WorldError::file(&path))?;
        World::around(&self.state)
    }

    /// The end of the first process ends all others. It must come also where the starter was killed.
    fn end_with_our_starter(&self) -> Result<(), WorldError> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.ends));
        let mut alive = File::open(&path).map_err(WorldError::file(&path))?;
        thread::spawn(move || {
            // Nobody writes there: it ends with whoever could.
            let _ = alive.read_to_end(&mut Vec::new());
            std::process::exit(137);
        });
        Ok(())
    }
}

/// Runs a command to its end and says its code. Everybody else's orphans are collected on the way, as a first process must.
pub fn run(command: &[OsString]) -> Result<i32, WorldError> {
    let [program, arguments @ ..] = command else { return Ok(0) };
    let failed = |source| WorldError::Program { program: program.to_string_lossy().into_owned(), source };
    let child = Command::new(program).args(arguments).spawn().map_err(failed)?;
    let ours = Pid::from_child(&child);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == ours => {
                let killed = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(killed).unwrap_or(1));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_the_first_of_its_processes_makes_no_world() {
        let state = tempfile::tempdir().unwrap();
        // No such file can be open: whoever went on would fail before the first mount.
        let told = First {
            state: state.path().into(),
            group: "none".to_owned(),
            ends: -1,
            tools: super::super::Tools::default(),
        };
        assert!(matches!(told.make(), Err(WorldError::NotFirst)));
    }
}
