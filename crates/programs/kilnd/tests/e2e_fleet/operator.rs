//! `kiln operator` as a process that the test kills and starts again.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::chart::NAMESPACE;

/// The kiln next to kilnd in the target folder, built now if it is missing.
pub(crate) fn kiln() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_kilnd")).with_file_name("kiln");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "--offline", "--package", "kiln"]).status();
        assert!(built.is_ok_and(|status| status.success()) && path.exists(), "`{}` was not built", path.display());
    }
    path
}

/// The operator, as the kubelet would run it: a container that is restarted keeps the name of its pod, and so its lease.
#[derive(Debug)]
pub(crate) struct Operator {
    program: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
    process: Option<Child>,
}

impl Operator {
    /// An operator that does not run yet.
    pub(crate) fn new(kubeconfig: PathBuf, log: PathBuf) -> Self {
        Self { program: kiln(), kubeconfig, log, process: None }
    }

    #[track_caller]
    pub(crate) fn start(&mut self) {
        assert!(self.process.is_none(), "the operator runs already");
        let log: File = OpenOptions::new().create(true).append(true).open(&self.log).expect("a log");
        // It ends with this thread, also when the test is killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program).args(["operator", "--kubeconfig"]);
        command.arg(&self.kubeconfig).args(["--namespace", NAMESPACE, "--identity", "kiln-operator-0"]);
        command.args(["--lease-seconds", "5", "--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().expect("setpriv"));
    }

    /// Ends the process with SIGKILL. It ran until now.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("a running operator");
        assert_eq!(process.try_wait().expect("a child"), None, "the operator ended by itself\n{}", self.log());
        process.kill().expect("killed");
        process.wait().expect("a child");
    }

    /// The log of all its processes.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
