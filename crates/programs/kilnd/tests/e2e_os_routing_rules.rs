//! An address that is closed to those whose packets the machine forwards, in a network namespace of its own.

use std::net::Ipv4Addr;
use std::process::Command;

use kilnd::os::Rtnetlink;

const TO: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_address_is_closed_and_opened_again_and_rules_of_others_stay() {
    testkit::private().inside(|| {
        // The same places and the same address, by others.
        for rule in ["pref 5 to 10.9.8.7 lookup 300", "pref 6 to 10.9.8.7 prohibit protocol static", "pref 7 nop"] {
            ip(&format!("rule add {rule}"));
        }
        let before = ip("rule list");
        let table = Rtnetlink::open().expect("a socket");
        assert!(!table.is_blocked(TO).expect("listed"));

        table.block(TO).expect("closed");
        table.block(TO).expect("it is already");
        assert!(table.is_blocked(TO).expect("listed"));
        assert!(!table.is_blocked(Ipv4Addr::new(10, 9, 8, 6)).expect("listed"));
        let closed = ip("-details rule list");
        for rule in [
            "5:\tfrom all to 10.9.8.7 iif lo goto 7",
            "6:\tfrom all to 10.9.8.7 prohibit",
            "7:\tfrom all to 10.9.8.7 nop",
        ] {
            let line = format!("{rule} proto kernel");
            assert_eq!(closed.lines().filter(|known| *known == line).count(), 1, "{line}\n{closed}");
        }

        // Without one of them it is not whole, and what is missing comes back alone.
        ip("rule delete pref 6 to 10.9.8.7 prohibit protocol kernel");
        assert!(!table.is_blocked(TO).expect("listed"));
        table.block(TO).expect("closed");
        assert_eq!(ip("-details rule list"), closed);

        ip("rule delete pref 5 to 10.9.8.7 iif lo protocol kernel");
        table.unblock(TO).expect("opened");
        table.unblock(TO).expect("it is already");
        assert!(!table.is_blocked(TO).expect("listed"));
        assert_eq!(ip("rule list"), before, "rules of others stay");
    });
}
