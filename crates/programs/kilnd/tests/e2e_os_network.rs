//! A change of the network is noticed when it happens: in a network namespace of its own.

use std::process::Command;
use std::time::Duration;

use kilnd::os::netlink::Changes;

const INNER: &str = "KILN_TEST_IN_A_NAMESPACE";
const TEST: &str = "a_network_that_comes_up_ends_the_wait_and_so_does_one_that_came_up_before_it";

#[test]
fn a_network_that_comes_up_ends_the_wait_and_so_does_one_that_came_up_before_it() {
    if std::env::var_os(INNER).is_none() {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new("unshare");
        let output = command.arg("--net").arg(program).args(["--exact", TEST, "--nocapture"]).env(INNER, "1").output();
        let output = output.expect("unshare");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let ip = |words: &[&str]| assert!(Command::new("ip").args(words).status().expect("ip").success());
    let changes = Changes::listen().expect("a socket");
    assert!(!changes.wait(Duration::from_millis(20)).expect("waited"), "nothing changes in a network of nobody");
    ip(&["link", "set", "lo", "up"]);
    // Far longer than it takes: whoever waits to the end says that nothing came.
    assert!(changes.wait(Duration::from_mins(1)).expect("waited"));
    while changes.wait(Duration::from_millis(20)).expect("waited") {}
    ip(&["route", "add", "10.9.8.0/24", "dev", "lo"]);
    assert!(changes.wait(Duration::from_mins(1)).expect("waited"));
}
