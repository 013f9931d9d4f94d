//! Blocking an address for forwarded packets, in a private network namespace.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use kiln_machines::network::NetworkNamespace;
use kilnd::os::{Block, Rtnetlink};

const TO: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Calls a test in its own network. [`testkit::private`] is shared, and the tests compare all rules.
fn inside(act: impl FnOnce() + Send) {
    let (namespace, _file) = NetworkNamespace::create().expect("a network namespace");
    let ran = namespace.within(|| {
        act();
        Ok(())
    });
    ran.expect("a network namespace");
}

#[test]
fn address_is_blocked_and_unblocked_and_foreign_rules_are_kept() {
    inside(|| {
        // Foreign rules with the same priorities and the same address.
        for rule in ["pref 5 to 10.9.8.7 lookup 300", "pref 6 to 10.9.8.7 prohibit protocol static", "pref 7 nop"] {
            ip(&format!("rule add {rule}"));
        }
        let before = ip("rule list");
        let to = Block::address(TO.into());
        let table = Rtnetlink::open().expect("a socket");
        assert!(!table.is_blocked(&to).expect("listed"));

        table.block(&to).expect("blocked");
        table.block(&to).expect("idempotent");
        assert!(table.is_blocked(&to).expect("listed"));
        assert!(!table.is_blocked(&Block::address(Ipv4Addr::new(10, 9, 8, 6).into())).expect("listed"));
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
        assert!(!table.is_blocked(&to).expect("listed"));
        table.block(&to).expect("blocked");
        assert_eq!(ip("-details rule list"), blocked);

        ip("rule delete pref 5 to 10.9.8.7 iif lo protocol kernel");
        table.unblock(&to).expect("unblocked");
        table.unblock(&to).expect("idempotent");
        assert!(!table.is_blocked(&to).expect("listed"));
        assert_eq!(ip("rule list"), before, "foreign rules are kept");
    });
}

#[test]
fn ports_are_blocked_next_to_an_address_and_foreign_rules_are_kept() {
    inside(|| {
        ip("rule add pref 2 to 10.9.8.5 ipproto tcp dport 80 lookup 300");
        ip("-6 rule add pref 2 to fd03::5 ipproto tcp dport 80 lookup 300");
        let both = || ip("rule list") + &ip("-6 rule list");
        let before = both();
        let table = Rtnetlink::open().expect("a socket");
        for to in [IpAddr::from([10, 9, 8, 5]), "fd03::5".parse().expect("an address")] {
            let (ports, whole) = (Block::tcp_ports(to, &[80, 32526]), Block::address(to));
            table.block(&ports).expect("blocked");
            assert!(!table.is_blocked(&whole).expect("listed"));
            table.block(&whole).expect("blocked");
            table.unblock(&whole).expect("unblocked");
            assert!(table.is_blocked(&ports).expect("listed"));
            let other = Block::tcp_ports(to, &[81]);
            assert!(!table.is_blocked(&other).expect("listed"));
            table.unblock(&ports).expect("unblocked");
            table.unblock(&ports).expect("idempotent");
        }
        assert_eq!(both(), before, "foreign rules are kept");
    });
}
