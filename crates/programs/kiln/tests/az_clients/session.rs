//! A session of `az` with its own configuration and the embedded Azure as its cloud.

use serde_json::Value;
use tempfile::TempDir;
use testkit::Finished;

use crate::azure::{Azure, Running};

/// The pool of the default world file.
pub(crate) const POOL: &str = "k8s-agentpool1-26100436-vmss";

pub(crate) struct Session {
    pub(crate) azure: Running,
    configuration: TempDir,
}

impl Session {
    /// Registers the cloud and selects it, without a login.
    #[track_caller]
    pub(crate) fn new(azure: Azure) -> Self {
        let session = Self { azure: azure.start(), configuration: TempDir::new().unwrap() };
        let arm = session.key("arm");
        let mut register = vec!["cloud", "register", "--name", "kiln"];
        for option in [
            "--endpoint-resource-manager",
            "--endpoint-active-directory",
            "--endpoint-active-directory-resource-id",
            "--endpoint-active-directory-graph-resource-id",
            "--endpoint-management",
        ] {
            register.extend([option, arm]);
        }
        let _ = session.run(&register).success();
        let _ = session.run(&["cloud", "set", "--name", "kiln"]).success();
        session
    }

    /// Logs in as the first service principal.
    #[track_caller]
    pub(crate) fn logged_in(azure: Azure) -> Self {
        let session = Self::new(azure);
        let _ = session.log_in(session.key("clientSecret")).success();
        session
    }

    #[track_caller]
    pub(crate) fn log_in(&self, secret: &str) -> Finished {
        let (client, tenant) = (self.key("clientId"), self.key("tenantId"));
        self.run(&["login", "--service-principal", "--username", client, "--password", secret, "--tenant", tenant])
    }

    /// A string of the ready line.
    #[track_caller]
    pub(crate) fn key(&self, name: &str) -> &str {
        self.azure.sim.key(name)
    }

    /// Runs a command. The caller checks whether it failed.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.run_with(arguments, &[])
    }

    /// Like [`Self::run`], with additional environment variables.
    #[track_caller]
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
        let mut all = vec![
            ("REQUESTS_CA_BUNDLE", self.key("caFile")),
            // Instance discovery does not know the authority.
            ("AZURE_CORE_INSTANCE_DISCOVERY", "false"),
        ];
        all.extend_from_slice(variables);
        testkit::az(self.configuration.path(), arguments, &all)
    }

    /// Runs a command line, split at spaces, in the resource group.
    #[track_caller]
    pub(crate) fn in_group(&self, line: &str) -> Finished {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(["--resource-group", self.key("resourceGroup")]);
        self.run(&words)
    }

    /// Like [`Self::in_group`], for a command that must succeed and print JSON.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.in_group(line).success().json()
    }

    /// Like [`Self::in_group`], for a command that must succeed.
    #[track_caller]
    pub(crate) fn done(&self, line: &str) {
        let _ = self.in_group(line).success();
    }
}
