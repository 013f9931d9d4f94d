//! Commands in machines.

use std::process::Command;

use super::machines::{machines, output_of};

/// Runs a shell script in a machine, which must succeed, and returns its output.
#[track_caller]
pub(crate) fn shell(node: &str, lines: &str) -> String {
    let machine = machines().remove(node).unwrap_or_else(|| panic!("no machine `{node}`"));
    let leader = machine["leader"].as_u64().unwrap_or_else(|| panic!("`{node}` is not running")).to_string();
    let namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"];
    let mut command = Command::new("nsenter");
    command.args(["--target", &leader]).args(namespaces).args(["--", "sh", "-euc", lines]).current_dir("/").env_clear();
    let output = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().expect("nsenter runs");
    assert!(output.status.success(), "`{node}`: {lines}: {}", output_of(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
