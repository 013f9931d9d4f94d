//! A shell with `az` in it: a configuration of its own, and the embedded Azure as its cloud.

use serde_json::Value;
use tempfile::TempDir;
use testkit::Finished;

use crate::azure::{Azure, Running};

/// The pool of the default world.
pub(crate) const POOL: &str = "k8s-agentpool1-26100436-vmss";

pub(crate) struct Session {
    pub(crate) azure: Running,
    configuration: TempDir,
}

impl Session {
    /// Registers the cloud and selects it. Nobody is logged in.
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

    /// Logged in as the world's first service principal.
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

    /// A text of the ready line.
    #[track_caller]
    pub(crate) fn key(&self, name: &str) -> &str {
        self.azure.sim.key(name)
    }

    /// Runs a command; whether it failed is for the caller to judge.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.run_with(arguments, &[])
    }

    /// The same, with more variables.
    #[track_caller]
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
        let mut all = vec![
            ("REQUESTS_CA_BUNDLE", self.key("caFile")),
            // The authority is none that instance discovery knows.
            ("AZURE_CORE_INSTANCE_DISCOVERY", "false"),
        ];
        all.extend_from_slice(variables);
        testkit::az(self.configuration.path(), arguments, &all)
    }

    /// Runs a command line in the resource group and gives what it prints; words are separated by spaces.
    #[track_caller]
    pub(crate) fn in_group(&self, line: &str) -> Finished {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.extend(["--resource-group", self.key("resourceGroup")]);
        self.run(&words)
    }

    /// The same for a command that must succeed and print JSON.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.in_group(line).success().json()
    }

    /// The same for a command whose output is of no interest.
    #[track_caller]
    pub(crate) fn done(&self, line: &str) {
        let _ = self.in_group(line).success();
    }
}
