//! Azure's own clients, which reach only loopback.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use test_deps::TestDep;

use crate::{Finished, require, run};

/// `az` needs seconds per command on a busy host, and an SDK script may poll for a minute.
const DEADLINE: Duration = Duration::from_mins(10);

/// A proxy that does not exist: nothing listens on the discard port.
const DEAD_END: &str = "http://127.0.0.1:9";

/// Runs a Python script with the Azure SDK. A script that fails also fails the test, which shows its output.
#[track_caller]
pub fn python(script: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(require(TestDep::PythonSdk));
    command.arg(script).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    seal(&mut command);
    command.envs(variables.iter().copied());
    run(command, DEADLINE).success()
}

/// Runs a `CommonJS` script with the Azure SDK for JavaScript. A script that fails also fails the test, which shows its output.
#[track_caller]
pub fn javascript(script: &Path, variables: &[(&str, &str)]) -> Finished {
    let node = require(TestDep::JavaScriptSdk);
    let packages = node.ancestors().nth(2).unwrap_or(&node).join("node_modules");
    let mut command = Command::new(node);
    command.arg(script);
    seal(&mut command);
    command.env("NODE_PATH", packages).envs(variables.iter().copied());
    run(command, DEADLINE).success()
}

/// Runs the program with the Azure SDK for Go, `tools/azure-sdk-go`. If it fails, the test also fails and shows its output.
#[track_caller]
pub fn go_sdk(variables: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(require(TestDep::GoSdk));
    seal(&mut command);
    command.envs(variables.iter().copied());
    run(command, DEADLINE).success()
}

/// Runs an `az` command with its configuration in a folder of the test. The caller checks whether it failed.
#[track_caller]
pub fn az(configuration: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(require(TestDep::AzureCli));
    command.args(arguments);
    seal(&mut command);
    command
        .env("AZURE_CONFIG_DIR", configuration)
        .env("AZURE_CORE_COLLECT_TELEMETRY", "no")
        .env("AZURE_CORE_NO_COLOR", "true")
        .envs(variables.iter().copied());
    run(command, DEADLINE)
}

/// Removes the developer's clouds and credentials from a command's environment, and sends every request that is not for loopback to a proxy
/// that does not exist.
pub(crate) fn seal(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_foreign) {
            command.env_remove(name);
        }
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, DEAD_END);
    }
    for name in ["NO_PROXY", "no_proxy"] {
        command.env(name, "localhost,127.0.0.1,::1");
    }
}

fn is_foreign(name: &str) -> bool {
    const PREFIXES: [&str; 7] = ["AZURE_", "ARM_", "MSI_", "IDENTITY_", "IMDS_", "KUBE", "NODE_"];
    const NAMES: [&str; 5] = ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn developers_cloud_settings_are_removed() {
        for name in
            ["AZURE_CLIENT_SECRET", "ARM_TENANT_ID", "IDENTITY_ENDPOINT", "KUBECONFIG", "SSL_CERT_FILE", "NODE_OPTIONS"]
        {
            assert!(is_foreign(name), "{name}");
        }
        for name in ["PATH", "HOME", "XDG_CACHE_HOME", "CARGO_HOME"] {
            assert!(!is_foreign(name), "{name}");
        }
    }
}
