//! The real Helm, with its own folders.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Finished, TestDep, require, run};

use crate::{Rendered, chart};

/// A command takes less than a second; a server under load has needed ten times as long.
const DEADLINE: Duration = Duration::from_mins(3);

/// The real Helm, without access to the developer's cluster and repositories.
#[derive(Debug)]
pub struct Helm {
    home: TempDir,
}

/// The error message of Helm.
#[derive(Debug)]
pub struct HelmError(pub String);

impl Helm {
    /// Helm with an empty home.
    ///
    /// # Panics
    /// If Helm is missing: a test that cannot run fails.
    #[track_caller]
    pub fn new() -> Self {
        let home = TempDir::new().unwrap_or_else(|error| panic!("{error}"));
        let helm = Self { home };
        let version = helm.run(None, &["version", "--short"]).success();
        assert!(version.stdout.starts_with("v3."), "{version}");
        helm
    }

    /// Runs a command, with or without a kubeconfig.
    #[track_caller]
    pub fn run(&self, kubeconfig: Option<&Path>, arguments: &[&str]) -> Finished {
        let mut command = Command::new(require(TestDep::Helm));
        command.args(arguments);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, self.home.path().join(name));
        }
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("HELM_NAMESPACE")
                || text.starts_with("HELM_KUBE")
                || text.to_lowercase().ends_with("_proxy")
            {
                command.env_remove(&name);
            }
        }
        command.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/nonexistent/kubeconfig")));
        // Ports of test servers are reused, so a discovery cache of an earlier server must not be used.
        command.env("HOME", self.home.path());
        run(command, DEADLINE)
    }

    /// Renders the chart for a release `runner` in the namespace `nodes`, with one `--set-json` per value.
    #[track_caller]
    pub fn render(&self, values: &[(&str, Value)]) -> Result<Rendered, HelmError> {
        let sets: Vec<String> = values.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set-json", set]).collect();
        self.template(&sets)
    }

    /// Renders the chart for the same release with more arguments.
    #[track_caller]
    pub fn template(&self, arguments: &[&str]) -> Result<Rendered, HelmError> {
        let chart = chart().display().to_string();
        let all = [&["template", "runner", &chart, "--namespace", "nodes"], arguments].concat();
        let finished = self.run(None, &all);
        if finished.code == Some(0) { Ok(Rendered::new(finished.stdout)) } else { Err(HelmError(finished.stderr)) }
    }
}

impl Default for Helm {
    fn default() -> Self {
        Self::new()
    }
}
