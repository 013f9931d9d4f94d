//! The script that sets the variables and starts provisioning.

use std::fmt::Write as _;

use super::field::Field;
use super::variables::Variables;
use crate::shell::{self, NulByte, quote};
use crate::{Secret, to_base64};

/// Variables without a field.
pub const FIXED: [(&str, &str); 4] = [
    ("MCR_REPOSITORY_BASE", "mcr.microsoft.com"),
    ("ENABLE_IMDS_RESTRICTION", "false"),
    ("INSERT_IMDS_RESTRICTION_RULE_TO_MANGLE_TABLE", "false"),
    ("CSE_TIMEOUT", "15m"),
];

/// Time limit for the image's provisioning script to be written, and the exit code afterwards. Both are defined by AKS.
const WAIT_SECONDS: u32 = 1200;
const EXIT_TIMEOUT: u8 = 100;

const PROVISION: &str = "/opt/azure/containers/provision.sh";
const OUTPUT: &str = "/var/log/azure/cluster-provision-cse-output.log";

/// Error of rendering the script.
pub type ScriptError = NulByte;

impl Variables {
    /// Renders the script, which contains secrets.
    pub fn script(&self) -> Result<Secret, ScriptError> {
        let mut out = String::from("#!/bin/bash\n");
        out.push_str("echo '#EOF' >>/opt/azure/manifest.json\n");
        out.push_str("mkdir -p /var/log/azure/Microsoft.Azure.Extensions.CustomScript/events\n");
        let _ = writeln!(out, "echo \"$(date),$(hostname)\" >{OUTPUT}");
        wait_for_end(&mut out, PROVISION);
        if self.is_true(Field::IsAKSCustomCloud) {
            let path = self.get(Field::InitAKSCustomCloudFilepath);
            wait_for_end(&mut out, path);
            let _ = writeln!(out, "REPO_DEPOT_ENDPOINT={} \\", quote(self.get(Field::AKSCustomCloudRepoDepotEndpoint)));
            let _ = writeln!(out, "  {} >>/var/log/azure/cluster-provision.log 2>&1", quote(path));
        }
        out.push_str("set -o allexport\n");
        for (name, text) in self.assignments() {
            out.push_str(&shell::assignment(&name, text)?);
        }
        out.push_str("/usr/bin/nohup /bin/bash -c '/bin/bash /opt/azure/containers/provision_start.sh'\n");
        Ok(Secret::new(out))
    }

    /// Renders the script as base64-encoded custom data.
    pub fn custom_data(&self) -> Result<Secret, ScriptError> {
        Ok(Secret::new(to_base64(self.script()?.expose())))
    }
}

/// Appends a loop that waits until cloud-init has written a file completely, which its last line (`#EOF`) indicates.
fn wait_for_end(out: &mut String, path: &str) {
    let path = quote(path);
    let _ = writeln!(out, "for ((waited = 0; ; waited++)); do");
    let _ = writeln!(out, "  grep -Fqs EOF {path} && break");
    let _ = writeln!(out, "  if ((waited >= {WAIT_SECONDS})); then exit {EXIT_TIMEOUT}; fi");
    let _ = writeln!(out, "  sleep 1");
    let _ = writeln!(out, "done\nunset waited");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_quoted_assignments() {
        let mut variables = Variables::default();
        variables.set(Field::MessageOfTheDay, "it's $HOME\n#EOF").unwrap();
        let script = variables.script().unwrap();
        assert!(script.expose().contains("\nMESSAGE_OF_THE_DAY='it'\\''s $HOME\n#EOF'\n"));
        assert!(script.expose().contains("\nCSE_TIMEOUT='15m'\n"));
    }

    #[test]
    fn custom_cloud_is_initialized_before_variables_are_exported() {
        let mut variables = Variables::default();
        variables.set(Field::IsAKSCustomCloud, "true").unwrap();
        variables.set(Field::InitAKSCustomCloudFilepath, "/opt/azure/init cloud.sh").unwrap();
        let script = variables.script().unwrap();
        let position = |text: &str| script.expose().find(text).unwrap();
        assert!(position("  '/opt/azure/init cloud.sh' >>") < position("set -o allexport"));
    }
}
