//! Blocking an address for forwarded packets, in a private network namespace.

use std::net::Ipv4Addr;
use std::process::Command;

use kilnd::os::Rtnetlink;

const TO: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn address_is_blocked_and_unblocked_and_foreign_rules_are_kept() {
    testkit::private().inside(|| {
        // Foreign rules with the same priorities and the same address.
        for rule in ["pref 5 to 10.9.8.7 lookup 300", "pref 6 to 10.9.8.7 prohibit protocol static", "pref 7 nop"] {
            ip(&format!("rule add {rule}"));
        }
        let before = ip("rule list");
        let table = Rtnetlink::open().expect("a socket");
        assert!(!table.is_blocked(TO).expect("listed"));

        table.block(TO).expect("blocked");
        table.block(TO).expect("idempotent");
        assert!(table.is_blocked(TO).expect("listed"));
        assert!(!table.is_blocked(Ipv4Addr::new(10, 9, 8, 6)).expect("listed"));
        let blocked = ip("-details rule list");
        for rule in [
            "5:\tfrom all to 10.9.8.7 iif lo goto 7",
            "6:\tfrom all to 10.9.8.7 prohibit",
            "7:\tfrom all to 10.9.8.7 nop",
        ] {
            let line = format!("{rule} proto kernel");
            assert_eq!(blocked.lines().filter(|known| *known == line).count(), 1, "{line}\n{blocked}");
        }

        // If one rule is missing the address does not count as blocked, and only the missing rule is added.
        ip("rule delete pref 6 to 10.9.8.7 prohibit protocol kernel");
        assert!(!table.is_blocked(TO).expect("listed"));
        table.block(TO).expect("blocked");
        assert_eq!(ip("-details rule list"), blocked);

        ip("rule delete pref 5 to 10.9.8.7 iif lo protocol kernel");
        table.unblock(TO).expect("unblocked");
        table.unblock(TO).expect("idempotent");
        assert!(!table.is_blocked(TO).expect("listed"));
        assert_eq!(ip("rule list"), before, "foreign rules are kept");
    });
}
