//! What machines say from the inside.

use std::process::Command;

use super::machines::{machines, said};

/// Runs lines of shell in a machine, which must succeed.
#[track_caller]
pub(crate) fn shell(node: &str, lines: &str) -> String {
    let machine = machines().remove(node).unwrap_or_else(|| panic!("no machine `{node}`"));
    let leader = machine["leader"].as_u64().unwrap_or_else(|| panic!("`{node}` is off")).to_string();
    let namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"];
    let mut command = Command::new("nsenter");
    command.args(["--target", &leader]).args(namespaces).args(["--", "sh", "-euc", lines]).current_dir("/").env_clear();
    let output = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().expect("nsenter runs");
    assert!(output.status.success(), "`{node}`: {lines}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
