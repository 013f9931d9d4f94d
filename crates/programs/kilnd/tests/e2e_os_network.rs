//! Waiting for a network change, in a private network namespace.

use std::process::Command;
use std::time::Duration;

use kilnd::os::netlink::Changes;

const INNER: &str = "KILN_TEST_IN_A_NAMESPACE";
const TEST: &str = "network_change_ends_the_wait_even_if_it_precedes_the_wait";

#[test]
fn network_change_ends_the_wait_even_if_it_precedes_the_wait() {
    if std::env::var_os(INNER).is_none() {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new("unshare");
        let output = command.arg("--net").arg(program).args(["--exact", TEST, "--nocapture"]).env(INNER, "1").output();
        let output = output.expect("unshare");
        let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        return;
    }
    let ip = |args: &[&str]| assert!(Command::new("ip").args(args).status().expect("ip").success());
    let changes = Changes::listen().expect("a socket");
    assert!(!changes.wait(Duration::from_millis(20)).expect("waited"), "nothing changes in an empty network");
    ip(&["link", "set", "lo", "up"]);
    // Far longer than needed: a timeout returns false.
    assert!(changes.wait(Duration::from_mins(1)).expect("waited"));
    while changes.wait(Duration::from_millis(20)).expect("waited") {}
    ip(&["route", "add", "10.9.8.0/24", "dev", "lo"]);
    assert!(changes.wait(Duration::from_mins(1)).expect("waited"));
}
