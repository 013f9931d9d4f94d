//! `kubectl` against a control plane.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::{ControlPlane, Error};

/// Limits a single request, because `kubectl` waits without a limit for a server that accepts connections and does not answer.
const REQUEST_LIMIT: &str = "--request-timeout=30s";

impl ControlPlane {
    /// A `kubectl` command with admin credentials.
    pub fn kubectl(&self) -> Result<Command, Error> {
        self.kubectl_as(self.kubeconfig())
    }

    /// A `kubectl` command with this kubeconfig.
    pub fn kubectl_as(&self, kubeconfig: &Path) -> Result<Command, Error> {
        let mut command = Command::new(self.programs.find("kubectl")?);
        command
            .env("KUBECONFIG", kubeconfig)
            // Ports are reused, so a cache of an earlier server must not be used.
            .env("KUBECACHEDIR", self.folder().join("kubectl-cache"))
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy");
        Ok(command)
    }

    /// Runs `kubectl` as admin and returns its output.
    pub fn run_kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        run(self.kubectl()?, arguments, "")
    }

    /// Runs `kubectl` with this kubeconfig and standard input, and returns its output.
    pub fn run_kubectl_as(&self, kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<String, Error> {
        run(self.kubectl_as(kubeconfig)?, arguments, input)
    }

    /// Creates or changes objects with `kubectl apply`.
    pub fn apply(&self, object: &Value) -> Result<String, Error> {
        run(self.kubectl()?, &["apply", REQUEST_LIMIT, "-f", "-"], &object.to_string())
    }

    /// The output of `kubectl get … -o json`.
    pub fn get(&self, arguments: &[&str]) -> Result<Value, Error> {
        let arguments = [&["get", REQUEST_LIMIT, "-o", "json"], arguments].concat();
        let text = self.run_kubectl(&arguments)?;
        serde_json::from_str(&text).map_err(|error| Error::Kubectl {
            arguments: arguments.join(" "),
            status: format!("success, but {error}"),
            stderr: text,
        })
    }
}

/// Runs a `kubectl` command with this standard input and returns its output.
pub(crate) fn run(mut command: Command, arguments: &[&str], input: &str) -> Result<String, Error> {
    let line = arguments.join(" ");
    let failed = |source| Error::Command { line: format!("kubectl {line}"), source };
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ends before it has read everything reports its own error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let Output { status, stdout, stderr } = child.wait_with_output().map_err(failed)?;
    if status.success() {
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    } else {
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(Error::Kubectl { arguments: line, status: status.to_string(), stderr })
    }
}
