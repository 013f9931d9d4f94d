//! The script that sets the variables and starts provisioning.

use std::fmt::Write as _;

use super::field::Field;
use super::variables::Variables;
use crate::shell::{self, NulByte, quote};
use crate::{Secret, to_base64};

/// Four names that no field feeds.
pub const FIXED: [(&str, &str); 4] = [
    ("MCR_REPOSITORY_BASE", "mcr.microsoft.com"),
    ("ENABLE_IMDS_RESTRICTION", "false"),
    ("INSERT_IMDS_RESTRICTION_RULE_TO_MANGLE_TABLE", "false"),
    ("CSE_TIMEOUT", "15m"),
];

/// How many seconds the script waits until the image's own script is written, and what it then exits with: both are the contract's.
const WAIT_SECONDS: u32 = 1200;
const WAITED_IN_VAIN: u8 = 100;

const PROVISION: &str = "/opt/azure/containers/provision.sh";
const OUTPUT: &str = "/var/log/azure/cluster-provision-cse-output.log";

/// A value that no script can set.
pub type ScriptError = NulByte;

impl Variables {
    /// The script. It holds secrets.
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

    /// The script as custom data: base64.
    pub fn custom_data(&self) -> Result<Secret, ScriptError> {
        Ok(Secret::new(to_base64(self.script()?.expose())))
    }
}

/// cloud-init writes a file in one go only once it has it whole; its last line says so.
fn wait_for_end(out: &mut String, path: &str) {
    let path = quote(path);
    let _ = writeln!(out, "for ((waited = 0; ; waited++)); do");
    let _ = writeln!(out, "  grep -Fqs EOF {path} && break");
    let _ = writeln!(out, "  if ((waited >= {WAIT_SECONDS})); then exit {WAITED_IN_VAIN}; fi");
    let _ = writeln!(out, "  sleep 1");
    let _ = writeln!(out, "done\nunset waited");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_one_quoted_assignment() {
        let mut variables = Variables::default();
        variables.set(Field::MessageOfTheDay, "it's $HOME\n#EOF").unwrap();
        let script = variables.script().unwrap();
        assert!(script.expose().contains("\nMESSAGE_OF_THE_DAY='it'\\''s $HOME\n#EOF'\n"));
        assert!(script.expose().contains("\nCSE_TIMEOUT='15m'\n"));
    }

    #[test]
    fn a_custom_cloud_is_prepared_before_anything_is_exported() {
        let mut variables = Variables::default();
        variables.set(Field::IsAKSCustomCloud, "true").unwrap();
        variables.set(Field::InitAKSCustomCloudFilepath, "/opt/azure/init cloud.sh").unwrap();
        let script = variables.script().unwrap();
        let position = |text: &str| script.expose().find(text).unwrap();
        assert!(position("  '/opt/azure/init cloud.sh' >>") < position("set -o allexport"));
    }
}
